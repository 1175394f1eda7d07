"""Changelogs in the methods of streams: how a stream becomes one, which methods accept one, and how a
sink writes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.types import empty_frame
from rheos.core.graph.validate import (
    aggregate_fields,
    check_aggregates,
    check_columns,
    check_keys,
    check_running,
    unknown_column,
)
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.changelog.table import SIGNED, TableSpec, can_be_kept

if TYPE_CHECKING:
    from rheos.api.transformations import Transformation

_KNOWN = ", ".join(map(repr, SPELLINGS))
AS_ROWS = "write .as_rows() before it, to treat the changes as plain rows"
_FOLD = 'write .upserts(key="id") before it, with the key of the sink, to fold the changes by that key'
_SAY_KEYS = (
    'declare the key of both sides: .upserts(key="id", op=None) before the key_by(...) of the join'
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

    With `of_tables`, a row may also be a TRUNCATE, or a message that is no change. With `skips`, rows
    with an unknown `op` are marked as rejected.

    Raises ProgramError, SchemaError.
    """
    check_keys(key, schema)
    if op is None:
        if OP in schema.names:
            raise ProgramError(
                f"the stream already has a column {OP!r}, and upserts() adds one of that name",
                hint=f"write op={OP!r} if that column holds the kind of change; otherwise rename it",
            )
        operation = pl.lit(UPDATE_AFTER)
    else:
        if op not in schema.names:
            raise unknown_column(op, schema, " for op=")
        if not pa.types.is_string(schema.field(op).type):
            raise SchemaError(
                f"the column {op!r} is {schema.field(op).type}, but the kind of change must be a "
                f"string",
                hint=f"one of {_KNOWN}",
            )
        # A retracted row may have another key than the row that replaces it.
        removed = {name: DELETE for name, kind in SPELLINGS.items() if kind == UPDATE_BEFORE}
        known = SPELLINGS | removed | (OF_TABLES if of_tables else {})
        text = pl.col(op).fill_null(TOMBSTONE)
        if skips:
            operation = text.replace_strict(known, default=REJECTED + text)
        else:
            operation = text.replace_strict(known)
    kept = [field for field in schema if field.name not in (op, OP)]
    columns = [pl.col(field.name) for field in kept]
    return [*columns, operation.alias(OP)], pa.schema([*kept, pa.field(OP, pa.string())])


def unknown_change(op: str) -> tuple[str, str]:
    """Return message and hint of the error for a row whose column `op` has an unknown value."""
    return (
        f"column {op!r} does not say whether the row is inserted, updated or deleted",
        (
            f'its value must be one of {_KNOWN}; TRUNCATE is allowed with on_truncate="delete". '
            'Correct the values upstream, or skip such rows with on_error="skip"'
        ),
    )


def part_column(schema: pa.Schema) -> str:
    """Return a name for the column that assigns the keys of a table to its parts."""
    name = "part"
    while name in schema.names:
        name += "_"
    return name


def check_expressions(
    op: str, exprs: Sequence[pl.Expr], before: pa.Schema, after: pa.Schema, changes: Changes
) -> Changes:
    """Return the kind of changelog after expressions, which must keep the key columns. Raise
    ProgramError."""
    fixed = (*changes.key, OP)
    if op == "filter":
        read = {name for expr in exprs for name in _read(expr, before)}
        if OP in read or not (changes.retracts or read <= set(changes.key)):
            raise ProgramError(
                f"a filter of {changes.describe()} may read "
                + ("any column except " + repr(OP) if changes.retracts else "only the key")
                + (
                    ": otherwise the table downstream would keep the old version of a row whose "
                    "update was dropped"
                ),
                hint=(
                    f"{AS_ROWS}; or write .retractions() first, so that the filter also sees the "
                    "old version of each row"
                )
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
        what = "drops" if name in missing else "changes the values of"
        raise ProgramError(
            f"{op}() {what} {name!r}, which is part of the key of {changes.describe()}",
            hint=f"keep the key columns; or {AS_ROWS}",
        )
    return changes


def _read(expr: pl.Expr, schema: pa.Schema) -> Sequence[str]:
    roots = expr.meta.root_names()
    if expr.meta.has_multiple_outputs() or not set(roots) <= set(schema.names):
        return list(schema.names)
    return roots


def added_table(
    keyed: Transformation, aggregates: Mapping[str, Any], only_key: tuple[Any, ...] | None = None
) -> Transformation:
    """Add the table of these aggregates by key; `TableSpec` describes `only_key`. Raise ProgramError or
    SchemaError."""
    checked = check_aggregates(aggregates, '.table(total=rh.agg.sum("price"))')
    check_running({name: agg for name, agg in checked.items() if not can_be_kept(agg)})
    rows, keys = keyed.type, keyed.port.keys
    _check_table(checked, rows.changes)
    fields = aggregate_fields(checked, rows.schema)
    schema = pa.schema([*map(rows.schema.field, keys), *fields, pa.field(OP, pa.string())])
    check_columns(schema)
    type = StreamType(schema, rows.event_time, changes=Changes(keys, retracts=False))
    return keyed.add(TableSpec(checked, rows.changes is not None, only_key), "table", {MAIN: type})


def _check_table(aggregates: Mapping[str, Agg], changes: Changes | None) -> None:
    """Check that the aggregates can be computed over rows, or over such changes. Raise ProgramError if
    not."""
    if OP in aggregates:
        raise ProgramError(
            f"an aggregate cannot be called {OP!r}: that column holds the kind of change",
            hint="choose another name",
        )
    if changes is None:
        return
    if not changes.retracts:
        raise ProgramError(
            "the previous version of a row is not known here, so each update would count the row again",
            hint="write .retractions() before key_by(...)",
        )
    for name, agg in aggregates.items():
        if not isinstance(agg, SIGNED):
            raise ProgramError(
                f"{name}={agg} cannot retract a row",
                hint="updating tables can be aggregated with "
                f"{', '.join(kind.kind for kind in SIGNED)}",
            )


def check_top_n(schema: pa.Schema, by: str, keys: Sequence[str], changes: Changes | None) -> None:
    """Check that rows can be ranked by a column. Raise ProgramError or SchemaError if not."""
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
                f"the stream already has a column {OP!r}, and top_n() adds one of that name for "
                "its changelog",
                hint="declare the rows as changes: .upserts(key=...); or rename the column",
            )
    else:
        check_rows_by_key(changes, keys)


def check_rows_by_key(changes: Changes, keys: Sequence[str]) -> None:
    """Check that state can store the table's rows by these keys: each change identifies its row, and
    the subtask that has the previous version. Raises ProgramError."""
    if not changes.key:
        raise ProgramError(
            f"the rows are {changes.describe()}, which have no key, so a change cannot be "
            "matched to its row",
            hint=_SAY_KEYS,
        )
    if not (changes.retracts or set(keys) <= set(changes.key)):
        raise ProgramError(
            f"an update of {changes.describe()} may move a row to another key, and the row "
            "would also stay at its old key",
            hint="write .retractions() before key_by(...)",
        )


def sink_of_changes(
    sink: Sink, changes: Changes, schema: pa.Schema
) -> tuple[Sink, list[tuple[Op, list[pl.Expr]]], pa.Schema]:
    """Return the sink that writes the changes, and the steps (operation, expressions) that convert them
    to its rows. Raises ProgramError."""
    if not changes.key:
        raise ProgramError(
            f"the rows are {changes.describe()}, and {sink.describe()} updates and deletes rows by key",
            hint=f"{_FOLD}; or {AS_ROWS}",
        )
    if changes.filtered:
        raise ProgramError(
            f"a filter of {changes.describe()} may keep a row and drop a later update of it; "
            f"{sink.describe()} would then keep the old row forever",
            hint=f"{_FOLD}; or filter before upserts(), or by the key columns only; or {AS_ROWS}",
        )
    delete = "deleted"
    while delete in schema.names:
        delete += "_"
    taking = sink_capabilities.of_changes(sink, changes.key, delete)
    if taking is None:
        raise ProgramError(
            f"{sink.describe()} cannot update or delete rows that it has written, and the "
            f"stream carries {changes.describe()}",
            hint=f"write .as_rows() before it, to keep every change, with its kind in {OP!r}; or use "
            "a sink that writes by key: PostgreSQL, Delta tables, Redis, Kafka with key=, "
            "OpenSearch, Cassandra",
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
