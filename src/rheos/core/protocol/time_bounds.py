"""Years that each representation of time supports, and checks for times outside of them.

Arrow counts time in integers, whose range is far wider than the ranges of the formats to which times
are converted. Converters treat times outside of those differently: NumPy returns an integer, Arrow
writes the string `<value out of range>`, Polars panics. So every conversion of times checks these
bounds first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record, shown_value


class Years(NamedTuple):
    """The first and the last year that a representation supports, both included."""

    first: int
    last: int


PYTHON = Years(1, 9999)
"""Years of `datetime.datetime` and `datetime.date`."""
ARROW_TEXT = Years(-32_767, 32_767)
"""Years of Arrow's cast to a string, and of its CSV writer."""
POLARS_TEXT = Years(-262_143, 262_142)
"""Years of Polars' strings of times, also in JSON."""
MILLISECONDS = Years(-292_000_000, 292_000_000)
"""Years of a count of milliseconds, to which Polars and Parquet convert counts of seconds."""

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_INT64 = np.iinfo(np.int64)


def has_times_outside(array: pa.Array, years: Years) -> bool:
    """Return whether any timestamp or date in the array, nested ones included, is outside the years."""
    for leaf in times_in(array):
        bounds = _bounds(leaf.type, years)
        if bounds is None or not len(leaf):
            continue
        integers = pa.int32() if pa.types.is_date32(leaf.type) else pa.int64()
        ends = pc.min_max(leaf.view(integers))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        if first is not None and (first < bounds[0] or last > bounds[1]):
            return True
    return False


def refuse_times_outside(rows: Batch, years: Years, form: str) -> None:
    """Raise InputError, with the column and the record, if a time is outside the years.

    Args:
        rows: the rows that are about to be converted.
        years: range that the target format supports.
        form: name of the target format in the error: "JSON".
    """
    for name in _with_times(rows.schema):
        column = rows.column(name)
        if has_times_outside(column, years):
            row = first_row(column, lambda part: has_times_outside(part, years))
            raise InputError(
                f"column {name!r} holds {shown_value(column, row)}, but {form} supports only "
                f"the years {years.first} to {years.last}",
                record=shown_record(rows, row),
                hint='correct or drop such rows first, in map_batches(..., form="arrow"), which '
                "accepts every value",
            )


def first_row(column: pa.Array, wrong: Callable[[pa.Array], bool]) -> int:
    """Return the first row for which `wrong` is true, by bisection. `wrong` must be true for the whole
    column."""
    begin, end = 0, len(column)
    while end - begin > 1:
        middle = (begin + end) // 2
        if wrong(column.slice(begin, middle - begin)):
            end = middle
        else:
            begin = middle
    return begin


@lru_cache(maxsize=256)
def _with_times(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(field.name for field in schema if _has_times(field.type))


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _has_times(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def times_in(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamps and dates in the array, nested ones included, except values under nulls."""
    kind, t = array.type, pa.types
    if t.is_timestamp(kind) or t.is_date(kind):
        yield array
    elif not _has_times(kind):
        return
    elif isinstance(array, pa.DictionaryArray):
        yield from times_in(array.dictionary_decode())
    elif t.is_run_end_encoded(kind):
        yield from times_in(pc.run_end_decode(array))
    elif t.is_struct(kind):
        for child in array.flatten():
            yield from times_in(child)
    elif t.is_map(kind):
        entries = array.drop_null() if array.null_count else array
        begin, end = (
            (entries.offsets[0].as_py(), entries.offsets[-1].as_py()) if len(entries) else (0, 0)
        )
        yield from times_in(entries.keys.slice(begin, end - begin))
        yield from times_in(entries.items.slice(begin, end - begin))
    elif t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        yield from times_in(array.flatten())


@lru_cache(maxsize=256)
def _bounds(kind: pa.DataType, years: Years) -> tuple[int, int] | None:
    """Return the least and the greatest integer of the type within the years; None if all are."""
    limits: np.iinfo[Any]
    first = int(np.datetime64(f"{years.first:05d}-01-01", "D").astype(np.int64))
    end = int(np.datetime64(f"{years.last + 1:05d}-01-01", "D").astype(np.int64))
    if pa.types.is_date32(kind):
        least, greatest = first, end - 1
        limits = np.iinfo(np.int32)
    else:
        per_day = _PER_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
        least, greatest = first * per_day, end * per_day - 1
        limits = _INT64
    if least <= limits.min and greatest >= limits.max:
        return None
    return least, greatest
