"""Conversion between Python types and Arrow's, and of records to batches and back."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.types import (
    RecordCollector,
    RowsOfBatch,
    TypeMismatch,
    arrow_type,
    batch_of,
    columns_to_python,
    row_type,
    rows_of,
    schema_of,
)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: float
    y: float | None


@dataclass
class Everything:
    flag: bool
    n: int
    ratio: float
    text: str
    data: bytes
    at: datetime
    day: date
    took: timedelta
    price: Decimal
    maybe: int | None
    tags: list[str]
    sizes: dict[str, int | None]
    where: Point
    path: list[Point]
    last: Point | None
    color: Color
    colors: list[Color | None]
    named: dict[str, Point]


@dataclass
class Plain:
    n: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Slotted:
    n: int
    text: str


@dataclass(kw_only=True)
class Keyword:
    text: str = ""
    n: int
    twice: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


def everything(n: int) -> Everything:
    return Everything(
        flag=n % 2 == 0,
        n=n,
        ratio=n / 4,
        text=f"t{n}",
        data=b"\x00%d" % n,
        at=datetime(2024, 2, 29, 12, 0, 0, n, tzinfo=UTC),
        day=date(1960 + n, 1, 31),
        took=timedelta(days=-n, microseconds=1),
        price=Decimal(n).scaleb(-2),
        maybe=None if n % 3 == 0 else n,
        tags=["a"] * n,
        sizes={"a": n, "b": None},
        where=Point(n, None if n % 2 else 0.5),
        path=[Point(i, None) for i in range(n)],
        last=None if n == 1 else Point(1.0, 2.0),
        color=Color.BLUE,
        colors=[Color.RED, None][: n % 3],
        named={str(i): Point(i, i) for i in range(n)},
    )


def test_records_are_converted_to_batches_and_back() -> None:
    rows = [everything(n) for n in range(7)]
    batch = batch_of(rows, schema_of(Everything), Everything)
    batch.validate(full=True)
    assert batch.schema == schema_of(Everything)
    assert rows_of(batch, Everything) == rows
    assert rows_of(batch.slice(2, 3), Everything) == rows[2:5]
    assert rows_of(batch.slice(0, 0), Everything) == []
    assert batch_of([], schema_of(Everything), Everything).num_rows == 0
    assert list(RowsOfBatch(batch, Everything)) == rows
    assert RowsOfBatch(batch, Everything)[2] == rows[2]
    assert RowsOfBatch(batch, None)[1].columns_ == tuple(batch.schema.names)


def test_named_rows_are_converted_to_batches_and_back() -> None:
    batch = batch_of([everything(n) for n in range(5)], schema_of(Everything), Everything)
    rows = rows_of(batch.slice(1), None)
    assert rows[0].where == {"x": 1.0, "y": None}
    assert rows[0].sizes == {"a": 1, "b": None}
    assert batch_of(rows, batch.schema) == batch.slice(1)


@pytest.mark.parametrize("record", [Plain, Slotted])
def test_plain_records(record: type) -> None:
    rows = [record(1, "a"), record(2, "b")]
    batch = batch_of(rows, schema_of(record), record)
    assert batch.to_pylist() == [{"n": 1, "text": "a"}, {"n": 2, "text": "b"}]
    assert rows_of(batch, record) == rows


def test_records_are_filled_by_name_and_without_hidden_columns() -> None:
    batch = pa.record_batch({"text": ["a"], "more": [1.0], "n": [7], TS: [5]})
    assert rows_of(batch, Plain) == [Plain(7, "a")]
    assert rows_of(batch, Keyword) == [Keyword(n=7, text="a")]
    [row] = rows_of(batch, None)
    assert repr(row) == "Row(text='a', more=1.0, n=7)"
    with pytest.raises(SchemaError, match="Plain has a field that the stream does not have"):
        rows_of(batch.select(["text"]), Plain)


def test_rows_with_odd_column_names() -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("a b", "class", "_x", "ok")])
    batch = pa.record_batch([[1], [2], [3], [4]], schema=schema)
    [row] = rows_of(batch, None)
    assert (row["a b"], row["class"], row["_x"], row.ok, row[0], row["ok"]) == (1, 2, 3, 4, 1, 4)
    assert tuple(row) == (1, 2, 3, 4)
    assert batch_of([row], schema) == batch
    assert batch_of([row], pa.schema([schema.field("ok")])).to_pylist() == [{"ok": 4}]
    for other in (pickle.loads(pickle.dumps(row)), copy.deepcopy(row)):
        assert other == row
        assert type(other) is type(row)
    assert row_type(schema) is type(row)


@pytest.mark.parametrize(
    "rows",
    [
        [{"n": 1, "text": "a"}, {"text": None, "n": 2}],
        [(1, "a"), (2, None)],
        [Plain(1, "a"), {"n": 2, "text": None}],
        [Slotted(1, "a"), (2, None)],
    ],
)
def test_without_a_dataclass_rows_come_in_several_forms(rows: list[Any]) -> None:
    batch = batch_of(rows, schema_of(Plain))
    assert batch.to_pylist() == [{"n": 1, "text": "a"}, {"n": 2, "text": None}]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, pa.int64()),
        (int | None, pa.int64()),
        (list[int], pa.list_(pa.int64())),
        (dict[str, float], pa.map_(pa.string(), pa.float64())),
        (Color, pa.string()),
        (Point, pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64())])),
    ],
)
def test_arrow_types(annotation: Any, expected: pa.DataType) -> None:
    assert arrow_type(annotation).equals(expected)


@pytest.mark.parametrize("annotation", [object, Any, list, dict, complex, set[int], int | str])
def test_types_without_a_column_type_say_what_can_be_written(annotation: Any) -> None:
    with pytest.raises(SchemaError, match="has no column type") as caught:
        arrow_type(annotation)
    assert "a dataclass" in str(caught.value.hint)


@dataclass
class Bad:
    n: int
    what: complex


def test_a_field_without_a_column_type_is_named() -> None:
    with pytest.raises(SchemaError, match="field 'what' of Bad: complex has no column type"):
        schema_of(Bad)
    with pytest.raises(SchemaError, match="int is not a dataclass"):
        schema_of(int)


def test_nullability_is_that_of_the_annotation() -> None:
    assert [f.nullable for f in schema_of(Plain)] == [False, True]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Plain("x"), "field 'n' should be int64, but is str: 'x'"),  # type: ignore[arg-type]
        (Plain(None), "field 'n' should be int64, but is NoneType: None"),  # type: ignore[arg-type]
        (Plain(1.0), "field 'n' should be int64, but is float: 1.0"),  # type: ignore[arg-type]
        (Plain(True), "field 'n' should be int64, but is bool: True"),
        (Plain(2**70), "field 'n' should be int64, but is int: 1180591620717411303424"),
        (Plain(1, 5), "field 'text' should be string or None, but is int: 5"),  # type: ignore[arg-type]
        (Plain(1, b"x"), "field 'text' should be string or None, but is bytes: b'x'"),  # type: ignore[arg-type]
        (None, "a record should be Plain, but is NoneType: None"),
        (Slotted(1, "a"), "a record should be Plain, but is Slotted"),
        (7, "a record should be Plain, but is int: 7"),
    ],
)
def test_values_that_do_not_fit_are_named(row: Any, said: str) -> None:
    rows = [Plain(1), row, Plain(2)]
    with pytest.raises(TypeMismatch) as caught:
        batch_of(rows, schema_of(Plain), Plain)
    assert str(caught.value).startswith(said)
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"where": Point("a", None)}, "field 'where.x' should be double, but is str: 'a'"),
        ({"path": [Point(1, 1), 5]}, "field 'path[]' should be a record with 'x', but is int: 5"),
        (
            {"path": [Point(1, 1), Point(1, "a")]},
            "field 'path[].y' should be double or None, but is str",
        ),
        ({"tags": ["a", 1]}, "field 'tags[]' should be string or None, but is int: 1"),
        ({"tags": "abc"}, "field 'tags' should be list"),
        ({"tags": 7}, "field 'tags' should be list"),
        ({"sizes": {1: 1}}, "field 'sizes[key]' should be string, but is int: 1"),
        ({"sizes": {"a": "b"}}, "field 'sizes[]' should be int64 or None, but is str: 'b'"),
        ({"sizes": []}, "field 'sizes' should be map"),
        ({"where": 5}, "field 'where' should be"),
        ({"where": None}, "field 'where' should be struct"),
        ({"day": datetime(2024, 1, 1)}, "field 'day' should be date32"),
        ({"at": date(2024, 1, 1)}, "field 'at' should be timestamp[us, tz=UTC]"),
        ({"price": 0.5}, "field 'price' should be decimal128(38, 18), but is float"),
        ({"price": Decimal(1).scaleb(-30)}, "field 'price' should be decimal128"),
    ],
)
def test_nested_values_that_do_not_fit_are_named(change: dict[str, Any], said: str) -> None:
    rows = [everything(n) for n in range(4)]
    for name, value in change.items():
        setattr(rows[2], name, value)
    with pytest.raises(TypeMismatch) as caught:
        batch_of(rows, schema_of(Everything), Everything)
    assert str(caught.value).startswith(said)
    assert caught.value.index == 2


def test_numbers_of_numpy_and_enums_fit() -> None:
    batch = batch_of([Plain(np.int32(3), np.str_("a"))], schema_of(Plain), Plain)  # type: ignore[arg-type]
    assert batch.to_pylist() == [{"n": 3, "text": "a"}]
    assert batch_of([{"c": Color.RED}], pa.schema([("c", pa.string())])).to_pylist() == [{"c": "red"}]
    assert batch_of([{"x": 1}, {"x": None}], pa.schema([("x", pa.float32())])).to_pylist() == [
        {"x": 1.0},
        {"x": None},
    ]


def test_collected_values_do_not_change_with_the_record() -> None:
    collector = RecordCollector(schema_of(Everything), Everything)
    row = everything(2)
    collector.add(row)
    row.n, row.path[0] = 99, Point(9, 9)
    row.tags.append("more")
    collector.add(everything(1))
    assert len(collector) == 2
    assert rows_of(collector.batch(), Everything) == [everything(2), everything(1)]
    assert rows_of(collector.batch(1, 5), Everything) == [everything(1)]
    collector.clear()
    assert collector.batch().num_rows == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Amsterdam"])
def test_times_of_any_unit_and_zone(unit: str, zone: str | None) -> None:
    values = [
        datetime(1905, 1, 1, tzinfo=UTC if zone else None),
        None,
        datetime(2024, 5, 5, 5, tzinfo=UTC if zone else None),
    ]
    found = columns_to_python(pa.array(values, pa.timestamp(unit, zone)))
    assert found == values
    assert columns_to_python(pa.array([], pa.timestamp(unit, zone))) == []


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3], pa.uint8()),
        pa.array([True, None]),
        pa.array([1.5, float("inf")], pa.float32()),
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array([b"a", None]),
        pa.array([timedelta(1), None], pa.duration("s")),
        pa.array([date(1, 1, 1), None]),
        pa.array([None, None]),
        pa.array([[1], None, [], [2, None]]),
        pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
        pa.array([[[1]], None, [None, [2]]]),
        pa.array([{"a": 1, "b": [{"c": 1}]}, None, {"a": None, "b": None}]),
        pa.array([Decimal("1.50"), None]),
    ],
    ids=str,
)
def test_columns_equal_those_of_arrow(array: pa.Array) -> None:
    assert columns_to_python(array) == array.to_pylist()
    assert columns_to_python(array.slice(1)) == array.slice(1).to_pylist()


@given(st.lists(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))))
def test_datetimes_with_a_zone(values: list[datetime]) -> None:
    aware = [value.replace(tzinfo=timezone(timedelta(hours=1))) for value in values]
    assert columns_to_python(pa.array(aware, pa.timestamp("us", "UTC"))) == aware


def test_the_visible_part_of_a_schema_is_written() -> None:
    schema = pa.schema([*schema_of(Plain), (TS, pa.int64())])
    assert batch_of([Plain(1)], schema, Plain).schema == visible(schema)
