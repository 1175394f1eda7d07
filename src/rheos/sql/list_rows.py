"""Row functions of lists (`rheos.core.graph.row_functions`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.graph.row_functions import of_one_length

PLACE = "place"
"""Field of an element: its place in the list, from 0."""


def zip_elements(columns: Sequence[pl.Series], *, lists: int, names: Sequence[str]) -> pl.Series:
    """Return a list of structs for each row: the elements of the first `lists` columns at each place,
    the values of the other columns, and the place.

    Shorter lists are filled with nulls. If a list is null, so is the result.
    """
    given = of_one_length(columns)
    sizes = [
        each.list.len().cast(pl.Int64).to_numpy() if len(each) else np.zeros(0)
        for each in given[:lists]
    ]
    there = np.logical_and.reduce([each.is_not_null().to_numpy() for each in given[:lists]])
    sizes = [np.nan_to_num(each).astype(np.int64) for each in sizes]
    longest = np.where(there, np.maximum.reduce(sizes), 0)
    ends = np.cumsum(longest)
    rows = np.repeat(np.arange(len(longest)), longest)
    places = np.arange(len(rows)) - np.repeat(ends - longest, longest)
    fields = []
    for number, column in enumerate(given):
        if number < lists:
            begins = np.cumsum(sizes[number]) - sizes[number]
            values = column.list.explode(empty_as_null=False, keep_nulls=False)
            at = pl.Series(begins[rows] + places)
            index = at.zip_with(
                pl.Series(places < sizes[number][rows]), pl.Series([None], dtype=pl.Int64)
            )
        else:
            values, index = column, pl.Series(rows)
        fields.append(values.gather(index).alias(names[number]))
    fields.append(pl.Series(PLACE, places, dtype=pl.Int32))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
    structs = pl.DataFrame(fields).to_struct().to_arrow()
    made = pa.LargeListArray.from_arrays(offsets, structs, mask=pa.array(~there))
    return cast("pl.Series", pl.from_arrow(made)).rename(given[0].name)
