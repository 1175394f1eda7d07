"""OVER of append-only rows: a function that is called in the order of event time (`rows_by_time`).

With a frame by rows, a row is emitted at once. With a frame that includes following rows, a row is
emitted when enough rows have followed, or when its key ends. The result then has the time of the last
row of the frame. With a frame by distance, a timer emits the row when all rows of its frame have
arrived. Rows that no later frame includes are dropped. A key ends with its window, if it has one, or
with the input: a timer then emits its last rows and clears its state.

```python
check_example(
    OperatorExample(
        lambda clicks: clicks.key_by("user").process(
            EventTimeOver(
                OverColumns("us", ("n",), (Sum("n"),), ("total",)),
                FrameSpec(by_rows=False, preceding=5_000),
                clicks.schema,
            ),
            order="event_time",
            returns=clicks.schema.append(pa.field("total", pa.int64())),
        ),
        pa.schema([("user", pa.string()), ("n", pa.int64()), ("us", pa.int64()), ("at", pa.int64())]),
        [
            {"user": "a", "n": 4, "us": 8_000, "at": 8},
            {"user": "a", "n": 1, "us": 2_000, "at": 2},
            {"user": "a", "n": 2, "us": 7_000, "at": 7},
            WatermarkMark(8),
            {"user": "a", "n": 8, "us": 20_000, "at": 20},
        ],
        on="at",
    ),
    {
        "out": [
            {"user": "a", "n": 1, "us": 2_000, "at": 2, "total": 1},
            {"user": "a", "n": 2, "us": 7_000, "at": 7, "total": 3},
            {"user": "a", "n": 4, "us": 8_000, "at": 8, "total": 6},
            {"user": "a", "n": 8, "us": 20_000, "at": 20, "total": 8},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from rheos.core.aggregates.contract import Agg
from rheos.core.aggregates.frames import FrameState
from rheos.core.errors import InputError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState
from rheos.core.operators.over.frame_encoding import pack, restore_folded, unpack
from rheos.core.operators.over.moving_frames import FrameRow, FrameSpec, FrameTooLarge, MovingFrames
from rheos.core.operators.over.positions import PositionFunction
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.state.key_limit import KeyContents

_MICROS = 1000

OverFunction: TypeAlias = Agg | PositionFunction


@dataclass(frozen=True)
class OverColumns:
    """Columns that OVER reads and creates."""

    by: str
    """Column by which rows are ordered: whole numbers. For event time, these are microseconds."""
    arguments: tuple[str, ...]
    """Column that each function reads."""
    functions: tuple[OverFunction, ...]
    results: tuple[str, ...]
    frames: tuple[FrameSpec, ...] = ()
    """Frame of each function, if frames differ or include following rows."""
    written: tuple[str, ...] = ()
    """Calls of the functions as the user wrote them; errors name them."""
    ends: str | None = None
    """Column with the last event time of the row's key, in ms since the epoch, if the frame ends with
    the last row of a window."""

    def states(self, schema: pa.Schema, frame: FrameSpec) -> list[Callable[[], FrameState]]:
        """Return a factory for the state of each function over rows of `schema`."""
        frames = self.frames or (frame,) * len(self.functions)
        return [
            function.frame(own.rows)
            if isinstance(function, PositionFunction)
            else _make_frame(function, schema)
            for function, own in zip(self.functions, frames, strict=True)
        ]

    def too_large(self, error: FrameTooLarge, record: Mapping[str, Any]) -> InputError:
        """Return the error for a function over the frame of a record."""
        at = error.function
        what, hint = error.in_sql(self.written[at] if self.written else self.results[at])
        added = (self.by, self.ends, *self.arguments, *self.results)
        own = {k: v for k, v in record.items() if k not in added}
        return InputError(what, record=str(own), hint=hint)

    def __str__(self) -> str:
        named = zip(self.results, self.functions, self.arguments, strict=True)
        return ", ".join(f"{name} = {label(each).lower()}({of})" for name, each, of in named)


def label(function: OverFunction) -> str:
    """Return the name of a function. Ids of stored state are made of it."""
    if isinstance(function, PositionFunction):
        return function.label()
    return function.kind.upper() + ("_POP" if getattr(function, "ddof", 1) == 0 else "")


def _make_frame(agg: Agg, schema: pa.Schema) -> Callable[[], FrameState]:
    made = agg.frame(schema)
    assert made is not None, "checked when the query is planned"
    return made


@dataclass
class Remembered:
    """State of a key. It is stored as packed columns (`frame_encoding`)."""

    kept: Any = field(default_factory=list)
    """State in the form of an older version; see `restore_folded`."""
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    """Rows without results: those of the same millisecond, or those whose frames need further rows."""
    newest_ms: int = 0
    frames: MovingFrames | None = None
    """The frames with their earlier rows; `None` after a restore."""
    packed: bytes | None = None
    """Stored form of `frames`, until the key is used."""

    def __reduce__(self) -> Any:
        """Pickle the state as bytes. If no row has used the state since a restore, return the bytes
        from which it was restored."""
        if self.frames is None:
            return restored, (self.newest_ms, self.packed, self.kept, self.waiting)
        return restored, (self.newest_ms, pack(self.frames, self.waiting))


def restored(
    newest_ms: int, packed: bytes | None, kept: Any = (), waiting: Sequence[Any] = ()
) -> Remembered:
    """Return the state of a key. Stored state refers to this function by its name."""
    return Remembered(kept, [*waiting], newest_ms, packed=packed)


class EventTimeOver(KeyedProcessFunction):
    """Emits each row with the results of its frame."""

    remembered = ValueState(object)
    """State of type `Remembered`, declared as `object` and so pickled, as older versions stored it."""

    def __init__(self, columns: OverColumns, frame: FrameSpec, schema: pa.Schema) -> None:
        """Create the function. `schema` has the columns of the rows."""
        self._columns, self._frame, self._schema = columns, frame, schema
        names = schema.names
        self._by = names.index(columns.by)
        self._arguments = [names.index(name) for name in columns.arguments]
        self._ends = None if columns.ends is None else names.index(columns.ends)
        self._names = (*names, *columns.results)

    def open(self, ctx: RuntimeContext) -> None:
        self._limit = ctx._ctx.key_limit(KeyContents.OVER_ROWS)
        self._states = self._columns.states(self._schema, self._frame)

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        known, frames = self._load_state()
        assert ctx.timestamp is not None, "checked when the query is planned"
        row = tuple(record)
        by_rows, ahead = self._frame.by_rows, self._frame.needs_later_rows
        if by_rows:
            if ahead and not known.waiting:
                ctx.timers.register(self._end_ms(row))
        else:
            if ahead or not known.waiting:
                ctx.timers.register(self._complete_ms(row) if ahead else ctx.timestamp)
            known.newest_ms = ctx.timestamp
        known.waiting.append(row)
        if by_rows or ahead:
            yield from self._emitted(known, frames, [row], complete=None if by_rows else 0)
        kept = frames.rows if by_rows or ahead else frames.rows + len(known.waiting)
        if kept > self._limit.due:
            self._limit.see(kept, ctx.key)
        self.remembered.value = known

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        known, frames = self._load_state()
        preceding, ahead = self._frame.preceding, self._frame.needs_later_rows
        if self._frame.by_rows or self._frame.following is None:
            yield from self._emitted(known, frames, [], ended=True)
            self.remembered.clear()
            return
        expires_ms = None if preceding is None else max(0, preceding) // _MICROS + 1
        if known.waiting:
            if ahead:
                complete = sum(self._complete_ms(row) <= timestamp for row in known.waiting)
                yield from self._emitted(known, frames, [], complete=complete)
            else:
                yield from self._emitted(known, frames, known.waiting)
            if expires_ms is not None:
                ctx.timers.register(timestamp + expires_ms)
        elif expires_ms is not None and timestamp - known.newest_ms >= expires_ms:
            # No later row has any of these in its frame.
            self.remembered.clear()
            return
        self.remembered.value = known

    def _complete_ms(self, row: tuple[Any, ...]) -> int:
        """Return the watermark at which all rows of a row's frame by distance have arrived."""
        if self._frame.following is None:
            return self._end_ms(row)
        complete: int = (row[self._by] + self._frame.following) // _MICROS
        return complete

    def _end_ms(self, row: tuple[Any, ...]) -> int:
        """Return the watermark after which no row of a row's key arrives."""
        end: int = MAX_TIMESTAMP_MS if self._ends is None else row[self._ends]
        return end

    def _load_state(self) -> tuple[Remembered, MovingFrames]:
        """Return the state of the key, ready to be used."""
        known = self.remembered.value or Remembered()
        assert isinstance(known, Remembered)
        if known.frames is None:
            known.frames = MovingFrames(self._states, self._frame, self._columns.frames)
            if known.packed is not None:
                known.waiting = unpack(known.packed, known.frames)
                known.packed = None
            elif known.kept:
                restore_folded(known.kept, known.frames, [*map(label, self._columns.functions)])
                known.kept = ()
            if self._frame.needs_later_rows:
                # They have no results yet, as before.
                known.frames.add(self._entries(known.waiting), complete=0)
        return known, known.frames

    def _emitted(
        self,
        known: Remembered,
        frames: MovingFrames,
        fresh: Sequence[tuple[Any, ...]],
        *,
        ended: bool = False,
        complete: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Add the last rows of `waiting` to the frames, and emit rows whose frames are complete."""
        try:
            results = frames.add(self._entries(fresh), ended=ended, complete=complete)
        except FrameTooLarge as error:
            record = dict(zip(self._names, known.waiting[error.row], strict=False))
            raise self._columns.too_large(error, record) from None
        rows, known.waiting = known.waiting[: len(results)], known.waiting[len(results) :]
        for row, result in zip(rows, results, strict=True):
            yield dict(zip(self._names, (*row, *result), strict=True))

    def _entries(self, rows: Sequence[tuple[Any, ...]]) -> list[FrameRow]:
        return [FrameRow(row[self._by], tuple(row[at] for at in self._arguments)) for row in rows]
