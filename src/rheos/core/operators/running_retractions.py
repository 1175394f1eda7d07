"""Values per key, row by row, when rows may also be retracted: values that are new or gone, and the
least or greatest value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.aggregates.cells import At, Cell, Frozen
from rheos.core.aggregates.contract import Agg, RunningForm, State
from rheos.core.aggregates.extremes import ExtremeCell, Max, Min
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.operators.running_values import by_rank, ranked


@dataclass(frozen=True)
class RowsWithValues:
    """The rows of a batch with a value, and the number of rows of the key that have this value after
    each of them."""

    batch: Segments
    """All rows of the batch, by key."""
    places: Ints
    """Positions of these rows in the batch."""
    keys: Sequence[pa.Array]
    """Keys of all rows of the batch."""
    values: pa.Array
    """Values of these rows. The fields below also refer to these rows."""
    signs: Ints
    """-1 for a retracted row, 1 for others."""
    counts: Ints
    pairs: Segments
    """Segments of the rows by key and value."""

    def presence_changes(self) -> Ints:
        """Return for each row of the batch: 1 if its value is new to the key, -1 if it is gone,
        else 0."""
        changed = np.zeros(self.batch.rows, np.int64)
        new, gone = (self.signs > 0) & (self.counts == 1), (self.signs < 0) & (self.counts == 0)
        changed[self.places] = new.astype(np.int64) - gone
        return changed

    def best_after(
        self,
        before: pa.Array,
        find: Callable[[Sequence[pa.Array], Sequence[pa.Array]], pa.Array],
        *,
        greatest: bool,
    ) -> pa.Array:
        """Return the best value of the key after each row of the batch. `before` has the best values of
        the batch's keys. If a best value is gone, `find` searches the stored values of those keys for
        the best one, except the given values.

        Each value exists for spans of the key's rows. The result after a row is the best value whose
        span includes that row. Stored values that are not in the batch count, too.
        """
        rows, keys = self.batch, len(before)
        key = np.repeat(np.arange(keys), rows.lengths)
        at = np.empty(rows.rows, np.int64)
        at[rows.order] = np.arange(rows.rows)
        at = at[self.places]
        values = pa.concat_arrays([before, self.values])
        ranks, holder = ranked(values, greatest=greatest)
        was_best = ranks[keys:] == ranks[:keys][key[at]]
        lost = np.unique(key[at[was_best & (self.counts == 0)]])
        if len(lost):
            found = find(*self._of_keys(lost, key[at]))
            places = np.arange(keys)
            places[lost] = np.arange(keys, keys + len(lost))
            before = pa.concat_arrays([before, found]).take(pa.array(places))
            values = pa.concat_arrays([before, self.values])
            ranks, holder = ranked(values, greatest=greatest)
        pairs, end_of_key = self.pairs, rows.ends + 1
        at, counts = pairs.gather(at), pairs.gather(self.counts)
        of_pairs = pairs.gather(ranks[keys:])
        until = np.append(at[1:], 0)
        until[pairs.ends] = end_of_key[key[at[pairs.ends]]]
        first = pairs.starts
        there, was = counts > 0, (counts - pairs.gather(self.signs))[first] > 0
        known = before.is_valid().to_numpy(zero_copy_only=False)
        begins = np.concatenate([at[there], rows.starts[key[at[first]]][was], rows.starts[known]])
        ends = np.concatenate([until[there], at[first][was], end_of_key[known]])
        of = np.concatenate([of_pairs[there], of_pairs[first][was], ranks[:keys][known]])
        best = least_over(begins, ends, of, rows.rows, len(holder))
        return by_rank(values, holder, rows.scatter(best))

    def _of_keys(self, keys: Ints, key: Ints) -> tuple[list[pa.Array], list[pa.Array]]:
        """Return these keys, and their rows with values. `key` is the key of each row."""
        of = np.flatnonzero(np.isin(key, keys))
        first = of[np.unique(key[of], return_index=True)[1]]
        one, every = pa.array(self.places[first]), pa.array(self.places[of])
        others = [*(column.take(every) for column in self.keys), self.values.take(pa.array(of))]
        return [column.take(one) for column in self.keys], others


def least_over(begins: Ints, ends: Ints, numbers: Ints, size: int, nothing: int) -> Ints:
    """Return, for each place below `size`, the least number whose span includes it, or `nothing` if no
    span does. Each span is covered by two spans whose length is a power of two. Spans of one length are
    halved together, the longest first."""
    lengths = ends - begins
    begins, ends, numbers, lengths = (each[lengths > 0] for each in (begins, ends, numbers, lengths))
    least = np.full(size, nothing)
    levels = np.frexp(lengths.astype(np.float64))[1] - 1
    for level in range(int(levels.max(initial=0)), -1, -1):
        some = levels == level
        np.minimum.at(least, begins[some], numbers[some])
        np.minimum.at(least, ends[some] - (1 << level), numbers[some])
        if level:
            half = 1 << (level - 1)
            halves = least.copy()
            np.minimum(least[half:], least[:-half], out=halves[half:])
            least = halves
    return least


@dataclass(frozen=True)
class GivenExtreme(Agg):
    """A running extreme that another step computes: the state keeps its latest value."""

    of: Min | Max | None = None
    kind: ClassVar[str] = "given"

    def __str__(self) -> str:
        return str(self.of)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._type(schema)

    def windowed(self, schema: pa.Schema) -> State:
        raise NotImplementedError

    def running(self, schema: pa.Schema) -> RunningForm:
        kept = Min(self.column).running(schema)
        return RunningForm(lambda: _GivenCell(kept.cell()), kept.stored)

    running_value = staticmethod(Min.running_value)


class _GivenCell(Cell):
    """Stores the received values in the form of the extreme's own cell."""

    def __init__(self, kept: Cell) -> None:
        self._kept = kept

    def grow(self, slots: int) -> None:
        self._kept.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        last = column.take(pa.array(rows.order[rows.ends]))
        self._kept.thaw(rows.slots, _parts(self._kept, last))
        return column

    def freeze(self, at: At) -> dict[str, Frozen]:
        return self._kept.freeze(at)

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._kept.thaw(slots, parts)


def _parts(kept: Cell, values: pa.Array) -> dict[str, pa.Array]:
    if not isinstance(kept, ExtremeCell):
        return {"best": values}
    return {"best": values.view(kept.storage).fill_null(0), "seen": values.is_valid()}
