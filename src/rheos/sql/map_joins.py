"""Joins of the entries of two maps, as a row function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.graph.row_functions import of_one_length

KEY, VALUE, OTHER_VALUE = "key", "value", "other value"
"""Fields of the entries of maps."""
_ROW = "row"


def join_maps(columns: Sequence[pl.Series]) -> pl.Series:
    """Return for each row the keys of two maps, each with its values in both, as a list of structs. A
    missing value is null. The keys of the first map come first. If a map is null, so is the list."""
    one, other = of_one_length(columns)
    missing = one.is_null() | other.is_null()
    tables = [_entries(each, missing, name) for each, name in ((one, VALUE), (other, OTHER_VALUE))]
    joined = tables[0].join(
        tables[1], on=[_ROW, KEY], how="full", coalesce=True, maintain_order="left_right"
    )
    joined = joined.sort(_ROW, maintain_order=True)
    counts = np.bincount(joined[_ROW].to_numpy(), minlength=len(one))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64())
    structs = joined.drop(_ROW).to_struct().to_arrow(compat_level=pl.CompatLevel.newest())
    made = pa.LargeListArray.from_arrays(offsets, structs, mask=missing.to_arrow())
    return cast("pl.Series", pl.from_arrow(made)).rename(one.name)


def _entries(maps: pl.Series, missing: pl.Series, value: str) -> pl.DataFrame:
    """Return the entries of all maps as a table with their row, their key, and their value under a
    name."""
    frame = pl.DataFrame({_ROW: pl.Series(range(len(maps)), dtype=pl.Int64), "map": maps})
    entries = frame.filter(~missing).select(_ROW, pl.col("map").map.entries())
    exploded = entries.explode("map", empty_as_null=False, keep_nulls=False)
    fields = pl.col("map").struct.field
    return exploded.select(_ROW, fields(KEY), fields(VALUE).alias(value))
