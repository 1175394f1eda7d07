"""CREATE TABLE ... WITH: which connector a statement names, and its source or sink.

Options are the arguments of the functions that programs call, by their names: `'path'` of
`rh.files.source`. So a connector has no options of its own in SQL.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from rheos.connectors.registration import CONNECTORS, ConnectorRegistration
from rheos.core.connectors.contract import Sink, Source
from rheos.core.errors import RheosError
from rheos.sql.options import call_with_options
from rheos.sql.text import SqlText


@dataclass(frozen=True)
class WithOptions:
    """The contents of WITH."""

    connector: ConnectorRegistration
    options: Mapping[str, exp.Expr]
    """All options except the connector."""
    at: exp.Expr
    partitioned_by: tuple[str, ...] = ()
    """Columns of PARTITIONED BY, which the functions receive as `partition_by`."""

    @property
    def name(self) -> str:
        """Name of the connector."""
        return self.connector.name

    def source(self, sql: SqlText, schema: pa.Schema) -> Source:
        """Return the source of the table. Raises ProgramError."""
        functions = self.connector.functions
        if not {"source", "changes"} & {*functions}:
            raise sql.error(
                "this connector has no source, so its tables are write-only", self.at, _known()
            )
        what = "source" if "source" in functions else "changes"
        made = self._called(sql, what, {"schema": schema})
        if not isinstance(made, Source):
            raise sql.error(f"the connector made a {type(made).__name__}, not a source", self.at)
        return made

    def sink(self, sql: SqlText) -> Sink:
        """Return the sink of the table. Raises ProgramError."""
        if "sink" not in self.connector.functions:
            raise sql.error(
                "this connector has no sink, so its tables are read-only", self.at, _known()
            )
        made = self._called(sql, "sink", {})
        if not isinstance(made, Sink):
            raise sql.error(f"the connector made a {type(made).__name__}, not a sink", self.at)
        return made

    def _called(self, sql: SqlText, what: str, given: Mapping[str, object]) -> object:
        try:
            function = self.connector.function(what)
        except RheosError as error:
            raise sql.error(error.what, self.at, error.hint) from error
        if self.partitioned_by:
            if "partition_by" not in inspect.signature(function).parameters:
                raise sql.error(
                    f"a {what} of this connector has no partition columns",
                    self.at,
                    "leave out PARTITIONED BY",
                )
            given = {**given, "partition_by": self.partitioned_by}
        spelled = self.connector.sql_options
        return call_with_options(sql, function, self.options, self.at, given=given, spelled=spelled)


def _known() -> str:
    return f"the connectors are {', '.join(CONNECTORS.names())}"


def with_options(sql: SqlText, node: exp.Create) -> WithOptions:
    """Return the connector and the options of a table. Raises ProgramError."""
    properties = node.args.get("properties")
    hint = "write CREATE TABLE t (...) WITH ('connector' = 'files', 'path' = 'data/*.jsonl')"
    if properties is None:
        raise sql.error("CREATE TABLE needs WITH (...), which names the connector", node.this, hint)
    options: dict[str, exp.Expr] = {}
    partitioned_by: tuple[str, ...] = ()
    for each in properties.expressions:
        if isinstance(each, exp.PartitionedByProperty):
            partitioned_by = _partition_columns(sql, each, node.this)
            continue
        if not isinstance(each, exp.Property) or not isinstance(each.args["value"], exp.Literal):
            raise sql.error("the value of an option must be a string", each, hint)
        if each.name.lower() in options:
            raise sql.error(f"the option {each.name!r} is set twice", each, "leave out one of them")
        options[each.name.lower()] = each.args["value"]
    if partitioned_by and (option := options.get("partition_by")):
        raise sql.error("PARTITIONED BY sets this option, too", option, "leave out one of them")
    named = options.pop("connector", None)
    if named is None:
        raise sql.error("WITH does not name a connector", properties, hint)
    try:
        connector = CONNECTORS.find(named.name.lower())
    except RheosError as error:
        raise sql.error(error.what, named, error.hint) from error
    if connector is None:
        names = CONNECTORS.names()
        raise sql.unknown("connector", named.name, named, names, "the connectors are")
    return WithOptions(connector, options, named, partitioned_by)


def _partition_columns(
    sql: SqlText, node: exp.PartitionedByProperty, table: exp.Schema
) -> tuple[str, ...]:
    columns = [each.name for each in table.expressions if isinstance(each, exp.ColumnDef)]
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else [node.this]
    for each in listed or [node]:
        if not isinstance(each, exp.Identifier):
            raise sql.error(
                "PARTITIONED BY lists names of columns", each, "declare the column with the others"
            )
        if each.name not in columns:
            raise sql.unknown("column", each.name, each, columns, "the columns are")
    return tuple(each.name for each in listed)
