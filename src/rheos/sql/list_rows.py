"""Row functions of lists (`rheos.core.graph.row_functions`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.graph.row_functions import of_one_length
from rheos.sql.text_bounds import check_sizes

PLACE = "place"
"""Field of an element: its place in the list, from 0."""


def zip_elements(
    columns: Sequence[pl.Series], *, lists: int, names: Sequence[str], copied_by: str | None = None
) -> pl.Series:
    """Return a list of structs for each row: the elements of the first `lists` columns at each place,
    the values of the other columns, and the place.

    Shorter lists are filled with nulls. If a list is null, so is the result.

    Args:
        columns: The lists, and the other columns.
        lists: The number of lists.
        names: The fields of the structs, one for each column.
        copied_by: The call in the query, if its result may contain the strings of the other columns
            once for each element; None if it only reads them.

    Raises:
        ComputeError: The result may be too long.
    """
    given = of_one_length(columns)
    sizes = [
        each.list.len().cast(pl.Int64).to_numpy() if len(each) else np.zeros(0)
        for each in given[:lists]
    ]
    there = np.logical_and.reduce([each.is_not_null().to_numpy() for each in given[:lists]])
    sizes = [np.nan_to_num(each).astype(np.int64) for each in sizes]
    longest = np.where(there, np.maximum.reduce(sizes), 0)
    if copied_by is not None:
        for column in given[lists:]:
            if column.dtype in (pl.String, pl.Binary):
                size = column.cast(pl.Binary).bin.size()
                check_sizes(size.cast(pl.Int64) * pl.Series(longest), copied_by)
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
    # Strings are not copied: each element refers to that of its row.
    structs = pl.DataFrame(fields).to_struct().to_arrow(compat_level=pl.CompatLevel.newest())
    made = pa.LargeListArray.from_arrays(offsets, structs, mask=pa.array(~there))
    return cast("pl.Series", pl.from_arrow(made)).rename(given[0].name)


def repeat_elements(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Return lists that contain a value as often as the second column says. `written` is the call.

    Raises:
        ComputeError: A list would be too long.
    """
    value, times = of_one_length(columns)
    times = times.clip(lower_bound=0)
    is_string = value.dtype in (pl.String, pl.Binary)
    size = value.cast(pl.Binary).bin.size().fill_null(1) if is_string else pl.Series([8])
    check_sizes(size.cast(pl.Int64) * times.cast(pl.Int64), written)
    rows = pl.DataFrame([value.alias("value"), times.alias("times")])
    made = pl.when(pl.col("times").is_not_null()).then(pl.col("value").repeat_by("times"))
    return rows.select(made.alias(value.name)).to_series()


def insert_elements(columns: Sequence[pl.Series], *, written: str) -> pl.Series:
    """Return lists with an element at a place, which counts from 1, or from the end with -1. Nulls fill
    the places between; at the place 0 the result is null. `written` is the call in the query.

    Raises:
        ComputeError: A list would be too long.
    """
    lists, places, elements = of_one_length(columns)
    rows = pl.DataFrame([lists.alias("list"), places.alias("place"), elements.alias("element")])
    size, place = pl.col("list").list.len().cast(pl.Int64), pl.col("place").cast(pl.Int64)
    index = pl.when(place > 0).then(place - 1).when(place < 0).then(size + place + 1)
    gap = pl.max_horizontal(pl.col("index") - pl.col("list").list.len(), -pl.col("index"), 0)
    rows = rows.with_columns(index=index).with_columns(gap=gap)
    check_sizes(rows["gap"] * 8, written)
    one = pl.concat_list(pl.struct("element")).list.eval(pl.element().struct.field("element"))
    rows = rows.with_columns(one=one)
    nulls = pl.lit(None, dtype=elements.dtype).repeat_by("gap")
    begin = pl.col("index").clip(lower_bound=0)
    ahead, behind = pl.col("list").list.head(begin), pl.col("list").list.slice(begin)
    made = (
        pl.when(pl.col("index") < 0)
        .then(pl.concat_list(["one", nulls, "list"]))
        .otherwise(pl.concat_list([ahead, nulls, "one", behind]))
    )
    there = pl.col("list").is_not_null() & pl.col("index").is_not_null()
    return rows.select(pl.when(there).then(made).alias(lists.name)).to_series()


def fold_elements(
    columns: Sequence[pl.Series], *, merge: pl.Expr, names: tuple[str, ...], written: str
) -> pl.Series:
    """Return for each row the last result of `merge`, which is computed for each element of a list.

    Args:
        columns: The values before the first element, the lists, and further values of the rows.
        merge: An expression of the previous result, an element, and the further values.
        names: The names of these in `merge`.
        written: The call in the query.

    Raises:
        ComputeError: A string is too long.
    """
    result, lists, *others = of_one_length(columns)
    of_row = dict(zip(names[2:], others, strict=True))
    sizes = lists.list.len()
    longest = cast("int | None", sizes.max()) or 0
    for place in range(longest):
        element = lists.list.get(place, null_on_oob=True)
        frame = pl.DataFrame({names[0]: result, names[1]: element, **of_row})
        merged = frame.select(merge.alias(names[0])).to_series()
        result = merged.zip_with((sizes > place).fill_null(False), result)
        if result.dtype == pl.String:
            check_sizes(result.str.len_bytes().cast(pl.Int64), written)
    none = pl.Series([None], dtype=result.dtype)
    return result.zip_with(lists.is_not_null(), none).rename(columns[0].name)
