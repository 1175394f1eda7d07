"""ARRAY_SORT with a function that compares two elements, as a row function.

The function is an expression, so it compares many pairs at once: a sorting network (Batcher's odd-even
merge sort) names the pairs of each round for all lists of a batch. For lists of up to n elements it has
about log2(n)^2 / 2 rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.graph.row_functions import of_one_length

_Places = npt.NDArray[np.int64]


def sort_by_comparing(
    columns: Sequence[pl.Series], *, compare: pl.Expr, names: tuple[str, ...]
) -> pl.Series:
    """Return lists with their elements sorted. Equal elements keep their order. If the function returns
    null for two elements, the list is null.

    Args:
        columns: The lists, and further values of the rows.
        compare: An expression of two elements and the further values: negative, 0 or positive.
        names: The names of these in `compare`.
    """
    lists, *others = of_one_length(columns)
    elements = lists.list.explode(empty_as_null=False, keep_nulls=False)
    sizes = lists.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    rows = np.repeat(np.arange(len(sizes)), sizes)
    ends = np.cumsum(sizes)
    places = np.arange(len(rows)) - (ends - sizes)[rows]
    order = np.arange(len(rows))
    unknown = np.zeros(len(sizes), dtype=bool)
    for step, lower in _rounds(places, sizes[rows]):
        one, other = order[lower], order[lower + step]
        of_row = [each.gather(rows[lower]) for each in others]
        values = (elements.gather(one), elements.gather(other), *of_row)
        pairs = pl.DataFrame(dict(zip(names, values, strict=True)))
        found = pairs.with_columns(compare.alias(names[0]))[names[0]]
        unknown[rows[lower][found.is_null().to_numpy()]] = True
        sign = found.fill_null(0).to_numpy()
        swapped = (sign > 0) | ((sign == 0) & (one > other))
        order[lower] = np.where(swapped, other, one)
        order[lower + step] = np.where(swapped, one, other)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int64())
    missing = pa.array(lists.is_null().to_numpy() | unknown)
    inner = elements.gather(order).to_arrow(compat_level=pl.CompatLevel.newest())
    made = pa.LargeListArray.from_arrays(offsets, inner, mask=missing)
    return cast("pl.Series", pl.from_arrow(made)).rename(lists.name)


def _rounds(places: _Places, sizes: _Places) -> Iterator[tuple[int, _Places]]:
    """Yield for each round the distance of the compared elements, and the first of each pair.

    Args:
        places: The place of each element in its list.
        sizes: The size of the list of each element.
    """
    longest = int(sizes.max(initial=0))
    merged = 1
    while merged < longest:
        step = merged
        while step:
            first = step % merged
            is_lower = (
                (places >= first)
                & ((places - first) // step % 2 == 0)
                & (places // (2 * merged) == (places + step) // (2 * merged))
                & (places + step < sizes)
            )
            yield step, np.flatnonzero(is_lower)
            step //= 2
        merged *= 2
