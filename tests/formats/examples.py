"""Every format, with a schema of all types that it holds, and rows of it drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from rheos import formats
from rheos.core.formats.contract import Format
from rheos.core.protocol.elements import Batch
from rheos.formats.avro_schemas import avro_of
from tests.formats.messages import descriptors

_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}


@dataclass(frozen=True)
class Example:
    format: Format
    schema: pa.Schema
    texts: st.SearchStrategy[str] = field(default_factory=st.text)
    """What strings are drawn from."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """A row; columns that it leaves out are null."""


@st.composite
def batches(draw: st.DrawFn, example: Example) -> Batch:
    row = st.fixed_dictionaries({each.name: values(each, example.texts) for each in example.schema})
    rows = draw(st.lists(row, max_size=5))
    return pa.RecordBatch.from_pylist(rows, schema=example.schema)


def values(column: pa.Field, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    drawn = _of_type(column.type, texts)
    return st.none() | drawn if column.nullable else drawn


def _of_type(kind: pa.DataType, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    t = pa.types
    if t.is_boolean(kind):
        return st.booleans()
    if t.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if t.is_signed_integer(kind) else 0
        return st.integers(low, low + 2**kind.bit_width - 1)
    if t.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=False)
    if t.is_decimal(kind):
        digits = min(kind.precision, 38)
        whole = st.integers(-(10**digits) + 1, 10**digits - 1)
        return whole.map(lambda digits: Decimal(digits).scaleb(-kind.scale))
    if t.is_string(kind) or t.is_large_string(kind):
        return texts
    if t.is_binary(kind) or t.is_large_binary(kind):
        return st.binary()
    if t.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if t.is_dictionary(kind):
        return _of_type(kind.value_type, texts)
    if t.is_date(kind):
        return st.dates(date(1, 1, 1), date(9999, 12, 31))
    if t.is_time(kind):
        unit = _UNIT_US[kind.unit]
        return st.integers(0, 86_400_000_000 // unit - 1).map(
            lambda n: (datetime.min + timedelta(microseconds=n * unit)).time()
        )
    if t.is_timestamp(kind):
        unit = _UNIT_US[kind.unit]
        first, last = _OF_NS if kind.unit == "ns" else _OF_PYTHON
        zone = None if kind.tz is None else UTC
        count = (last - first) // timedelta(microseconds=unit)
        return st.integers(0, count).map(
            lambda n: (first + n * timedelta(microseconds=unit)).replace(tzinfo=zone)
        )
    if t.is_duration(kind):
        unit = _UNIT_US[kind.unit]
        return st.integers(-(10**9), 10**9).map(lambda n: timedelta(microseconds=n * unit))
    if t.is_struct(kind):
        return st.fixed_dictionaries({each.name: values(each, texts) for each in kind})
    if t.is_list(kind) or t.is_large_list(kind):
        return st.lists(values(kind.value_field, texts), max_size=3)
    if t.is_map(kind):
        keys = _of_type(kind.key_type, texts)
        return st.dictionaries(keys, values(kind.item_field, texts), max_size=3).map(
            lambda found: list(found.items())
        )
    raise AssertionError(f"no values of {kind} are drawn")


_OF_PYTHON = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
_OF_NS = datetime(1680, 1, 1), datetime(2260, 1, 1)

SIMPLE = [
    pa.field("yes", pa.bool_()),
    pa.field("i8", pa.int8()),
    pa.field("i16", pa.int16()),
    pa.field("i32", pa.int32()),
    pa.field("i64", pa.int64(), nullable=False),
    pa.field("u8", pa.uint8()),
    pa.field("u16", pa.uint16()),
    pa.field("u32", pa.uint32()),
    pa.field("u64", pa.uint64()),
    pa.field("f32", pa.float32()),
    pa.field("f64", pa.float64()),
    pa.field("dec", pa.decimal128(20, 4)),
    pa.field("s", pa.string()),
    pa.field("ls", pa.large_string()),
    pa.field("word", pa.dictionary(pa.int32(), pa.string())),
    pa.field("day", pa.date32()),
    *(pa.field(f"at_{unit}", pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.field("at_utc", pa.timestamp("us", "UTC")),
    pa.field("sure", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("noon_s", pa.time32("s")),
    pa.field("noon_ms", pa.time32("ms")),
    pa.field("noon_us", pa.time64("us")),
    pa.field("noon_ns", pa.time64("ns")),
]
_PAIR = pa.struct(
    [pa.field("x", pa.int64(), nullable=False), pa.field("at", pa.timestamp("ms", "UTC"))]
)
NESTED = [
    pa.field("list", pa.list_(pa.int32())),
    pa.field("texts", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
    pa.field("pair", _PAIR),
    pa.field("pairs", pa.list_(_PAIR)),
]

MORE = [
    pa.field("bytes", pa.binary()),
    pa.field("lb", pa.large_binary()),
    pa.field("four", pa.binary(4)),
    pa.field("took", pa.duration("us")),
    pa.field("map", pa.map_(pa.string(), pa.int64())),
    pa.field("ll", pa.large_list(pa.int8())),
    pa.field("d256", pa.decimal256(50, 2)),
]
"""What JSON has no form for."""

ALL_TYPES = pa.schema([*SIMPLE, *NESTED])
A_FLAT_ROW = {"i64": 7, "sure": datetime(2026, 1, 1, tzinfo=UTC), "s": "x", "f64": 1.5}
A_ROW = {**A_FLAT_ROW, "texts": ["a"], "pair": {"x": 1, "at": None}}


def one_column(name: str, kind: pa.DataType, *, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable)])


_NOT_AVRO = {"u64", "at_s", "at_ns", "noon_s", "noon_ns", "took", "ll", "d256", "map"}
AVRO_TYPES = pa.schema([each for each in [*SIMPLE, *NESTED, *MORE] if each.name not in _NOT_AVRO])

_ORDER = formats.protobuf("shop.Order", descriptors=descriptors())


def _an_order() -> dict[str, Any]:
    """Zeros and empty values, but for what may be absent."""
    plain = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}
    found = {}
    for each in _ORDER.own_schema():
        nested = pa.types.is_list(each.type) or pa.types.is_map(each.type)
        if not each.nullable:
            found[each.name] = [] if nested else plain.get(each.type, 0)
    return found | {"a_int64": 7, "items": [{"sku": "x", "cents": 5, "seen": None}]}


EXAMPLES = {
    "avro": Example(formats.avro(avro_of(AVRO_TYPES)), AVRO_TYPES, row=A_ROW),
    "arrow": Example(
        formats.arrow(rows_per_payload=1), pa.schema([*SIMPLE, *NESTED, *MORE]), row=A_ROW
    ),
    "arrow, of two rows": Example(
        formats.arrow(rows_per_payload=2), one_column("n", pa.int64()), row={"n": 7}
    ),
    "csv": Example(formats.csv(), pa.schema(SIMPLE), row=A_FLAT_ROW),
    "csv, of one column": Example(
        formats.csv(delimiter=";"), one_column("s", pa.string(), nullable=False), row={"s": "x"}
    ),
    "json": Example(formats.json(), ALL_TYPES, row=A_ROW),
    "protobuf": Example(_ORDER, _ORDER.own_schema(), row=_an_order()),
    "raw": Example(formats.raw(), one_column("value", pa.binary()), row={"value": b"x"}),
    "raw, large": Example(
        formats.raw(), one_column("bytes", pa.large_binary(), nullable=False), row={"bytes": b"x"}
    ),
    "text": Example(formats.text(), one_column("value", pa.string()), row={"value": "x"}),
    "text, large": Example(
        formats.text(), one_column("line", pa.large_string(), nullable=False), row={"line": "x"}
    ),
}
