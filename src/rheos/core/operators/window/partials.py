"""Partial aggregates as rows of a stream: the combined rows of a batch, pane by pane.

A partial is one row. It has the single key of an unkeyed stream, the pane, and the state of
`TotalsTable` as columns. State that other tables keep as rows, and the limbs of exact sums, are lists
of structs.

    window_all | slice_start | first_window_end | rows | max.price | list.sums | list.distinct.user
    0          | 0           | 60000            | 812  | 19        | [{…}]     | [{…}, {…}, {…}]

Partials are merged like state: in any order, with exactly equal results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.contract import FixedWindows, PaneAssignment
from rheos.core.operators.window.exact_limbs import LIMB
from rheos.core.operators.window.frames import KEY, empty_frame, paned
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import arrow_column

_LIST = "list."


class Partials:
    """The partials of aggregates over rows of `schema`. `key` is the column with the single key."""

    def __init__(
        self, key: str, aggregates: Mapping[str, Agg], schema: pa.Schema, windows: FixedWindows
    ) -> None:
        self._key = schema.field(key)
        self._rows = schema
        self._pane = windows.pane
        # No state is grouped by the key, because all rows have the same.
        self._tables = Tables((), aggregates, schema, windows)
        self._columns = [*self._tables.totals.required, *self._tables.totals.optional]

    @property
    def inputs(self) -> Mapping[str, str]:
        """Return the columns from which partials are computed, by their names in frames."""
        # A frame without any column would have no rows.
        return {KEY + self._key.name: self._key.name} | self._tables.inputs

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the columns of partials."""
        none = PaneAssignment((np.zeros(1, np.int64), np.zeros(1, np.int64)), None, None)
        return self.made(empty_frame(self._rows, self.inputs), none).schema

    @property
    def kept(self) -> list[str]:
        """Return the columns of partials without key and pane."""
        return [name for name in self.schema.names if name not in (self._key.name, *self._pane)]

    def made(self, rows: pl.DataFrame, assigned: PaneAssignment) -> Batch:
        """Return the partials of rows, which are in the form of `frames.frame_of` with these
        `inputs`."""
        by = self._pane if self._pane[0] in rows.columns else ()
        table = self._tables.totals
        totals = paned(table.partial(rows, by), assigned, self._pane)
        arrays = {self._key.name: pa.array(np.zeros(totals.height, np.int64)).cast(self._key.type)}
        for name in (*self._pane, *self._columns):
            arrays[name] = (
                arrow_column(totals[name])
                if name in totals.columns
                else pa.array(np.zeros(totals.height, np.int64))
            )
        if table.has_exact:
            arrays[_LIST + table.sums_name] = _limbs(table.limbs(totals), totals.height)
        for other in self._tables.others:
            state = paned(other.combined(rows, by), assigned, self._pane)
            arrays[_LIST + other.name] = self._lists(state, other.required, totals)
        fields = [pa.field(name, array.type) for name, array in arrays.items()]
        fields[0] = self._key
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields))

    def _lists(self, state: pl.DataFrame, columns: Sequence[str], totals: pl.DataFrame) -> pa.Array:
        """Return the rows of a state, as a list for each row of the totals."""
        if totals.height == 1:
            ends = [0, state.height]
        else:
            numbers = totals.select(*self._pane, pl.int_range(pl.len()).alias(_LIST))
            state = state.join(numbers, on=self._pane).sort(_LIST)
            ends = np.searchsorted(state[_LIST].to_numpy(), np.arange(totals.height + 1)).tolist()
        rows = pa.StructArray.from_arrays(
            [arrow_column(state[name]) for name in columns], names=columns
        )
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows)


def listed(partials: pl.DataFrame, index: Sequence[str], name: str) -> pl.DataFrame:
    """Return a list of partials as rows of the state `name`; `index` are key and pane."""
    lists = partials.select(*index, pl.col(_LIST + name).alias(_LIST))
    return lists.filter(pl.col(_LIST).list.len() > 0).explode(_LIST).unnest(_LIST)


def _limbs(limbs: Mapping[tuple[str, int], np.ndarray], height: int) -> pa.Array:
    """Return the limbs of exact sums, by column and bin, as a list for each row."""
    names = pa.array([name for name, _ in limbs] * height, pa.string())
    bins = pa.array([bin for _, bin in limbs] * height, pa.int32())
    values = np.column_stack(list(limbs.values())).ravel() if limbs else np.zeros(0, np.int64)
    rows = pa.StructArray.from_arrays([names, bins, pa.array(values, pa.int64())], names=list(LIMB))
    ends = np.arange(height + 1, dtype=np.int32) * len(limbs)
    return pa.ListArray.from_arrays(pa.array(ends), rows)
