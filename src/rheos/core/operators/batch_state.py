"""Arguments of batch functions: the keys of rows, and the state and timers of these keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.errors import StateAccessError
from rheos.core.graph.batch_functions import Groups, Rows, Which
from rheos.core.state.codec import shown
from rheos.core.state.columnar.column import EventTimes, StateColumn
from rheos.core.state.columnar.state import ColumnarState
from rheos.core.state.keys import Key
from rheos.core.state.scope import KeyScope
from rheos.core.state.slots import AnySlots
from rheos.core.state.timers import TimerService

_ROUNDS = 8
"""Number of iterations after which the remaining rows are sorted, because some key has many of them."""


class RowKeys:
    """The `BatchKeys` argument of a batch function (`graph/batch_functions.py`): keys of the rows."""

    __slots__ = ("_names", "_reached", "_stamps", "_state", "event_times", "slots")

    def __init__(
        self,
        state: ColumnarState,
        slots: AnySlots,
        stamps: npt.NDArray[np.int64] | None,
        names: tuple[str, ...],
        event_times: EventTimes = None,
        reached: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Create the keys. `event_times` has the event time of each row's call, if state expires by
        event time. `reached` has the watermark before each row; it is None for timers."""
        self._state = state
        self.slots = slots.astype(np.intp, copy=False)
        self.event_times = event_times
        self._stamps = stamps
        self._reached = reached
        self._names = names

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        if self._stamps is None:
            raise StateAccessError(
                "the stream has no event time, so its rows have no timestamps",
                hint="set watermark= on its source: watermark=rh.Watermark.bounded_out_of_orderness("
                '"5s", on="the time column")',
            )
        return self._stamps

    @property
    def is_late(self) -> npt.NDArray[np.bool_]:
        if self._stamps is None or self._reached is None:
            return np.zeros(len(self.slots), np.bool_)
        late: npt.NDArray[np.bool_] = self._stamps <= self._reached
        return late

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, rows: Which) -> RowKeys:
        stamps = None if self._stamps is None else self._stamps[rows]
        times = None if self.event_times is None else self.event_times[rows]
        reached = None if self._reached is None else self._reached[rows]
        return RowKeys(self._state, self.slots[rows], stamps, self._names, times, reached)

    def rounds(self) -> Iterator[Rows]:
        slots, left = self.slots, np.arange(len(self.slots))
        if not len(left):
            return
        for _ in range(_ROUNDS):
            first = self._state.scratch()
            # If a key is written several times, the last value wins. Reversed, that is the first row to
            # arrive.
            first[slots[::-1]] = left[::-1]
            is_first = first.take(slots) == left
            later = np.flatnonzero(~is_first)
            if not len(later):
                yield left
                return
            yield left.take(np.flatnonzero(is_first))
            left, slots = left.take(later), slots.take(later)
        rows, starts = _grouped(slots)
        lengths = np.diff(starts, append=len(rows))
        within = np.arange(len(rows)) - np.repeat(starts, lengths)
        order = np.lexsort((rows, within))
        ends = np.cumsum(np.bincount(within))
        for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            if end > begin:
                yield left[rows[order[begin:end]]]

    def groups(self) -> Groups:
        return _grouped(self.slots)

    def frame(self) -> pl.DataFrame:
        columns = self._state.keys.columns(self.slots)
        return pl.DataFrame(
            {name: pl.from_arrow(column) for name, column in zip(self._names, columns, strict=True)}
        )

    def listed(self) -> list[Key]:
        known = self._state.keys.listed()
        return [known[slot] for slot in self.slots.tolist()]


def _grouped(slots: AnySlots) -> Groups:
    rows = np.argsort(slots, kind="stable")
    by_key = slots[rows]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = by_key[1:] != by_key[:-1]
    return Groups(rows, np.flatnonzero(begins))


def _slots(keys: Any, state: str) -> AnySlots:
    if not isinstance(keys, RowKeys):
        raise StateAccessError(
            f"state {state!r} was indexed with {type(keys).__name__}, not with keys",
            hint=f"write state.{state}[keys], or for some rows state.{state}[keys[rows]]",
        )
    return keys.slots


def _check_length(what: str, values: Any, keys: int) -> None:
    if np.shape(values) not in ((), (1,), (keys,)):
        raise StateAccessError(
            f"{what} received an array of shape {np.shape(values)} for {keys} keys",
            hint="pass one value per key, or a single value for all",
        )


class ColumnHandle:
    """One declared state at the keys of rows: the `BatchColumn` of a batch function."""

    __slots__ = ("_column",)

    def __init__(self, column: StateColumn) -> None:
        self._column = column

    def __getitem__(self, keys: RowKeys) -> npt.NDArray[Any]:
        column = self._column
        values = column.read(_slots(keys, column.name), keys.event_times)
        if column.type is not str:
            return values
        texts: npt.NDArray[Any] = column.texts.array(values).to_numpy(zero_copy_only=False)
        return texts

    def __setitem__(self, keys: RowKeys, values: Any) -> None:
        column, fitted = self._column, self._fit(values)
        slots = _slots(keys, column.name)
        _check_length(f"state {column.name!r}", fitted, len(slots))
        column.put(slots, fitted, keys.event_times)

    def is_set(self, keys: RowKeys) -> npt.NDArray[np.bool_]:
        return self._column.is_set(_slots(keys, self._column.name), keys.event_times)

    def clear(self, keys: RowKeys) -> None:
        self._column.clear(_slots(keys, self._column.name))

    def __repr__(self) -> str:
        return f"<state {self._column.name!r}, an array by key>"

    def _fit(self, values: Any) -> Any:
        """Convert the values to their stored form. Raise StateAccessError if they do not fit."""
        column = self._column
        if column.type is str:
            return self._codes(values)
        if _nulls(values):  # A conversion to NumPy would turn a null among floats into NaN.
            raise self._wrong("nulls")
        fitted = np.asarray(values)
        if not np.can_cast(fitted.dtype, column.values.dtype, "same_kind"):
            raise self._wrong(f"{fitted.dtype}")
        if fitted.dtype == np.uint64 and column.type is int and fitted.size and fitted.max() >> 63:
            raise self._wrong("integers above 64 bits")
        return fitted

    def _codes(self, values: Any) -> Any:
        texts = self._column.texts
        if isinstance(values, str):
            return texts.code(values)
        try:
            if isinstance(values, pl.Series):
                strings = values.to_arrow().cast(pa.string())
            else:
                strings = pa.array(values, pa.string())
        except (pa.ArrowException, TypeError) as error:
            raise self._wrong(f"an invalid value: {error}") from None
        if strings.null_count:
            raise self._wrong("nulls")
        return texts.of_column(strings)

    def _wrong(self, what: str) -> StateAccessError:
        name, declared = self._column.name, shown(self._column.type)
        return StateAccessError(
            f"state {name!r} is declared as {declared}, but was assigned {what}",
            hint="assign an array of the declared type without nulls: cast it, or fill the nulls",
        )


def _nulls(values: Any) -> int:
    if isinstance(values, pl.Series):
        return values.null_count()
    return int(values.null_count) if isinstance(values, pa.Array | pa.ChunkedArray) else 0


class TimersHandle:
    """Timers of many keys: the `BatchTimers` of a batch function."""

    __slots__ = ("_service",)

    def __init__(self, service: TimerService) -> None:
        self._service = service

    def register(self, keys: RowKeys, timestamps_ms: Any) -> None:
        self._service.refuse_without_event_time()
        _for_each_timer(self._service.event.add, keys, timestamps_ms)

    def delete(self, keys: RowKeys, timestamps_ms: Any) -> None:
        _for_each_timer(self._service.event.delete, keys, timestamps_ms)

    def register_processing(self, keys: RowKeys, timestamps_ms: Any) -> None:
        _for_each_timer(self._service.processing.add, keys, timestamps_ms)

    def delete_processing(self, keys: RowKeys, timestamps_ms: Any) -> None:
        _for_each_timer(self._service.processing.delete, keys, timestamps_ms)


def _for_each_timer(do: Callable[[int, Key], None], keys: RowKeys, timestamps_ms: Any) -> None:
    _slots(keys, "timers")
    times = np.asarray(timestamps_ms)
    if times.dtype.kind not in "iu":
        raise TypeError(
            f"a timer must be set to integer milliseconds since the epoch, not to {times.dtype}"
        )
    _check_length("a timer", times, len(keys))
    times = np.broadcast_to(times, (len(keys),))
    for timestamp_ms, key in zip(times.tolist(), keys.listed(), strict=True):
        do(timestamp_ms, key)


class RowState:
    """The `BatchState` of a batch function: an attribute per declared state, the timers, and the
    times."""

    def __init__(
        self,
        state: ColumnarState,
        timers: Any,
        scope: KeyScope,
        watermark_ms: Callable[[], int],
    ) -> None:
        self._scope = scope
        self._watermark_ms = watermark_ms
        self.timers = timers
        for name, column in state.columns.items():
            setattr(self, name, ColumnHandle(column))

    @property
    def watermark(self) -> int:
        return self._watermark_ms()

    @property
    def processing_time(self) -> int:
        return self._scope.processing_time

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(self.__dict__.get(name), ColumnHandle):
            raise StateAccessError(
                f"state {name!r} was replaced as a whole",
                hint=f"write state.{name}[keys] = values",
            )
        object.__setattr__(self, name, value)


NAMES = ("timers", "watermark", "processing_time")
"""Reserved names that a declared state cannot have."""
