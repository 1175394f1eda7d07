"""OVER of rows that stay: a function that is called in the order of event time (`rows_by_time`).

Frames by rows give a row at once; or, where they reach forward, when so many more have come, or at the
end of the input, and then at the time of those. Frames by distance give it when all rows of its time
have come, by a timer, and forget what no later frame has.

```python
check_example(
    OperatorExample(
        lambda clicks: clicks.key_by("user").process(
            OverByTime(
                OverColumns("us", ("n",), (Fold.SUM,), ("total",)),
                FrameSpec(by_rows=False, preceding=5_000),
                clicks.schema.names,
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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rheos.core.errors import InputError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState
from rheos.core.operators.over.frames import (
    Fold,
    FoldTooLarge,
    FrameRow,
    FrameSpec,
    Kept,
    over,
    over_ahead,
)
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.state.key_limit import KeyContents

_MICROS = 1000


@dataclass(frozen=True)
class OverColumns:
    """Which columns are read, and which are made."""

    by: str
    """By which rows are ordered: whole numbers; of event time, of microseconds."""
    arguments: tuple[str, ...]
    """Of each aggregate."""
    folds: tuple[Fold, ...]
    results: tuple[str, ...]
    frames: tuple[FrameSpec, ...] = ()
    """Of frames that reach forward, that of each aggregate."""
    written: tuple[str, ...] = ()
    """Calls of the aggregates as the user wrote them; errors name them."""

    def too_large(self, error: FoldTooLarge, record: Mapping[str, Any]) -> InputError:
        """Return the error for an aggregate over the frame of a record."""
        name = self.written[error.fold] if self.written else self.results[error.fold]
        what, hint = error.in_sql(name)
        own = {k: v for k, v in record.items() if k not in (self.by, *self.arguments, *self.results)}
        return InputError(what, record=str(own), hint=hint)

    def __str__(self) -> str:
        named = zip(self.results, self.folds, self.arguments, strict=True)
        return ", ".join(f"{name} = {fold.name.lower()}({of})" for name, fold, of in named)


@dataclass
class Remembered:
    """What a key knows of its rows."""

    kept: Kept = field(default_factory=list)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    """Rows of one time, to the millisecond."""
    newest_ms: int = 0


class OverByTime(KeyedProcessFunction):
    """Gives each row with its aggregates."""

    remembered = ValueState(object)
    """Remembered; its values are of the types of the columns, so it is pickled."""

    def __init__(self, columns: OverColumns, frame: FrameSpec, names: Sequence[str]) -> None:
        """`names` are the columns of the rows."""
        self._columns, self._frame = columns, frame
        self._folds, self._frames = columns.folds, columns.frames
        self._by = list(names).index(columns.by)
        self._arguments = [list(names).index(name) for name in columns.arguments]
        self._names = (*names, *columns.results)

    def open(self, ctx: RuntimeContext) -> None:
        self._limit = ctx._ctx.key_limit(KeyContents.OVER_ROWS)

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        known = self.remembered.value or Remembered()
        assert isinstance(known, Remembered)
        assert ctx.timestamp is not None, "checked where the query is planned"
        if self._frame.following:
            if not known.waiting:
                ctx.timers.register(MAX_TIMESTAMP_MS)
            known.waiting.append(tuple(record))
            yield from self._ahead(known, ended=False)
        elif self._frame.by_rows:
            yield from self._given(known, [tuple(record)])
        else:
            if not known.waiting:
                ctx.timers.register(ctx.timestamp)
            known.waiting.append(tuple(record))
            known.newest_ms = ctx.timestamp
        self._check(known, ctx.key)
        self.remembered.value = known

    def _check(self, known: Remembered, key: Any) -> None:
        kept = len(known.kept) + len(known.waiting)
        if kept > self._limit.due:
            self._limit.see(kept, key)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        known, preceding = self.remembered.value, self._frame.preceding
        assert isinstance(known, Remembered)
        if self._frame.following:
            yield from self._ahead(known, ended=True)
            self.remembered.clear()
            return
        behind_ms = None if preceding is None else preceding // _MICROS + 1
        if known.waiting:
            rows, known.waiting = known.waiting, []
            yield from self._given(known, rows)
            if behind_ms is not None:
                ctx.timers.register(timestamp + behind_ms)
        elif behind_ms is not None and timestamp - known.newest_ms >= behind_ms:
            # No later row has any of these in its frame.
            self.remembered.clear()
            return
        self.remembered.value = known

    def _given(self, known: Remembered, rows: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        try:
            results, known.kept = over(known.kept, self._entries(rows), self._folds, self._frame)
        except FoldTooLarge as error:
            raise self._too_large(error, rows) from None
        yield from self._with_results(rows, results)

    def _ahead(self, known: Remembered, *, ended: bool) -> Iterator[dict[str, Any]]:
        """Gives those of the waiting rows whose frames are whole."""
        waiting, frame = self._entries(known.waiting), self._frame
        try:
            results, known.kept = over_ahead(
                known.kept, waiting, self._folds, frame, self._frames, ended=ended
            )
        except FoldTooLarge as error:
            raise self._too_large(error, known.waiting) from None
        yield from self._with_results(known.waiting, results)
        known.waiting = known.waiting[len(results) :]

    def _too_large(self, error: FoldTooLarge, rows: Sequence[tuple[Any, ...]]) -> InputError:
        return self._columns.too_large(error, dict(zip(self._names, rows[error.row], strict=False)))

    def _entries(self, rows: Sequence[tuple[Any, ...]]) -> list[FrameRow]:
        return [FrameRow(row[self._by], tuple(row[at] for at in self._arguments)) for row in rows]

    def _with_results(
        self, rows: Sequence[tuple[Any, ...]], results: Sequence[tuple[Any, ...]]
    ) -> Iterator[dict[str, Any]]:
        """The first rows, as many as there are results."""
        for row, result in zip(rows, results, strict=False):
            yield dict(zip(self._names, (*row, *result), strict=True))
