"""One declared value with a time to live, for all keys: an array of values, and one of their stamps.

Its semantics are those of the handles of single keys (`kinds/expiring.py`): a call sees no value that
has expired at its time, and once a call has found a value expired, no later call sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.graph.state import ValueState
from rheos.core.state.columnar.column import EventTimes, Flags, StateColumn
from rheos.core.state.columnar.column_table import ColumnTable
from rheos.core.state.columnar.keys import SlotKeys
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.expiry import PIECE, Expiry
from rheos.core.state.slots import AnySlots, Slots


class ExpiringColumn(StateColumn):
    """A column of values that expire. If a key has several rows in one read, each row sees the value
    from before the read."""

    def __init__(self, declared: ValueState[Any], texts: StringCodes, expiry: Expiry) -> None:
        super().__init__(declared, texts, expiry)
        self._expiry = expiry
        self.stamps = np.zeros(len(self.values), np.int64)
        """Times of the last updates, in ms, of the slots with a value."""

    def grow(self, size: int) -> None:
        super().grow(size)
        more = len(self.values) - len(self.stamps)
        if more:
            self.stamps = np.append(self.stamps, np.zeros(more, np.int64))

    def arrays(self) -> list[npt.NDArray[Any]]:
        return [*super().arrays(), self.stamps]

    def read(self, slots: AnySlots, event_times: EventTimes) -> npt.NDArray[Any]:
        values = self.values[slots]
        values[~self.is_set(slots, event_times)] = self.default
        return values

    def is_set(self, slots: AnySlots, event_times: EventTimes) -> Flags:
        now_ms = self._expiry.times_of(event_times)
        stamps, there = self.stamps[slots], self.present[slots]
        living: Flags = there & (stamps > self._expiry.latest_gone(now_ms))
        if self._expiry.renews_on_read:
            renewed = living & (stamps < now_ms)
            np.maximum.at(self.stamps, slots[renewed], np.broadcast_to(now_ms, len(slots))[renewed])
            self.changed[slots[renewed]] = True
        gone = there & ~living
        if gone.any():
            self.clear(slots[gone])
        return living

    def put(self, slots: AnySlots, values: Any, event_times: EventTimes) -> None:
        super().put(slots, values, event_times)
        self.stamps[slots] = self._expiry.times_of(event_times)

    def clear_gone(self, part: slice) -> None:
        gone = self.present[part] & (self.stamps[part] <= self._expiry.gone_ms())
        if gone.any():
            self.clear((np.flatnonzero(gone) + part.start).astype(np.int32))

    def keep(self, slots: Slots, moved: Slots) -> None:
        stamps = self.stamps[slots]
        super().keep(slots, moved)
        self.stamps = np.zeros(len(self.values), np.int64)
        self.stamps[moved] = stamps

    def later(self, slots: Slots) -> Callable[[], list[Any]]:
        stamps, values = self.stamps[slots], super().later(slots)
        return lambda: list(zip(stamps.tolist(), values(), strict=True))

    def load(self, slots: Slots, stored: Sequence[Any]) -> None:
        super().load(slots, [value for _, value in stored])
        self.stamps[slots] = np.array([stamp for stamp, _ in stored], np.int64)


class ExpiringTable(ColumnTable):
    """One pair of stamp and value per key."""

    def __init__(self, column: StateColumn, keys: SlotKeys) -> None:
        assert isinstance(column, ExpiringColumn)
        super().__init__(column, keys)
        self._stamped = column

    def _is_kept(self) -> Flags:
        return self._stamped.present & (self._stamped.stamps > self._gone_ms())

    def sweep(self) -> Iterator[None]:
        start = 0
        while start < len(self._keys):
            self._stamped.clear_gone(slice(start, start + PIECE))
            start += PIECE
            yield

    def entries(self) -> int:
        return len(self._keys)
