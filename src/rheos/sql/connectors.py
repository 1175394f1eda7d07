"""CREATE TABLE ... WITH: which connector a statement names, and its source or sink.

Options are the arguments of the functions that programs call, by their names: `'path'` of
`rh.files.source`. So a connector has no options of its own in SQL.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from rheos.connectors.registration import CONNECTORS, ConnectorRegistration
from rheos.core.connectors.contract import Sink, Source
from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import RheosError
from rheos.sql.database_parser import PlainProperty
from rheos.sql.options import call_with_options, for_function
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.sql.catalog import DeclaredTable


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

    @property
    def reads_changes(self) -> bool:
        """Whether the table's rows are changes: its connector has no other source, or the option
        `changes` requests them."""
        chosen = self.options.get("changes") if self._may_read_changes else None
        return "source" not in self.connector.functions or (
            chosen is not None and chosen.name.casefold() == "true"
        )

    @property
    def _may_read_changes(self) -> bool:
        """Whether the option `changes` chooses between two functions of the connector."""
        return {"source", "changes"} <= {*self.connector.functions}

    def source(self, table: DeclaredTable) -> Source:
        """Return the source of the table. Raises ProgramError."""
        sql = table.sql
        functions = self.connector.functions
        if not {"source", "changes"} & {*functions}:
            raise sql.error(
                "this connector has no source, so its tables are write-only",
                self.at,
                _list_connectors(),
            )
        what = "changes" if self.reads_changes else "source"
        given: dict[str, object] = {"schema": table.schema, "key_columns": table.key}
        if table.metadata:
            given["metadata"] = {of: column for column, of in table.metadata.items()}
        time = None if table.watermark is None else str(table.watermark.on)
        made = self._called(sql, what, given, time)
        if not isinstance(made, Source):
            raise sql.error(f"the connector created a {type(made).__name__}, not a source", self.at)
        return made

    def sink(self, table: DeclaredTable) -> Sink:
        """Return the sink of the table. Raises ProgramError."""
        sql = table.sql
        if "sink" not in self.connector.functions:
            raise sql.error(
                "this connector has no sink, so its tables are read-only", self.at, _list_connectors()
            )
        fields = {of: column for column, of in table.metadata.items() if column in table.writable}
        named = self.connector.sql_key
        key = {} if named in self.options else {named: table.key}
        made = self._called(sql, "sink", {**fields, **key})
        if not isinstance(made, Sink):
            raise sql.error(f"the connector created a {type(made).__name__}, not a sink", self.at)
        return made

    def lookup(self, sql: SqlText, schema: pa.Schema, keys: Sequence[str]) -> Lookup:
        """Return the lookup of columns by some of them. Raises ProgramError."""
        named = self.connector.sql_lookup_key
        assert named is not None, "only such connectors look rows up"
        given = {named: keys, "columns": schema.names, "schema": schema}
        made = self._called(sql, "lookup", given)
        if not isinstance(made, Lookup):
            raise sql.error(f"the connector created a {type(made).__name__}, not a lookup", self.at)
        return made

    def _called(
        self, sql: SqlText, what: str, given: Mapping[str, object], time: str | None = None
    ) -> object:
        """Return the source or sink. `time` is the event-time column of a source."""
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
        parameters = inspect.signature(function).parameters
        for name in ("metadata", "timestamp", "headers"):
            if name in given and name not in parameters:
                raise sql.error(
                    f"a {what} of this connector has no metadata", self.at, "leave out METADATA"
                )
        of_table = dict(self.options)
        chosen = of_table.pop("changes", None) if self._may_read_changes else None
        if chosen is not None and chosen.name.casefold() not in ("true", "false"):
            raise sql.error(
                f"{chosen.name!r} is not a value of 'changes'", chosen, "write 'true' or 'false'"
            )
        if "lookup" in self.connector.functions:
            # The planner reads how a lookup is called.
            of_table = {name: at for name, at in of_table.items() if not name.startswith("lookup.")}
        options, several = for_function(sql, self.connector, what, of_table)
        named = {name.replace("-", "_"): value.name for name, value in options.items()}
        if (
            named.get("on_error") == "skip"
            and time is not None
            and isinstance(schema := given.get("schema"), pa.Schema)
        ):
            # A row without event time is bad, too.
            fields = [each.with_nullable(each.nullable and each.name != time) for each in schema]
            given = {**given, "schema": pa.schema(fields)}
        return call_with_options(sql, function, options, self.at, given={**given, **several})


def _list_connectors() -> str:
    return f"the connectors are {', '.join(CONNECTORS.names())}"


_WITHOUT_OPTIONS = (exp.TemporaryProperty, exp.SchemaCommentProperty, exp.LikeProperty, PlainProperty)
"""Clauses of CREATE TABLE that are not options of the connector."""


def with_options(
    sql: SqlText, node: exp.Create, columns: Sequence[str], base: WithOptions | None = None
) -> WithOptions | None:
    """Return the connector and the options of a table with these columns, whose own options replace
    those of `base`. None if the statement has no WITH. Raises ProgramError."""
    properties = node.args.get("properties")
    hint = "write CREATE TABLE t (...) WITH ('connector' = 'files', 'path' = 'data/*.jsonl')"
    listed = [] if properties is None else properties.expressions
    listed = [each for each in listed if not isinstance(each, _WITHOUT_OPTIONS)]
    if not listed and base is None:
        return None
    options: dict[str, exp.Expr] = {}
    partitioned_by: tuple[str, ...] = () if base is None else base.partitioned_by
    for each in listed:
        if isinstance(each, exp.PartitionedByProperty):
            partitioned_by = _partition_columns(sql, each, columns)
            continue
        if type(each) is not exp.Property:
            raise sql.not_computed(each, "leave it out")
        add_option(sql, options, each, hint)
    if partitioned_by and (option := options.get("partition_by")):
        raise sql.error("PARTITIONED BY sets this option, too", option, "leave out one of them")
    if base is not None:
        options = {"connector": base.at, **base.options, **options}
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


def add_option(sql: SqlText, options: dict[str, exp.Expr], node: exp.Property, hint: str) -> None:
    """Add an option of WITH to those before it. Raise ProgramError."""
    value = node.args["value"]
    if isinstance(value, exp.Boolean):
        value = exp.Literal.string(str(value.this).lower())
    if not isinstance(value, exp.Literal):
        raise sql.error("the value of an option must be a string", node, hint)
    name = _option_name(node).lower()
    if name in options:
        raise sql.error(f"the option {name!r} is set twice", node, "leave out one of them")
    options[name] = value


def _option_name(node: exp.Expr) -> str:
    """Return the name of an option, which may have dots without quotes: properties.group.id."""
    name = node.this
    if isinstance(name, exp.Column | exp.Dot):
        return name.sql("spark")
    return node.name


def _partition_columns(
    sql: SqlText, node: exp.PartitionedByProperty, columns: Sequence[str]
) -> tuple[str, ...]:
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else [node.this]
    for each in listed or [node]:
        if not isinstance(each, exp.Identifier):
            raise sql.error(
                "PARTITIONED BY lists names of columns", each, "declare the column with the others"
            )
        if each.name not in columns:
            raise sql.unknown("column", each.name, each, columns, "the columns are")
    return tuple(each.name for each in listed)
