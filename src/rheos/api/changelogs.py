"""Changelogs in the methods of streams: how a stream becomes one, which methods accept one, and how it
reaches a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from rheos.api.expressions import Op
from rheos.core.aggregates import Agg
from rheos.core.connectors import sink_capabilities
from rheos.core.connectors.contract import Sink
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.changelog import (
    DELETE,
    OF_TABLES,
    OP,
    REJECTED,
    SPELLINGS,
    TOMBSTONE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Changes,
)
from rheos.core.graph.types import empty_frame
from rheos.core.graph.validate import check_keys, unknown_column
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.changelog.table import SIGNED

_KNOWN = ", ".join(map(repr, SPELLINGS))
AS_ROWS = "write .as_rows() before it, to take the changes as rows"
_SAY_KEYS = (
    'say by what the rows of both sides are known: .upserts(key="id", op=None) before the key_by(...) '
    "of the join"
)


def upsert_columns(
    schema: pa.Schema,
    key: Sequence[str],
    op: str | None,
    *,
    of_tables: bool = False,
    skips: bool = False,
) -> tuple[list[pl.Expr], pa.Schema]:
    """Return the expressions and the schema of upserts. The stream's column `op` is the kind of change.

    With `of_tables`, a row may also be a TRUNCATE, or no change. With `skips`, rows with an unknown
    `op` are marked as rejected.

    Raises ProgramError, SchemaError.
    """
    check_keys(key, schema)
    if op is None:
        if OP in schema.names:
            raise ProgramError(
                f"the stream has a column {OP!r}, and upserts add one of that name",
                hint=f"write op={OP!r} if it holds the kind of change, or rename it",
            )
        said = pl.lit(UPDATE_AFTER)
    else:
        if op not in schema.names:
            raise unknown_column(op, schema, " for op=")
        if not pa.types.is_string(schema.field(op).type):
            raise SchemaError(
                f"the column {op!r} is {schema.field(op).type}, but the kind of change must be a "
                f"string",
                hint=f"one of {_KNOWN}",
            )
        known = SPELLINGS | OF_TABLES if of_tables else SPELLINGS
        text = pl.col(op).fill_null(TOMBSTONE)
        if skips:
            said = text.replace_strict(known, default=REJECTED + text)
        else:
            said = text.replace_strict(known)
    kept = [field for field in schema if field.name not in (op, OP)]
    columns = [pl.col(field.name) for field in kept]
    return [*columns, said.alias(OP)], pa.schema([*kept, pa.field(OP, pa.string())])


def unknown_change(op: str) -> tuple[str, str]:
    """Return message and hint of the error for a row whose column `op` has an unknown value."""
    return (
        f"column {op!r} does not say whether the row is inserted, updated or deleted",
        f'it is one of {_KNOWN}; a TRUNCATE is one with on_truncate="delete". Give it such values '
        'before, or skip such rows with on_error="skip"',
    )


def part_column(schema: pa.Schema) -> str:
    """Return a name for the column that deals the keys of a table to its parts."""
    name = "part"
    while name in schema.names:
        name += "_"
    return name


def check_expressions(
    op: str, exprs: Sequence[pl.Expr], before: pa.Schema, after: pa.Schema, changes: Changes
) -> Changes:
    """Return the kind of changelog after expressions: by the same key. Raises ProgramError."""
    fixed = (*changes.key, OP)
    if op == "filter":
        read = {name for expr in exprs for name in _read(expr, before)}
        if OP in read or not (changes.retracts or read <= set(changes.key)):
            raise ProgramError(
                f"a filter of {changes.describe()} may look at "
                + ("every column but " + repr(OP) if changes.retracts else "the key alone")
                + ": a row that it drops would stay in the table as it was before",
                hint=f"{AS_ROWS}, or .retractions(), to have what a row was dropped or kept, too"
                if not changes.retracts
                else AS_ROWS,
            )
        return changes if read <= set(changes.key) else replace(changes, filtered=True)
    missing = [name for name in fixed if name not in after.names]
    frame = empty_frame(before).lazy()
    computed = [expr for expr in exprs if not expr.meta.is_column_selection()]
    changed = [
        name for expr in computed for name in frame.select(expr).collect_schema() if name in fixed
    ]
    for name in (*missing, *changed):
        what = "drops" if name in missing else "gives other values to"
        raise ProgramError(
            f"{op}() {what} {name!r}, by which the rows are known as {changes.describe()}",
            hint=f"keep it; or {AS_ROWS}",
        )
    return changes


def _read(expr: pl.Expr, schema: pa.Schema) -> Sequence[str]:
    roots = expr.meta.root_names()
    if expr.meta.has_multiple_outputs() or not set(roots) <= set(schema.names):
        return list(schema.names)
    return roots


def check_table(aggregates: Mapping[str, Agg], changes: Changes | None) -> None:
    """The aggregates can be kept over rows, or over such changes. Raises ProgramError."""
    if OP in aggregates:
        raise ProgramError(
            f"an aggregate cannot be called {OP!r}: that column holds the kind of change",
            hint="choose another name",
        )
    if changes is None:
        return
    if not changes.retracts:
        raise ProgramError(
            "what a row was is not known here, and it would be counted again with each update",
            hint="write .retractions() before key_by(...)",
        )
    for name, agg in aggregates.items():
        if not isinstance(agg, SIGNED):
            raise ProgramError(
                f"{name}={agg} cannot take a row back",
                hint=f"of changes there are {', '.join(kind.kind for kind in SIGNED)}",
            )


def check_top_n(schema: pa.Schema, by: str, keys: Sequence[str], changes: Changes | None) -> None:
    """The rows can be ranked by that column. Raises ProgramError, SchemaError."""
    if by not in schema.names:
        raise unknown_column(by, schema, " in top_n()")
    kind = schema.field(by).type
    if pa.types.is_nested(kind):
        raise SchemaError(
            f"rows cannot be ranked by {by!r}, which is {kind}", hint="name a column of single values"
        )
    if changes is None:
        if OP in schema.names:
            raise ProgramError(
                f"the rows have a column {OP!r}, and a changelog of ranks adds one of that name",
                hint="declare them as changes: .upserts(key=...); or rename the column",
            )
    else:
        check_rows_by_key(changes, keys)


def check_rows_by_key(changes: Changes, keys: Sequence[str]) -> None:
    """Check that state can store the table's rows by these keys: each change identifies its row, and
    the subtask that has the previous version. Raises ProgramError."""
    if not changes.key:
        raise ProgramError(
            f"these are {changes.describe()}: it is not known which of them a change is of",
            hint=_SAY_KEYS,
        )
    if not (changes.retracts or set(keys) <= set(changes.key)):
        raise ProgramError(
            f"a row of {changes.describe()} may come to another key, and would stay at the one before",
            hint="write .retractions() before key_by(...)",
        )


def sink_of_changes(
    sink: Sink, changes: Changes, schema: pa.Schema
) -> tuple[Sink, list[tuple[Op, list[pl.Expr]]], pa.Schema]:
    """Return the sink that writes the changes, and the steps (operation, expressions) that convert them
    to its rows. Raises ProgramError."""
    if not changes.key:
        raise ProgramError(
            f"these are {changes.describe()}, and {sink.describe()} takes rows back by their key",
            hint=f"{_SAY_KEYS}; or {AS_ROWS}",
        )
    if changes.filtered:
        raise ProgramError(
            f"a filter of {changes.describe()} may keep what a row was and drop what it became, and "
            f"{sink.describe()} would keep the row for ever",
            hint="filter the rows before they become a table, or filter by the key alone; or "
            f"{AS_ROWS}",
        )
    delete = "deleted"
    while delete in schema.names:
        delete += "_"
    taking = sink_capabilities.of_changes(sink, changes.key, delete)
    if taking is None:
        raise ProgramError(
            f"{sink.describe()} cannot take back what it has written, and the rows are "
            f"{changes.describe()}",
            hint=f"write .as_rows() before it, to keep all changes, with {OP!r}; or take a sink that "
            "writes by key: PostgreSQL, Redis, Kafka with key=, OpenSearch, Cassandra",
        )
    kept = table_columns(schema)
    columns = [*(pl.col(name) for name in kept.names), (pl.col(OP) == DELETE).alias(delete)]
    newest: list[tuple[Op, list[pl.Expr]]] = (
        [("filter", [pl.col(OP) != UPDATE_BEFORE])] if changes.retracts else []
    )
    return (
        taking,
        [*newest, ("select", columns)],
        pa.schema([*kept, pa.field(delete, pa.bool_())]),
    )
