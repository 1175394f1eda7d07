"""Lowering of a join: the method of keyed streams that computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, assert_never

import polars as pl

from rheos.core.graph.changelog import Changes
from rheos.sql import types
from rheos.sql.grouping import AT_ITS_END
from rheos.sql.joined_plans import AllRows, AsOfArrival, AsOfTime, CloseInTime, InOneWindow, JoinPlan
from rheos.sql.nullable_keys import any_value, not_null, selected, with_changes
from rheos.sql.plan import ColumnRole, SqlColumn
from rheos.sql.processing_time_joins import with_current_rows
from rheos.sql.windows import OF_WINDOWS, last_time, window_names

if TYPE_CHECKING:
    from rheos.api.keyed_stream import KeyedStream
    from rheos.api.streams import DataStream

_HOWS = {
    "inner": (False, False),
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "semi": (False, False),
    "anti": (True, False),
}
"""Sides whose unmatched rows are kept."""


class Known(Protocol):
    """A function that sets the id of a stream's state, derived from its place in the query."""

    def __call__(self, stream: DataStream, *what: str) -> DataStream: ...


def joined(plan: JoinPlan, left: DataStream, right: DataStream, known: Known) -> DataStream:
    """Return the pairs, with the columns of the plan."""
    in_window = isinstance(plan.meeting, InOneWindow)
    kept = _HOWS[plan.how]
    rows = [
        _without_bounds(each, columns, which) if in_window else each
        for each, columns, which in (
            (left, plan.left.columns, "left"),
            (right, plan.right.columns, "right"),
        )
    ]
    keys = [
        [_bound(key, which) if in_window and key in window_names(columns) else key for key in of]
        for of, columns, which in (
            (plan.keys.left, plan.left.columns, "left"),
            (plan.keys.right, plan.right.columns, "right"),
        )
    ]
    if in_window:
        rows = [
            each.with_columns(pl.lit(True).alias(f"{which} row"))
            for each, which in zip(rows, ("left", "right"), strict=True)
        ]
    one, other = _sides(rows, keys, kept)
    made = known(_join_streams(plan, one, other), "join", plan.how, *plan.keys.left, *plan.keys.right)
    exprs = [_column(plan, column, in_window) for column in plan.columns]
    return selected(made, exprs, plan.changes)


def _join_streams(plan: JoinPlan, left: KeyedStream, right: KeyedStream) -> DataStream:
    how, meeting = plan.how, plan.meeting
    match meeting:
        case CloseInTime():
            between = meeting.lower, meeting.upper
            return left.interval_join(right, between, how)  # type: ignore[arg-type]
        case InOneWindow():
            return left.window_join(right, meeting.window or AT_ITS_END, how)  # type: ignore[arg-type]
        case AsOfTime():
            return left.temporal_join(right, how)  # type: ignore[arg-type]
        case AsOfArrival():
            return with_current_rows(left, right, how)
        case AllRows():
            return left.join(right, how, where=plan.where, ttl=meeting.ttl)  # type: ignore[arg-type]
        case _:
            assert_never(meeting)


# --- windows ------------------------------------------------------------------------------------------


def _bound(name: str, which: str) -> str:
    return f"{name} of the {which} row"


def _without_bounds(stream: DataStream, columns: Sequence[SqlColumn], which: str) -> DataStream:
    """Rename the window columns of the input, which would clash with those of the join."""
    names = window_names(columns)
    if not names:
        return stream
    every = stream.schema.names
    return stream.select(
        *(pl.col(n).alias(_bound(n, which)) if n in names else pl.col(n) for n in every)
    )


def _column(plan: JoinPlan, column: SqlColumn, in_window: bool) -> pl.Expr:
    """Return the expression of a plan's column in the pairs."""
    name = column.name
    if not in_window or column.role not in OF_WINDOWS:
        return pl.col(name)
    assert isinstance(plan.meeting, InOneWindow)
    which = "left" if column in plan.columns[: plan.width] else "right"
    if plan.meeting.window is None:
        return pl.col(_bound(name, which)).alias(name)
    end = pl.col("window_end")
    value = {
        ColumnRole.WINDOW_START: pl.col("window_start"),
        ColumnRole.WINDOW_END: end,
        ColumnRole.WINDOW_TIME: last_time(end),
    }[column.role]
    return pl.when(pl.col(f"{which} row")).then(value).alias(name)


# --- keys ---------------------------------------------------------------------------------------------


def _sides(
    rows: Sequence[DataStream], keys: Sequence[Sequence[str]], kept: tuple[bool, bool]
) -> tuple[KeyedStream, KeyedStream]:
    """Return both sides by key.

    A row with a null key has no partner. It is dropped or, if its side is preserved, gets a key that
    the other side does not have.
    """
    nullable = [
        any(each.schema.field(key).nullable for key in of) for each, of in zip(rows, keys, strict=True)
    ]
    flagged = any(may and keep for may, keep in zip(nullable, kept, strict=True))
    made: list[KeyedStream] = []
    for place, (each, of) in enumerate(zip(rows, keys, strict=True)):
        absent = pl.any_horizontal([pl.col(key).is_null() for key in of]) if of else pl.lit(False)
        side = "left" if place == 0 else "right"
        named = list(of)
        if nullable[place] and not kept[place]:
            each = _changed(each, lambda rows, absent=absent: rows.filter(~absent), named)
        added = []
        if nullable[place]:
            kinds = {key: types.of_arrow(each.schema.field(key).type) for key in of}
            added += [pl.col(key).fill_null(any_value(kinds[key])).alias(f"{side} {key}") for key in of]
            named = [f"{side} {key}" for key in of]
        if flagged or not of:
            flag = pl.when(absent).then(pl.lit(place + 1)).otherwise(pl.lit(0)).cast(pl.Int64)
            added.append(flag.alias(f"{side} is null"))
            named.append(f"{side} is null")
        if added:
            each = _changed(each, lambda rows, added=tuple(added): rows.with_columns(*added), named)
        made.append(each.key_by(*named))
    return made[0], made[1]


def _changed(stream: DataStream, change: object, keys: Sequence[str]) -> DataStream:
    """Return the rows after a step. For a changelog, add the previous rows, because the key of a row
    may have changed."""
    assert callable(change)
    changes = stream.transformation.type.changes
    if changes is None:
        return change(stream)  # type: ignore[no-any-return]
    if not changes.retracts and not {*keys} <= {*changes.key}:
        changes = replace(changes, retracts=True)
        of = not_null(stream, changes.key)
        stream = of.restored(of.stream.retractions(), changes)
    made: DataStream = change(stream.as_rows())
    return with_changes(made, Changes(changes.key, changes.retracts))
