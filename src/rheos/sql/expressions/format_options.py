"""Options of functions that read or write documents: MAP('dateFormat', 'dd/MM/yyyy')."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.casts import named_type
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.expressions.time_formats import format_moment, parse_time
from rheos.sql.json_columns import SCALAR, Formats
from rheos.sql.schema_strings import schema_of
from rheos.sql.text import kind

_KINDS_OF_TIMES: Mapping[str, pl.DataType] = {
    "dateFormat": types.DATE,
    "timestampFormat": types.TIMESTAMP,
    "timestampNTZFormat": pl.Datetime("us"),
}
TIMES = tuple(_KINDS_OF_TIMES)
"""Options with the format of a type of times."""


def options_of(
    compiler: Compiler, node: exp.Anonymous, given: Sequence[exp.Expr], known: Sequence[str]
) -> dict[str, Typed]:
    """Return the options of a call by their names in `known`.

    Args:
        compiler: The compiler of the call.
        node: The call.
        given: Its arguments from the options on: one MAP, or none.
        known: The options that the function has.

    Raises:
        ProgramError: The argument is not a MAP of constant strings, or an option is not known.
    """
    if not given:
        return {}
    [options] = given
    is_map = isinstance(options, exp.Anonymous) and options.name.casefold() == "map"
    values = [compiler.compile(each) for each in options.expressions] if is_map else []
    if not values or len(values) % 2 or not all(isinstance(each.constant, str) for each in values):
        raise compiler.sql.error(
            f"{kind(node)} takes its options as a MAP of constant strings",
            options,
            f"write MAP('{known[0]}', '...')",
        )
    names = {name.casefold(): name for name in known}
    made = {}
    for name, value in zip(values[::2], values[1::2], strict=True):
        found = names.get(name.constant.casefold())
        if found is None:
            raise compiler.sql.unknown(
                "option", name.constant, name.node, known, f"the options are {', '.join(known)}"
            )
        made[found] = value
    return made


def is_on(compiler: Compiler, options: Mapping[str, Typed], name: str, *, default: bool) -> bool:
    """Return whether an option is true. Raise ProgramError for another string than a BOOLEAN."""
    if name not in options:
        return default
    match options[name].constant.casefold():
        case "true":
            return True
        case "false":
            return False
    raise compiler.sql.error(
        f"the option {name} is neither true nor false", options[name].node, "write 'true' or 'false'"
    )


def check_mode(compiler: Compiler, options: Mapping[str, Typed]) -> None:
    """Raise ProgramError for a mode in which a bad document ends the query."""
    mode = options.get("mode")
    if mode is not None and mode.constant.casefold() != "permissive":
        raise compiler.sql.error(
            f"the mode {mode.constant} is not computed: values that do not fit are null",
            mode.node,
            "leave out the mode, and check the result with ASSERT_TRUE(... IS NOT NULL)",
        )


def schema_type(compiler: Compiler, schema: Typed) -> pl.DataType:
    """Return the type that a constant string of DDL declares. Raise ProgramError."""
    parsed = schema_of(schema.constant)
    if parsed is None:
        raise compiler.sql.error(
            f"{schema.constant!r} is not a schema", schema.node, "write 'a INT, b ARRAY<STRING>'"
        )
    return named_type(compiler.sql, parsed, at=schema.node)


def parsers(compiler: Compiler, options: Mapping[str, Typed]) -> Formats:
    """Return how the strings of documents are parsed by the formats of times. Raise ProgramError."""
    return {
        of: parse_time(compiler, pl.col(SCALAR), options[name], of)
        for name, of in _KINDS_OF_TIMES.items()
        if name in options
    }


def formatters(compiler: Compiler, node: exp.Expr, options: Mapping[str, Typed]) -> Formats:
    """Return how times are written by the formats. Raise ProgramError."""
    made = {}
    for name, of in _KINDS_OF_TIMES.items():
        if name in options:
            moment = compiler.cast(Typed(pl.col(SCALAR), of, node), types.TIMESTAMP)
            made[of] = format_moment(compiler, node, moment.expr, options[name]).expr
    return made
