"""Values of declared types become columns, and then the same bytes again."""

from __future__ import annotations

import enum
import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError, SchemaError, UnrestorableError
from rheos.core.state.codec import ValueCodec
from rheos.core.state.describe import type_shape
from rheos.runtimes.state_tables.state_layout import arrow_type
from rheos.runtimes.state_tables.values import array_header, values_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Span(NamedTuple):
    first: int
    last: float = 2.5


class Pair(NamedTuple):
    left: str
    right: int | None


class Tagged(msgspec.Struct, tag="it"):
    a: int


@dataclass
class Inner:
    color: Color
    tags: set[str]
    best: Decimal | None = None


@dataclass
class Outer:
    n: int
    inner: Inner | None
    spans: list[Span]
    by: dict[str, Inner]
    at: datetime
    pair: Pair
    mode: Literal["slow", "fast", None] = None
    more: list[Inner | None] = field(default_factory=list)


moments = st.datetimes(timezones=st.just(UTC))
ints = st.integers(-(2**63), 2**63 - 1)
inners = st.builds(
    Inner,
    st.sampled_from(Color),
    st.sets(st.text()),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False),
)
spans = st.builds(Span, ints, st.floats(allow_nan=False))
pairs = st.builds(Pair, st.text(), st.none() | ints)

VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, ints),
    (float, st.floats(allow_nan=False)),
    (bool, st.booleans()),
    (str, st.text()),
    (bytes, st.binary()),
    (int | None, st.none() | ints),
    (datetime, moments),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, st.timedeltas(timedelta(-9999), timedelta(9999))),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (uuid.UUID, st.uuids()),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Literal[1, 2, None], st.sampled_from([1, 2, None])),
    (list[int], st.lists(ints)),
    (frozenset[str], st.frozensets(st.text())),
    (tuple[int, ...], st.lists(ints).map(tuple)),
    (tuple[int, str], st.tuples(ints, st.text())),
    (dict[int, str], st.dictionaries(ints, st.text())),
    (dict[tuple[int, str], list[Span]], st.dictionaries(st.tuples(ints, st.text()), st.lists(spans))),
    (Span, spans),
    (Pair, pairs),
    (Tagged, st.builds(Tagged, ints)),
    (Inner, inners),
    (int | str, ints | st.text()),
    (
        Outer,
        st.builds(
            Outer,
            ints,
            st.none() | inners,
            st.lists(spans, max_size=2),
            st.dictionaries(st.text(), inners, max_size=2),
            moments,
            pairs,
            st.sampled_from(["slow", "fast", None]),
            st.lists(st.none() | inners, max_size=2),
        ),
    ),
]


@pytest.mark.parametrize(
    ("declared", "strategy"), VALUES, ids=lambda v: getattr(v, "__name__", "")[:20]
)
@given(data=st.data())
def test_values_are_written_back_byte_for_byte(
    declared: Any, strategy: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    values = data.draw(st.lists(strategy, max_size=4))
    keys = list(range(len(values)))
    stored = ValueCodec("it", declared).encode(values, keys)
    form = values_of("it", type_shape("it", declared))
    column = form.decode(stored)
    assert column.type == form.kind
    assert form.encode(column, keys) == stored
    assert list(form.misfits(form.kind, "value")) == []


def test_columns_follow_the_documented_table_of_types() -> None:
    form = values_of("it", type_shape("it", Outer))
    value = Outer(
        1, None, [Span(1, 0.5)], {"a": Inner(Color.RED, {"t"}, Decimal("1.50"))},
        datetime(2024, 1, 2, tzinfo=UTC), Pair("l", None), "fast", [None],
    )  # fmt: skip
    [found] = form.decode(ValueCodec("it", Outer).encode([value], [0])).to_pylist()
    assert found == {
        "n": 1,
        "inner": None,
        "spans": [{"first": 1, "last": 0.5}],
        "by": [("a", {"color": "red", "tags": ["t"], "best": "1.50"})],
        "at": datetime(2024, 1, 2, tzinfo=UTC),
        "pair": {"left": "l", "right": None},
        "mode": "fast",
        "more": [None],
    }


def test_values_of_an_older_program_are_read() -> None:
    form = values_of("it", type_shape("it", Inner))
    old = msgspec.msgpack.encode({"color": "red", "tags": ["a"], "gone": 1})
    assert form.decode([old]).to_pylist() == [{"color": "red", "tags": ["a"], "best": None}]
    short = values_of("it", type_shape("it", Span))
    assert short.decode([msgspec.msgpack.encode([7])]).to_pylist() == [{"first": 7, "last": None}]


def test_a_missing_field_with_a_default_stays_missing() -> None:
    form = values_of("it", type_shape("it", Span))
    stored = [msgspec.msgpack.encode([7])]
    assert form.encode(form.decode(stored), [0]) == stored


@pytest.mark.parametrize(
    ("declared", "column", "says"),
    [
        (Color, pa.array(["green"]), "green"),
        (int, pa.array([None], pa.int64()), "Expected `int`, got `None`"),
        (Decimal, pa.array(["much"]), "[Dd]ecimal"),
        (Inner, pa.array([{"color": "red", "tags": None, "best": None}]), r"\$\.tags"),
        (int | str, pa.array(["{"]), "JSON"),
    ],
)
def test_values_of_another_type_are_refused_with_their_key(
    declared: Any, column: pa.Array, says: str
) -> None:
    form = values_of("total", type_shape("total", declared))
    with pytest.raises(InputError, match=says) as caught:
        form.encode(column, ["user 7"])
    assert caught.value.key == "'user 7'"


@pytest.mark.parametrize(
    ("declared", "given", "says"),
    [
        (int, pa.string(), "value is string, but must be int64"),
        (int, pa.float64(), "value is double, but must be int64"),
        (list[int], pa.list_(pa.string()), r"value\[\] is string"),
        (Inner, pa.struct([("color", pa.string())]), r"value\.tags is missing"),
        (
            Inner,
            pa.struct([("color", pa.string()), ("tags", pa.list_(pa.string())), ("x", pa.int8())]),
            r"value\.x is not a field",
        ),
        (dict[str, Inner], pa.map_(pa.int64(), pa.int64()), r"value\[key\] is int64"),
    ],
)
def test_columns_of_another_type_are_named_by_their_path(
    declared: Any, given: pa.DataType, says: str
) -> None:
    form = values_of("it", type_shape("it", declared))
    assert any(re.search(says, said) for said in form.misfits(given, "value"))


def test_values_outside_the_column_type_are_an_error() -> None:
    form = values_of("it", type_shape("it", int))
    with pytest.raises(UnrestorableError, match="state 'it' cannot be shown as int64"):
        form.decode([msgspec.msgpack.encode(1), msgspec.msgpack.encode(2**63)])


@pytest.mark.parametrize("length", [0, 15, 16, 65_535, 65_536])
def test_array_headers_are_those_of_messagepack(length: int) -> None:
    assert array_header(length) + b"\x01" * length == msgspec.msgpack.encode([1] * length)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("ms"),
        pa.timestamp("us", tz="Europe/Berlin"),
        pa.duration("us"),
        pa.decimal128(10, 2),
        pa.decimal256(40, 3),
        pa.binary(16),
        pa.list_(pa.field("item", pa.struct([("a", pa.int64()), ("b", pa.decimal128(3, 1))]))),
        pa.list_(pa.int32(), 3),
        pa.map_(pa.string(), pa.list_(pa.int64())),
        pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.map_(pa.string(), pa.bool_()))]),
    ],
    ids=str,
)
def test_types_are_parsed_from_strings(kind: pa.DataType) -> None:
    assert arrow_type(str(kind)) == kind


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="matrix"):
        arrow_type("matrix<int8>")
