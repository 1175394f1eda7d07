"""Checks of the arguments of joins of two keyed streams: their output columns, and the operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, get_args

import polars as pl
import pyarrow as pa

from rheos.api.changelogs import check_rows_by_key
from rheos.api.expressions import compile_expressions
from rheos.api.function_checks import check_function
from rheos.api.function_typing import input_record, output_type
from rheos.api.time_to_live import TimeToLive, time_to_live_ms
from rheos.api.transformations import Transformation
from rheos.api.window_configuration import WINDOW_FIELDS, WindowsOfKeys
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.changelog import OP, Changes
from rheos.core.graph.functions import CoGroupFunction
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.types import columns_read, common_key, without
from rheos.core.graph.validate import check_columns
from rheos.core.graph.windows import Tumbling, Window
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.joins.co_group import CoGroupSpec
from rheos.core.operators.joins.interval_join import IntervalJoinSpec
from rheos.core.operators.joins.joined_columns import JoinedColumn, JoinedColumns, kept
from rheos.core.operators.joins.pair_condition import PairCondition
from rheos.core.operators.joins.table_join import TableInput, TableJoinSpec
from rheos.core.operators.joins.temporal_join import TemporalJoinSpec
from rheos.core.operators.joins.window_join import WindowJoinSpec
from rheos.core.operators.window.kinds import windows_of
from rheos.core.protocol.durations import Duration, duration_ms, signed_duration_ms
from rheos.core.state.key_groups import is_key_type

JoinHow = Literal["inner", "left", "right", "full"]
TableHow = Literal["inner", "left", "right", "full", "semi", "anti"]
TemporalHow = Literal["inner", "left"]


def check_how(how: Any, known: tuple[str, ...] = get_args(JoinHow)) -> None:
    if how not in known:
        written = ", ".join(f'"{name}"' for name in known)
        raise ProgramError(f"how={how!r} is not known", hint=f"write how= as one of {written}")


def check_suffix(suffix: Any) -> None:
    if suffix is not None and (not isinstance(suffix, str) or not suffix):
        raise ProgramError(
            f"a suffix must be a non-empty string, not {suffix!r}", hint='write suffix="_right"'
        )


_FARTHEST_MS = 1_000_000 * 366 * 86_400_000
"""Maximum bound of an interval: the sum of a larger one and a time would overflow 64 bits."""


def interval_of(between: Any) -> tuple[int, int]:
    """Return the bounds of an interval join in ms. Raise ProgramError if they are invalid."""
    if not isinstance(between, Iterable) or isinstance(between, str) or len(bounds := [*between]) != 2:
        raise ProgramError(
            f"between= takes the smallest and the largest distance, not {between!r}",
            hint='write between=("-5m", "10m"): the right row is at most 5 minutes before the left '
            "one, and at most 10 after it",
        )
    lower, upper = (signed_duration_ms(bound) for bound in bounds)
    if lower > upper:
        raise ProgramError(
            f"between={tuple(bounds)!r} is empty: {bounds[0]!r} is greater than {bounds[1]!r}",
            hint=f"write the smallest distance first: between=({bounds[1]!r}, {bounds[0]!r})",
        )
    if max(-lower, upper) > _FARTHEST_MS:
        raise ProgramError(
            f"between={tuple(bounds)!r} exceeds the maximum of a million years",
            hint="the join would never drop a row; pass the largest distance that can occur",
        )
    return lower, upper


def interval_joined(
    left: Transformation,
    right: Transformation,
    between: tuple[Duration, Duration],
    how: JoinHow,
    suffix: str | None,
) -> tuple[IntervalJoinSpec, StreamType]:
    """Return the interval join of two streams, each with its keys."""
    lower, upper = interval_of(between)
    check_how(how)
    columns, schema = joined_columns(left, right, how, suffix)
    spec = IntervalJoinSpec(lower, upper, how, columns)
    return spec, StreamType(schema, event_time=True)


def temporal_joined(
    left: Transformation,
    right: Transformation,
    how: TemporalHow,
    suffix: str | None,
    max_age: Duration | None = None,
    delay: Duration = "0s",
) -> tuple[TemporalJoinSpec, StreamType]:
    """Return the temporal join of a stream and an updating table, each with its keys."""
    check_how(how, get_args(TemporalHow))
    age_ms, delay_ms = ages_of(max_age, delay)
    columns, schema = joined_columns(left, right, how, suffix)
    time = left.type.time_column
    kept = time if time in schema.names else None
    type = StreamType(schema, event_time=True, time_column=kept)
    return TemporalJoinSpec(how, columns, age_ms, delay_ms), type


def ages_of(max_age: Duration | None, delay: Duration) -> tuple[int | None, int]:
    """Return the greatest and the least age of a joined version in ms. Raise ProgramError if no version
    can have such an age."""
    delay_ms = duration_ms(delay)
    age_ms = None if max_age is None else duration_ms(max_age)
    if max(delay_ms, age_ms or 0) > _FARTHEST_MS:
        raise ProgramError("max_age= and delay= are at most a million years", hint="leave out max_age=")
    if age_ms is not None and age_ms < delay_ms:
        raise ProgramError(
            f"max_age={max_age!r} is shorter than delay={delay!r}, so no version would be joined",
            hint="pass a longer max_age=, or a shorter delay=",
        )
    return age_ms, delay_ms


def window_joined(
    left: Transformation,
    right: Transformation,
    window: Any,
    how: JoinHow,
    suffix: str | None,
) -> tuple[WindowJoinSpec, StreamType]:
    """Return the window join of two streams, each with its keys."""
    check_how(how)
    window = checked_window(window, "window_join")
    own = [field.name for field in WINDOW_FIELDS]
    # The window of a pair is that of both results.
    merged = [own if _are_results_of(side, window) else [] for side in (left, right)]
    columns, schema = joined_columns(left, right, how, suffix, merged, own)
    schema = pa.schema([*schema, *WINDOW_FIELDS])
    check_columns(schema)
    return WindowJoinSpec(window, how, columns), StreamType(schema, event_time=True)


def _are_results_of(side: Transformation, window: Window) -> bool:
    """Return whether the rows are results of these windows, and so belong to the same ones again."""
    names = [field.name for field in WINDOW_FIELDS]
    port, node = side.port, side.node
    while len(node.inputs) == 1 and isinstance(node.spec, OperatorSpec):
        if not node.spec.keeps_columns(names):
            break
        [port] = node.inputs
        node = side.program.node(port.node)
    made = getattr(node.spec, "window", None)
    return (
        isinstance(window, Tumbling)
        and isinstance(made, Tumbling)
        and port.tag == MAIN
        and windows_of(made) == windows_of(window)
    )


def tables_joined(
    left: Transformation,
    right: Transformation,
    how: TableHow,
    suffix: str | None,
    ttl: TimeToLive | None,
    where: pl.Expr | None,
) -> tuple[TableJoinSpec, StreamType]:
    """Return the unbounded join of two streams, each with its keys."""
    check_how(how, get_args(TableHow))
    ttl_ms = time_to_live_ms(ttl)
    inputs = _table_input(left), _table_input(right)
    condition = None
    if where is not None:
        condition = _condition(where, *joined_columns(left, right, "inner", suffix))
    columns, schema = joined_columns(left, right, how, suffix)
    spec, changes = TableJoinSpec(how, columns, inputs, ttl_ms, condition), None
    if spec.gives_changes:
        if OP in schema.names:
            raise ProgramError(
                f"a side already has a column {OP!r}, and the join adds one of that name for "
                "its changelog",
                hint="declare the rows as changes: .upserts(key=...); or rename the column",
            )
        schema = schema.append(pa.field(OP, pa.string()))
        changes = Changes(_key_of_pairs(left, right, columns, how), retracts=True)
    return spec, StreamType(schema, False, changes=changes)


def _condition(where: Any, columns: JoinedColumns, schema: pa.Schema) -> PairCondition:
    """Return the condition of pairs. Raise ProgramError or SchemaError."""
    [expr], _ = compile_expressions("filter", [where], {}, schema)
    read = columns_read([expr], schema.names)
    kept = tuple(column for column in columns.columns if column.name in read)
    return PairCondition(
        expr, JoinedColumns(kept), pa.schema([schema.field(each.name) for each in kept])
    )


def _table_input(rows: Transformation) -> TableInput:
    changes = rows.type.changes
    if changes is None:
        return TableInput()
    if changes.key:
        check_rows_by_key(changes, rows.port.keys)
    else:
        _check_comparable(rows)
    return TableInput(changes.key, changes.retracts)


def _check_comparable(rows: Transformation) -> None:
    """Check that rows without a key can be found by all their columns. Raise ProgramError."""
    for each in table_columns(rows.type.schema):
        if not is_key_type(each.type):
            raise ProgramError(
                f"the rows have no key, and their column {each.name!r} ({each.type}) cannot be "
                "compared, so a change cannot be matched to its row",
                hint=f"declare the key of the rows: .upserts(key=...); or drop {each.name!r} before "
                "key_by(...)",
            )


def _key_of_pairs(
    left: Transformation,
    right: Transformation,
    columns: JoinedColumns,
    how: TableHow,
) -> tuple[str, ...]:
    """Return the columns that identify a row of the result: the keys of both rows, or of the left one
    in semi-joins and anti-joins, and the key of the join. None if they do not identify one.

    The key of the join is included because a change of a row's key moves its pairs to another subtask.
    """
    of_left, of_right = left.type.changes, right.type.changes
    mine: set[str] = set()
    theirs: set[str] = set()
    for side, of, found in ((left, of_left, mine), (right, of_right, theirs)):
        if side is right and how in ("semi", "anti"):
            continue
        if of is None or not of.key:
            return ()
        found.update(of.key, side.port.keys)
    return tuple(
        column.name for column in columns.columns if column.left in mine or column.right in theirs
    )


def co_grouped(
    left: Transformation, right: Transformation, window: Any, fn: Any, returns: Any
) -> tuple[CoGroupSpec, StreamType]:
    """Return the co-group of two keyed streams."""
    check_function(fn, CoGroupFunction, ("co_group",), "co_group")
    records = tuple(
        input_record(fn.co_group, side.type.schema, many=True, position=position)
        for position, side in enumerate((left, right))
    )
    declared = output_type(fn.co_group, returns, method="co_group", many=True)
    spec = CoGroupSpec(checked_window(window, "co_group"), fn, (records[0], records[1]))
    return spec, StreamType(declared.schema, True, declared.record)


def _in_event_time(windows: WindowsOfKeys) -> bool:
    return windows.in_columns and windows.time == "event_time"


def checked_window(window: Any, method: str) -> Window:
    """Check that a window is of a kind in event time, and return it."""
    if not isinstance(window, Window) or not _in_event_time(WindowsOfKeys(window)):
        raise ProgramError(
            f"{method}() takes windows in event time, not {window!r}",
            hint=f'write .{method}(other, rh.Tumbling("1m"), ...), rh.Sliding(...), rh.Cumulating(...) '
            "or rh.Session(...) with one gap for all rows",
        )
    window.check()
    windows_of(window)
    return window


def joined_columns(
    left: Transformation,
    right: Transformation,
    how: str,
    suffix: str | None,
    dropped: Sequence[Collection[str]] = ((), ()),
    added: Collection[str] = (),
) -> tuple[JoinedColumns, pa.Schema]:
    """Return the columns of both sides, with the left side first.

    A key with one name on both sides is one column. Any other shared name needs a suffix. Raise
    SchemaError without one.

    Args:
        left: The left side with its keys.
        right: The right side with its keys.
        how: The kind of join.
        suffix: Appended to names of the right side that the left side or the join have, too.
        dropped: Columns of each side that are not in the result.
        added: Names of further columns that the join appends.
    """
    check_suffix(suffix)
    mine, theirs = (
        without(table_columns(side.type.schema) if side.type.changes else side.type.schema, names)
        for side, names in zip((left, right), map(frozenset, dropped), strict=True)
    )
    if taken := [name for name in mine.names if name in added]:
        raise SchemaError(
            f"the left side already has a column {taken[0]!r}, and the join adds one of that name",
            hint=f"rename it before key_by(): .select(..., own_{taken[0]}={taken[0]!r})",
        )
    if how in ("semi", "anti"):
        return JoinedColumns(tuple(JoinedColumn(each.name, each.name, None) for each in mine)), mine
    keys = zip(left.port.keys, right.port.keys, strict=False)
    one = {name for name, other in keys if name == other}
    both = [name for name in theirs.names if name in {*mine.names, *added} - one]
    if both and suffix is None:
        where = "both sides" if {*both} <= {*mine.names} else "the right side and the result"
        raise SchemaError(
            f"{where} have {'columns' if len(both) > 1 else 'a column'} {', '.join(map(repr, both))}",
            hint='rename those of the right side with suffix="_right", or rename or drop columns '
            "with .select(...) before key_by()",
        )
    of_left_alone, of_right_alone = kept(how)
    columns, fields = [], []
    for field in mine:
        found = JoinedColumn(field.name, field.name, field.name if field.name in one else None)
        columns.append(found)
        if found.right is not None:
            fields.append(_key_field(field, theirs.field(field.name)))
        else:
            fields.append(field.with_nullable(field.nullable or of_right_alone))
    for field in theirs:
        if field.name in one:
            continue
        name = f"{field.name}{suffix}" if field.name in both else field.name
        columns.append(JoinedColumn(name, None, field.name))
        fields.append(field.with_name(name).with_nullable(field.nullable or of_left_alone))
    schema = pa.schema(fields)
    check_columns(schema)
    return JoinedColumns(tuple(columns)), schema


def _key_field(left: pa.Field, right: pa.Field) -> pa.Field:
    """Return the column of a key that has one name on both sides. The widths of its types may
    differ."""
    return pa.field(left.name, common_key(left, right), left.nullable or right.nullable)
