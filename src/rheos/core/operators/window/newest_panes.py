"""The newest pane of every key, in columns by slot. Rows of its window are merged with it in place.

Segments never change, so rows in them are merged repeatedly, and once per gap a due window turns out to
have grown. Most rows belong to the window of their key that grew last. This module stores the pane of
that window in arrays, where merging a row costs a look-up and a few array operations:

    slot of the key      0        1        2     ...
    open_to             52        -       47         latest end; - if the key has no pane here
    open_from           30        -       41
    rows                 7        -        2         state, reduced by the column's `reduce_of`

If a row is not part of its key's pane but is newer, it replaces the pane. Replaced panes move to
segments, and so do values that no array can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.operators.window.arrays import fits, identity
from rheos.core.operators.window.contract import Ints, Mask
from rheos.core.operators.window.pane_columns import FIRST, OPEN_FROM, OPEN_TO
from rheos.core.protocol.polars_frames import arrow_column
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.slots import AnySlots, Slots

ReduceOf = Callable[[str], np.ufunc | None]
"""Reduction of a column of state, by its name; None if the column cannot be stored in an array."""

_PANE_REDUCES = {OPEN_TO: np.maximum, OPEN_FROM: np.minimum, FIRST: np.minimum}
_NONE = np.iinfo(np.int64).max
"""Value that replaces the end if the slot has no pane."""
_BLOCK = 1 << 12
"""Number of slots that share a lower bound of their ends."""
_LARGE = 1 << 61
"""Largest absolute value of sums that may be added without exceeding int64."""
_SPARSE = 4
"""Maximum ratio of known keys to keys with a pane."""
_INDEX_BYTES = 96
"""Approximate size of a key in the index."""


class NewestPanes:
    """At most one pane of each key. `keys` are the names of the key columns. Call methods that read
    panes only while panes exist."""

    def __init__(self, keys: Sequence[str], reduce_of: ReduceOf) -> None:
        self._keys = list(keys)
        self._reduce_of = reduce_of
        self.clear()

    def clear(self) -> None:
        self._index: KeyIndex | None = None
        self._reduces: dict[str, np.ufunc] = dict(_PANE_REDUCES)
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._marks = np.zeros(0, np.int64)
        self._bounds = np.zeros(0, np.int64)
        """For each block, a lower bound of the ends of its panes."""
        self.rows = 0
        self._largest = 0
        """Upper bound of the absolute values of all sums."""

    @property
    def is_large(self) -> bool:
        """Return whether sums are so large that no more may be added."""
        return self._largest > _LARGE

    @property
    def memory_bytes(self) -> int:
        columns = sum(values.nbytes for values in self._columns.values())
        return columns + (0 if self._index is None else len(self._index) * _INDEX_BYTES)

    # --- rows in ------------------------------------------------------------------------------------

    def add(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        """Add rows with their panes, if the rows of a key are one window. Return the rows that cannot
        be added now: the pane of their key is another window, or no array can hold their values."""
        given = self._arrays(frame, frame.height)
        if given is None:
            return frame
        slots = self._slots(frame, given)
        there, meets = self._match_panes(slots, given)
        left = None
        if (others := there & ~meets).any():
            self._marks[slots] = 0
            self._marks[slots[others]] = 1
            stays = self._marks[slots] == 0
            left = frame.filter(pl.Series(~stays))
            slots, there = slots[stays], there[stays]
            given = {name: values[stays] for name, values in given.items()}
        if not there.all():
            self._begin(slots[~there], given[OPEN_TO][~there])
        self._merge(slots, given)
        return left

    def exchange(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """Add rows of different keys. If a row's pane is newer than that of its key, it replaces that
        pane. Return the frames to be added to segments."""
        given = self._arrays(frame, 1)
        if given is None:
            return [frame]
        slots = self._slots(frame, given)
        there, meets = self._match_panes(slots, given)
        taken = meets | (given[OPEN_TO] > self._columns[OPEN_TO][slots]) | ~there
        gives_way = slots[taken & there & ~meets]
        rest = [] if taken.all() else [frame.filter(pl.Series(~taken))]
        if len(gives_way):
            rest.append(self.frame(gives_way))
            self.rows -= len(gives_way)
        begins = taken & ~meets
        self._begin(slots[begins], given[OPEN_TO][begins])
        self._merge(slots[taken], {name: values[taken] for name, values in given.items()})
        return rest

    def _arrays(self, frame: pl.DataFrame, rows: int) -> dict[str, npt.NDArray[Any]] | None:
        """Return the columns of pane and state as arrays; None if one does not fit, or a sum over this
        number of rows could overflow."""
        given = {}
        for name in frame.columns:
            if name in self._keys:
                continue
            reduce = self._reduces.get(name) or self._reduce_of(name)
            if reduce is None or not fits(frame[name], reduce):
                return None
            self._reduces[name] = reduce
            given[name] = frame[name].to_numpy()
        return None if self._largest_sum(given, rows) > _LARGE else given

    def _slots(self, frame: pl.DataFrame, given: Mapping[str, npt.NDArray[Any]]) -> AnySlots:
        """Return the slots of the rows' keys, and make room for them in the columns."""
        keys = [arrow_column(frame[name]) for name in self._keys]
        if self._index is None:
            self._index = KeyIndex([key.type for key in keys])
        slots = self._index.lookup_or_add(keys).astype(np.intp)
        size = len(self._marks)
        if len(self._index) > size:
            size = -(-max(len(self._index), 2 * size) // _BLOCK) * _BLOCK
            self._marks = np.resize(self._marks, size)
            self._bounds = _longer(self._bounds, size // _BLOCK, _NONE)
        for name, values in given.items():
            self._columns.setdefault(name, np.zeros(0, values.dtype))
        for name, held in self._columns.items():
            if len(held) < size:
                nothing = _NONE if name == OPEN_TO else identity(self._reduces[name], held.dtype)
                self._columns[name] = _longer(held, size, nothing)
        return slots

    def _match_panes(self, slots: AnySlots, given: Mapping[str, npt.NDArray[Any]]) -> tuple[Mask, Mask]:
        """Return for each row whether its key has a pane, and whether both form one window."""
        ends = self._columns[OPEN_TO][slots]
        there = ends != _NONE
        opened = self._columns[OPEN_FROM][slots]
        return there, there & (given[OPEN_FROM] <= ends) & (given[OPEN_TO] >= opened)

    def _begin(self, slots: AnySlots, ends: Ints) -> None:
        """Begin empty panes at these slots, which will end at or after `ends`."""
        numbers = np.arange(len(slots))
        self._marks[slots] = numbers
        self.rows += int(np.count_nonzero(self._marks[slots] == numbers))
        for name, values in self._columns.items():
            values[slots] = identity(self._reduces[name], values.dtype)
        np.minimum.at(self._bounds, slots // _BLOCK, ends)

    def _merge(self, slots: AnySlots, given: Mapping[str, npt.NDArray[Any]]) -> None:
        if not len(slots):
            return
        for name, values in given.items():
            self._reduces[name].at(self._columns[name], slots, values)
        self._largest += self._largest_sum(given, len(slots))
        if self._largest > _LARGE:
            self._largest = self._largest_sum(self._columns, 1)

    def _largest_sum(self, columns: Mapping[str, npt.NDArray[Any]], rows: int) -> int:
        """Return an upper bound of sums after this number of rows."""
        sums = [values for name, values in columns.items() if self._reduces[name] is np.add]
        return rows * max((max(int(of.max()), -int(of.min())) for of in sums), default=0)

    # --- rows out -----------------------------------------------------------------------------------

    def ending(self, above: int, upto: int) -> Slots:
        """Return the slots of panes that end after `above` and at or before `upto`."""
        found = []
        for block in np.flatnonzero(self._bounds <= upto).tolist():
            first = block * _BLOCK
            ends = self._columns[OPEN_TO][first : first + _BLOCK]
            # Panes that have grown are not due: the updated bound excludes them.
            self._bounds[block] = ends.min()
            found.append(np.flatnonzero((ends > above) & (ends <= upto)) + first)
        return np.concatenate(found).astype(np.int32) if found else np.zeros(0, np.int32)

    def next_end(self, above: int) -> int | None:
        """Return the earliest end of a pane after `above`; None if no pane ends after it."""
        ends = self._columns[OPEN_TO] if self.rows else np.zeros(0, np.int64)
        earliest = int(ends[ends > above].min(initial=_NONE))
        return None if earliest == _NONE else earliest

    def of_keys(self, keys: pl.DataFrame, upto: int | None = None) -> Slots:
        """Return the slots of those keys that have a pane. If `upto` is passed, return only those whose
        pane ends at or before it."""
        if self._index is None:
            return np.zeros(0, np.int32)
        slots = self._index.find([arrow_column(keys[name]) for name in self._keys])
        slots = slots[slots >= 0]
        ends = self._columns[OPEN_TO][slots]
        return slots[(ends != _NONE) if upto is None else (ends <= upto)]

    def all(self) -> Slots:
        """Return the slots of all panes."""
        return np.flatnonzero(self._columns[OPEN_TO] != _NONE).astype(np.int32)

    def drop(self, slots: Slots) -> None:
        """Drop the panes of these slots."""
        if len(slots):
            self._columns[OPEN_TO][slots] = _NONE
            self.rows -= len(slots)
            self._forget_keys()

    def _forget_keys(self) -> None:
        """Drop the keys without panes, if only few of the known keys have panes."""
        if self._index is None or len(self._index) <= max(_BLOCK, _SPARSE * self.rows):
            return
        left = self.take_all()
        if left.height:
            rest = self.exchange(left)
            assert not rest, "the panes belong to different keys, all of which exist"

    def take_all(self) -> pl.DataFrame:
        """Return all panes, and drop all keys."""
        taken = self.frame(self.all())
        self.clear()
        return taken

    def frame(self, slots: Slots) -> pl.DataFrame:
        """Return the keys, panes and state of slots with panes."""
        assert self._index is not None, "slots belong to keys that have arrived"
        at = pa.array(slots)
        keys = [column.take(at) for column in self._index.freeze()]
        named = pl.DataFrame(pa.table(keys, names=self._keys))
        return named.hstack([pl.Series(name, of[slots]) for name, of in self._columns.items()])


def _longer(values: npt.NDArray[Any], size: int, fill: float) -> npt.NDArray[Any]:
    return np.append(values, np.full(size - len(values), fill, values.dtype))
