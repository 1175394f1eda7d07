"""Open windows and timers of one operator's keys in a checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.operators.window.progress import FIRED
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.core.state import format as state_format
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.savepoints.window_layouts import PANE, cut_of
from rheos.runtimes.state_tables.entry_layouts import EVENT_DOMAIN

MOST = 1000
"""Maximum number of windows and timers that are named."""
_WINDOWS = (StatePurpose.WINDOW_CONTENT, StatePurpose.UNDECIDED)


@dataclass(frozen=True)
class OpenWindow:
    """Part of a window that has rows in state."""

    start_ms: int
    """Start of its rows' pane. For a tumbling window, it is the window's start."""
    end_ms: int
    """End of the first window that includes these rows."""


@dataclass(frozen=True)
class PendingForKey:
    checkpoint: int
    taken_ms: int
    """Wall-clock time when the checkpoint was completed."""
    columns: tuple[str, ...]
    """Key columns of the operator; empty if it has no keyed state."""
    rows: int
    """Number of the key's rows in state, or of all keys' if none was requested."""
    windows: tuple[OpenWindow, ...]
    """Open windows of the key, ordered by their ends; at most MOST."""
    timers_ms: tuple[int, ...]
    """Event-time timers of the key, in order; at most MOST."""
    window_size_ms: int | None
    """Size of the windows in ms; None if they differ in size."""
    unread: tuple[str, ...]
    """States that could not be read here."""


def kept_for_key(
    checkpoint: CopiedCheckpoint, operator: OperatorId, key: Mapping[str, str] | str | None
) -> PendingForKey:
    """Return the open windows and timers of one key. `key` has a string for each key column, as
    DataFrames show it, or is the string of the only key column. None means all keys. Raise
    ConfigurationError if the operator has no such columns."""
    entry = checkpoint.savepoint.entry
    shapes = entry.states.get(operator, {})
    keyed = {
        name: shape for name, shape in shapes.items() if shape.kind is StateKind.KEYED and shape.key
    }
    columns = tuple(dict.fromkeys(field.name for shape in keyed.values() for field in shape.key))
    wanted = _wanted(key, columns, operator)
    of_operator = [handle for handle in entry.handles if handle.operator == operator]
    in_files = {handle.state for handle in of_operator if handle.mode is PartMode.FILE}
    rows, unread = 0, [f"{state} (files of a database)" for state in sorted(in_files)]
    windows: set[OpenWindow] = set()
    timers: set[int] = set()
    for state in keyed.keys() - in_files:
        handles = [handle for handle in of_operator if handle.state == state]
        try:
            for frame in _frames(checkpoint, handles, state, shapes):
                own = frame.filter(_is(wanted)) if wanted else frame
                rows += own.height
                if keyed[state].holds in _WINDOWS:
                    windows |= _windows(own)
                elif keyed[state].holds == StatePurpose.TIMERS:
                    due = own.filter(pl.col("domain") == EVENT_DOMAIN).get_column("timestamp_ms")
                    timers |= set(due.unique().to_list())
        except _UnreadableStateError as error:
            unread.append(str(error))
    fired = shapes.get(FIRED)
    size = None if fired is None else cut_of(fired).get("size")
    return PendingForKey(
        entry.checkpoint,
        entry.completed_ms,
        columns,
        rows,
        tuple(sorted(windows, key=lambda window: (window.end_ms, window.start_ms))[:MOST]),
        tuple(sorted(timers)[:MOST]),
        size if isinstance(size, int) else None,
        tuple(unread),
    )


def _wanted(
    key: Mapping[str, str] | str | None, columns: Sequence[str], operator: OperatorId
) -> dict[str, str]:
    if key is None:
        return {}
    if isinstance(key, str) and len(columns) == 1:
        return {columns[0]: key}
    given = set() if isinstance(key, str) else set(key)
    if isinstance(key, str) or given != set(columns):
        named = ",".join(f"{name}=..." for name in columns)
        raise ConfigurationError(
            f"{key!r} is not a key of the operator {operator!r}",
            hint=f"it is keyed by {', '.join(columns)}: write --key {named}"
            if columns
            else "its newest checkpoint has no keyed state: leave out --key",
        )
    return dict(key)


def _is(wanted: Mapping[str, str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name).cast(pl.String) == text for name, text in wanted.items())


def _windows(frame: pl.DataFrame) -> set[OpenWindow]:
    start, _, end = (_named(frame, name) for name in PANE)
    found = frame.select(pl.col(start).dt.epoch("ms").alias("s"), pl.col(end).dt.epoch("ms").alias("e"))
    return {OpenWindow(*row) for row in found.unique().iter_rows()}


def _named(frame: pl.DataFrame, name: str) -> str:
    """Return the name of the pane's column, which is renamed if a key column has its name."""
    return next(column for column in reversed(frame.columns) if column.rstrip("_") == name)


class _UnreadableStateError(Exception):
    pass


def _frames(
    checkpoint: CopiedCheckpoint,
    handles: Sequence[StateHandle],
    state: str,
    shapes: Mapping[str, StateShape],
) -> Iterator[pl.DataFrame]:
    """Yield the state as DataFrames show it. Raise _UnreadableStateError if it cannot be read."""
    with _name_state(state):
        layout = layout_of(state, shapes)
    tables = [
        state_format.decode(checkpoint.files[handle.path] if handle.path else handle.inline, None)
        for handle in handles
    ]
    if (
        any(handle.mode is PartMode.DELTA for handle in handles)
        and shapes[state].holds != StatePurpose.ROWS
    ):
        tables = _newest(tables)
    for table in tables:
        with _name_state(state):
            yield pl.DataFrame(pl.from_arrow(layout.rows(table)))


@contextlib.contextmanager
def _name_state(state: str) -> Iterator[None]:
    try:
        yield
    except RheosError as error:
        raise _UnreadableStateError(f"{state} ({error.what})") from error


def _newest(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return entries as in the last part that has them, without those that a part deletes."""
    entry = ["key_group", "key", "namespace"]
    if not all(set(entry) | {"value"} <= set(table.column_names) for table in tables):
        return list(tables)
    whole = pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in tables], how="vertical_relaxed")
    last = whole.unique(entry, keep="last", maintain_order=True).filter(pl.col("value").is_not_null())
    return [arrow_table(last)]
