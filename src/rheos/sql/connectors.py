"""CREATE TABLE ... WITH: the connectors that a statement can name, and how options become arguments.

Options are the arguments of the functions that programs call, by their names: `'path'` of
`rh.files.source`. So a connector is a line here, and has no options of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from rheos import formats
from rheos.connectors import cassandra, files, http, kafka, opensearch, postgres, redis, socket
from rheos.connectors.collect import CollectSink
from rheos.connectors.print import PrintSink
from rheos.core.connectors.contract import Sink, Source
from rheos.core.errors import ProgramError
from rheos.sql.text import SqlText


@dataclass(frozen=True)
class SqlConnector:
    """The functions that make its source and its sink; None where it has none."""

    source: Callable[..., Source] | None = None
    sink: Callable[..., Sink] | None = None
    spelled: tuple[tuple[str, str], ...] = ()
    """Options that are called otherwise than their arguments."""


CONNECTORS: Mapping[str, SqlConnector] = {
    "files": SqlConnector(files.source, files.sink),
    "kafka": SqlConnector(kafka.source, kafka.sink, (("topic", "topics"),)),
    "redis": SqlConnector(redis.source, redis.sink),
    "postgres": SqlConnector(postgres.changes, postgres.sink),
    "socket": SqlConnector(socket.source),
    "http": SqlConnector(http.source, http.sink),
    "opensearch": SqlConnector(sink=opensearch.sink),
    "cassandra": SqlConnector(sink=cassandra.sink),
    "print": SqlConnector(sink=PrintSink),
    "collect": SqlConnector(sink=CollectSink),
}

FORMATS: Mapping[str, Callable[..., formats.Format]] = {
    "json": formats.json,
    "csv": formats.csv,
    "arrow": formats.arrow,
    "text": formats.text,
    "raw": formats.raw,
}


@dataclass(frozen=True)
class WithOptions:
    """What stands in WITH."""

    connector: SqlConnector
    options: Mapping[str, exp.Expr]
    """Without the connector."""
    at: exp.Expr

    @property
    def name(self) -> str:
        """Of the connector."""
        return next(name for name, each in CONNECTORS.items() if each is self.connector)

    def source(self, sql: SqlText, schema: pa.Schema) -> Source:
        """Raises ProgramError."""
        if self.connector.source is None:
            raise sql.error("this connector is written to, and not read", self.at, _KNOWN)
        source: Source = self._made(sql, self.connector.source, {"schema": schema})
        return source

    def sink(self, sql: SqlText) -> Sink:
        """Raises ProgramError."""
        if self.connector.sink is None:
            raise sql.error("this connector is read, and not written to", self.at, _KNOWN)
        sink: Sink = self._made(sql, self.connector.sink, {})
        return sink

    def _made(self, sql: SqlText, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        parameters = inspect.signature(function).parameters
        spelled = {option: name for option, name in self.connector.spelled if name in parameters}
        known = {name: each for name, each in parameters.items() if name != "schema"}
        arguments = {name: value for name, value in given.items() if name in parameters}
        for option, node in self.options.items():
            name = spelled.get(option, option.replace("-", "_"))
            if name not in known:
                raise sql.unknown("option", option, node, [*known], "the options are")
            arguments[name] = _value(sql, node, str(known[name].annotation))
        needed = [
            name
            for name, each in known.items()
            if each.default is inspect.Parameter.empty and name not in arguments
        ]
        if needed:
            raise sql.error(f"the option {needed[0]!r} is not given", self.at, f"'{needed[0]}' = '...'")
        try:
            return function(**arguments)
        except ProgramError as error:
            # Where the value of an option is named, that is the place.
            named = (node for node in self.options.values() if repr(node.name) in error.what)
            raise sql.error(error.what, next(named, self.at), error.hint) from None


_KNOWN = f"the connectors are {', '.join(CONNECTORS)}"


def with_options(sql: SqlText, node: exp.Create) -> WithOptions:
    """What WITH says of a table. Raises ProgramError."""
    properties = node.args.get("properties")
    hint = "write CREATE TABLE t (...) WITH ('connector' = 'files', 'path' = 'data/*.jsonl')"
    if properties is None:
        raise sql.error("a table lies somewhere, and it is not said where", node.this, hint)
    options: dict[str, exp.Expr] = {}
    for each in properties.expressions:
        if not isinstance(each, exp.Property) or not isinstance(each.args["value"], exp.Literal):
            raise sql.error("options are texts", each, hint)
        if each.name.lower() in options:
            raise sql.error(f"the option {each.name!r} is given twice", each, "leave one of them out")
        options[each.name.lower()] = each.args["value"]
    named = options.pop("connector", None)
    if named is None:
        raise sql.error("WITH names a connector", properties, hint)
    connector = CONNECTORS.get(named.name.lower())
    if connector is None:
        raise sql.unknown("connector", named.name, named, CONNECTORS, "the connectors are")
    return WithOptions(connector, options, named)


def _value(sql: SqlText, node: exp.Expr, annotation: str) -> Any:
    """The text of an option as what its argument takes."""
    text = node.name
    if "Format" in annotation and "Kind" not in annotation:
        made = FORMATS.get(text.lower())
        if made is None:
            raise sql.unknown("format", text, node, FORMATS, "the formats are")
        return made()
    if annotation.startswith("bool"):
        if text.lower() not in ("true", "false"):
            raise sql.error(f"{text!r} is neither true nor false", node)
        return text.lower() == "true"
    if annotation.startswith("int"):
        if not text.isdigit():
            raise sql.error(f"{text!r} is no whole number", node)
        return int(text)
    if "Mapping" in annotation and "str |" not in annotation and "Sequence" not in annotation:
        raise sql.error("this option cannot be written as a text", node, "read it in Python")
    return text
