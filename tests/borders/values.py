"""Columns of every type that streams support, with the extremes of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

NAN = ("NaN",)
Raw = st.SearchStrategy[Any]


def _integers(bits: int, *, signed: bool = True) -> tuple[list[Any], Raw]:
    least = -(2 ** (bits - 1)) if signed else 0
    most = least + 2**bits - 1
    edges = [least, most, 0, 1, most - 1, 2**53 + 1, 2**63, -1]
    return [each for each in edges if least <= each <= most], st.integers(least, most)


_YEARS = (-300_000, -32_768, -43, 0, 1, 1581, 1582, 1899, 1970, 2026, 9999, 10_000, 32_768, 300_000)
_BITS: Mapping[Any, Literal[32, 64]] = {np.float32: 32, np.float64: 64}


def _counts(per_day: int, bits: int = 64) -> tuple[list[Any], Raw]:
    """Return integers that count units since 1970: the limits of their range, those of years, and some
    between."""
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    days = [int(np.datetime64(f"{year:05d}-01-01", "D").astype(np.int64)) for year in _YEARS]
    edges = [*(day * per_day + more for day in days for more in (-1, 0, 1)), least, most, 1_234_567]
    ordinary = st.integers(max(-800_000 * per_day, least), min(3_000_000 * per_day, most))
    return [each for each in edges if least <= each <= most], ordinary | st.integers(least, most)


def _times(unit: str) -> tuple[list[Any], Raw]:
    return _counts(_PER_DAY[unit])


_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def _of_day(unit: str) -> tuple[list[Any], Raw]:
    last = _PER_DAY[unit] - 1
    return [0, 1, last], st.integers(0, last)


def _floats(kind: Any) -> tuple[list[Any], Raw]:
    info = np.finfo(kind)
    edges = [info.max, info.min, info.smallest_subnormal, -0.0, np.inf, -np.inf, np.nan, 0.1]
    drawn: Raw = st.floats(width=_BITS[kind])
    return [kind(each).item() for each in edges], drawn


def _decimals(precision: int, scale: int) -> tuple[list[Any], Raw]:
    most = 10**precision - 1
    drawn: Raw = st.integers(-most, most).map(lambda digits: _decimal(digits, scale))
    return [_decimal(each, scale) for each in (most, -most, 0, 1)], drawn


def _decimal(digits: int, scale: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


_TEXTS = ["", "a", " ", '"', "\n", "\0", "null", "NaN", "語 🙂", "\u202e", "-0043-01-01", "1" * 40]
_BYTES = [b"", b"\0", b"\xff\xfe", b"a\nb", bytes(range(256))]

# Conversion of raw values to a column: integers are viewed as what they count.
_UNITS = ("s", "ms", "us", "ns")
_ZONES = (None, "UTC", "Europe/Berlin")

PLAIN: Mapping[pa.DataType, tuple[Sequence[Any], Raw]] = {
    pa.bool_(): ([True, False], st.booleans()),
    **{getattr(pa, f"int{bits}")(): _integers(bits) for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): _integers(bits, signed=False) for bits in (8, 16, 32, 64)},
    pa.float32(): _floats(np.float32),
    pa.float64(): _floats(np.float64),
    pa.string(): (_TEXTS, st.text()),
    pa.large_string(): (_TEXTS, st.text()),
    pa.binary(): (_BYTES, st.binary()),
    pa.date32(): _counts(1, 32),
    **{pa.timestamp(unit, zone): _times(unit) for unit in _UNITS for zone in _ZONES},
    **{pa.duration(unit): _times(unit) for unit in _UNITS},
    pa.time32("s"): _of_day("s"),
    pa.time32("ms"): _of_day("ms"),
    pa.time64("us"): _of_day("us"),
    pa.time64("ns"): _of_day("ns"),
    pa.decimal128(38, 18): _decimals(38, 18),
    pa.decimal128(18, 2): _decimals(18, 2),
}


def _plain(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    t = pa.types
    if t.is_temporal(kind):
        integers = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, integers).view(kind)
    return pa.array(values, kind)


def _lists(inner: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Return lists of each value twice with a null in between."""
    flat = _plain(inner, [each for value in values for each in (value, None, value)])
    nulls = pa.array([value is None for value in values], pa.bool_())
    offsets = pa.array(range(0, 3 * len(values) + 1, 3), pa.int32())
    return pa.ListArray.from_arrays(offsets, flat, mask=nulls)


def _structs(inner: pa.DataType, values: Sequence[Any]) -> pa.Array:
    children = [_plain(inner, values), pa.array(["x"] * len(values), pa.string())]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, names=["value", "name"], mask=mask)


def _maps(inner: pa.DataType, values: Sequence[Any]) -> pa.Array:
    offsets = pa.array(range(len(values) + 1), pa.int32())
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.MapArray.from_arrays(
        offsets, pa.array(["k"] * len(values), pa.string()), _plain(inner, values), mask=mask
    )


_INSIDE = (pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.date32())
Made = Callable[[Sequence[Any]], pa.Array]


def _made(make: Callable[[pa.DataType, Sequence[Any]], pa.Array], inner: pa.DataType) -> Made:
    return lambda values: make(inner, values)


_COLUMNS: list[tuple[Made, tuple[Sequence[Any], Raw]]] = [
    *((_made(_plain, kind), edges) for kind, edges in PLAIN.items()),
    *((_made(make, kind), PLAIN[kind]) for make in (_lists, _structs, _maps) for kind in _INSIDE),
]
TYPES: Mapping[str, tuple[Made, Sequence[Any], Raw]] = {
    str(make([]).type): (make, edges, drawn) for make, (edges, drawn) in _COLUMNS
}
"""By its name each type: a column of raw values, its extremes, and what else is drawn."""


def rows_of_type(name: str, values: Sequence[Any]) -> pa.RecordBatch:
    """Return rows with the raw values as the column `v`; None is null."""
    column = TYPES[name][0](values)
    return pa.record_batch([column], schema=pa.schema([pa.field("v", column.type)]))


def plain(column: pa.Array) -> list[Any]:
    """Return the values of a column for comparison: times are counts of nanoseconds, NaN is NAN."""
    kind, t = column.type, pa.types
    if t.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if t.is_struct(kind):
        children = [plain(column.field(at)) for at in range(kind.num_fields)]
        rows = list(zip(*children, strict=True))
        return [
            row if there else None
            for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    if t.is_map(kind) or t.is_list(kind) or t.is_large_list(kind):
        return [_inside(one) if one.is_valid()[0].as_py() else None for one in _slices(column)]
    if t.is_timestamp(kind) or t.is_duration(kind) or t.is_time(kind) or t.is_date(kind):
        integers = pa.int32() if kind.bit_width == 32 else pa.int64()
        factor = _PER_DAY["ns"] if t.is_date32(kind) else _PER_DAY["ns"] // _PER_DAY[_unit(kind)]
        return [None if each is None else each * factor for each in column.view(integers).to_pylist()]
    if t.is_floating(kind):
        return [NAN if each is not None and each != each else each for each in column.to_pylist()]
    if t.is_decimal(kind) and kind.scale == 0:
        return [None if each is None else int(each) for each in column.to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


def _unit(kind: pa.DataType) -> str:
    return "ms" if pa.types.is_date64(kind) else kind.unit


def _slices(column: pa.Array) -> list[pa.Array]:
    return [column.slice(at, 1) for at in range(len(column))]


def _inside(one: pa.Array) -> list[Any]:
    """Return the contents of a single list or map."""
    if not pa.types.is_map(one.type):
        return plain(one.flatten())
    begin, end = one.offsets[0].as_py(), one.offsets[-1].as_py()
    keys, items = one.keys.slice(begin, end - begin), one.items.slice(begin, end - begin)
    return list(zip(plain(keys), plain(items), strict=True))
