"""Types cross between Spark and Arrow, and back, without loss; what cannot is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as sql

from rheos.connectors.spark.spark_types import (
    arrow_schema,
    spark_arrow_schema,
    spark_schema,
    to_arrow,
    to_spark,
    wire_schema,
)
from rheos.connectors.spark.versions import FIRST_WITH, installed, type_named
from rheos.core.errors import InputError, SchemaError
from rheos.core.formats.arrow_bytes import table_bytes

UTC = dt.UTC

# --- versions of Spark ----------------------------------------------------------------------------


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test if the installed Spark lacks the type."""
    return pytest.mark.skipif(
        type_named(name) is None, reason=f"{name} is new in Spark {FIRST_WITH[name]}"
    )


def later(name: str, says: str, *arguments: Any) -> Any:
    """Return a case with an instance of a type that old versions of Spark lack."""
    kind: Any = type_named(name)
    return pytest.param(kind and kind(*arguments), says, marks=needs(name))


COLLATED: Any = sql.StringType("UNICODE_CI") if hasattr(sql.StringType(), "collation") else None
HAS_TIME = type_named("TimeType") is not None


@pytest.mark.skipif(HAS_TIME, reason="the installed Spark has TimeType")
def test_a_type_missing_in_this_spark_names_the_version_needed() -> None:
    schema = pa.schema({"opens": pa.list_(pa.time64("us"))})
    with pytest.raises(
        SchemaError, match=rf"'opens.element'.*TimeType is new in Spark 4\.1.*{installed()}"
    ):
        spark_schema(schema)


# --- schemas --------------------------------------------------------------------------------------

PLAIN = [
    sql.BooleanType(),
    sql.ByteType(),
    sql.ShortType(),
    sql.IntegerType(),
    sql.LongType(),
    sql.FloatType(),
    sql.DoubleType(),
    sql.StringType(),
    sql.BinaryType(),
    sql.DateType(),
    sql.TimestampType(),
    sql.TimestampNTZType(),
    sql.DayTimeIntervalType(),
    *(kind() for kind in [type_named("TimeType")] if kind is not None),
]

decimals = st.integers(1, 38).flatmap(
    lambda p: st.builds(sql.DecimalType, st.just(p), st.integers(0, p))
)
names_drawn = st.lists(st.text(min_size=1, max_size=8), max_size=4, unique_by=lambda name: name.lower())
metadata = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=2)


def structs(children: st.SearchStrategy[sql.DataType]) -> st.SearchStrategy[sql.StructType]:
    def of(names: list[str]) -> st.SearchStrategy[sql.StructType]:
        fields = [
            st.builds(sql.StructField, st.just(name), children, st.booleans(), metadata)
            | st.just(sql.StructField(name, sql.NullType()))
            for name in names
        ]
        return st.tuples(*fields).map(lambda found: sql.StructType(list(found)))

    return names_drawn.flatmap(of)


spark_types = st.recursive(
    st.sampled_from(PLAIN) | decimals,
    lambda children: (
        st.builds(sql.ArrayType, children, st.booleans())
        | st.builds(sql.MapType, children, children, st.booleans())
        | structs(children)
    ),
    max_leaves=8,
)


@given(structs(spark_types))
def test_a_spark_schema_is_converted_back_unchanged(schema: sql.StructType) -> None:
    arrow = arrow_schema(schema)
    assert spark_schema(arrow) == schema
    assert spark_arrow_schema(arrow).equals(arrow, check_metadata=True)


def test_the_elements_of_an_empty_literal_have_no_type_and_may_be_null() -> None:
    empty = sql.ArrayType(sql.NullType(), containsNull=False)
    schema = arrow_schema(sql.StructType([sql.StructField("a", empty)]))
    assert schema.field("a").type == pa.list_(pa.null())
    keys = sql.MapType(sql.NullType(), sql.ByteType())
    with pytest.raises(SchemaError, match=r"column 'a\.key'"):
        arrow_schema(sql.StructType([sql.StructField("a", keys)]))


@pytest.mark.parametrize(
    ("given", "spark"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.timestamp("ms", tz="Europe/Berlin"), "timestamp"),
        (pa.duration("s"), "interval day to second"),
        pytest.param(pa.time32("ms"), "time(6)", marks=needs("TimeType")),
        (pa.date64(), "date"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(16), "binary"),
        (pa.binary_view(), "binary"),
        (pa.decimal64(10, 2), "decimal(10,2)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.uint8()), "smallint"),
        (pa.list_(pa.uint8(), 3), "array<smallint>"),
        (pa.large_list(pa.large_string()), "array<string>"),
        (pa.list_view(pa.int64()), "array<bigint>"),
        (pa.map_(pa.string(), pa.struct({"n": pa.uint16()})), "map<string,struct<n:int>>"),
    ],
    ids=str,
)
def test_arrow_types_that_spark_lacks_map_to_a_wider_one(given: pa.DataType, spark: str) -> None:
    assert spark_schema(pa.schema({"a": given})).fields[0].dataType.simpleString() == spark


class Point(sql.UserDefinedType):
    @classmethod
    def sqlType(cls) -> sql.DataType:  # noqa: N802 - PySpark's name
        return sql.ArrayType(sql.DoubleType())


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (sql.YearMonthIntervalType(), "string"),
        later("CalendarIntervalType", "string"),
        later("VariantType", "variant_get"),
        pytest.param(
            COLLATED, "UTF8_BINARY", marks=pytest.mark.skipif(COLLATED is None, reason="Spark 4.0")
        ),
        (sql.DecimalType(5, -2), "decimal"),
        later("GeometryType", "st_asbinary", 4326),
        later("GeographyType", "st_asbinary", 4326),
        (Point(), "plain columns"),
    ],
    ids=repr,
)
def test_a_spark_type_without_mapping_is_refused_with_its_path(kind: sql.DataType, says: str) -> None:
    inner = sql.StructType([sql.StructField("bad", kind)])
    schema = sql.StructType([sql.StructField("orders", sql.ArrayType(sql.MapType(kind, inner)))])
    with pytest.raises(SchemaError, match=r"column 'orders\.element\.key'") as caught:
        arrow_schema(schema)
    assert says in str(caught.value.hint)
    with pytest.raises(SchemaError, match=r"column 'row\.bad'"):
        arrow_schema(sql.StructType([sql.StructField("row", inner)]))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (pa.timestamp("ns"), '"us"'),
        (pa.duration("ns"), '"us"'),
        (pa.time64("ns"), '"us"'),
        (pa.decimal256(50, 2), "38 digits"),
        (pa.decimal128(5, -2), "38 digits"),
        (pa.month_day_nano_interval(), "cast"),
        (pa.uuid(), "fixed_size_binary"),
        (pa.dense_union([pa.field("a", pa.int8())]), "struct"),
    ],
    ids=str,
)
def test_an_arrow_type_without_mapping_is_refused_with_its_path(kind: pa.DataType, says: str) -> None:
    with pytest.raises(SchemaError, match=r"column 'a\.x\.element'") as caught:
        spark_schema(pa.schema({"a": pa.struct({"x": pa.list_(kind)})}))
    assert says in str(caught.value.hint)


def test_ambiguous_names_are_refused() -> None:
    cased = pa.schema({"a": pa.struct({"x": pa.int8(), "X": pa.int8()})})
    with pytest.raises(SchemaError, match=r"'x' and 'X' in 'a' differ only by case, which Spark"):
        spark_schema(cased)
    assert arrow_schema(spark_schema(cased, case_sensitive=True)) == cased
    twice = sql.StructType([sql.StructField("a", sql.ByteType())] * 2)
    with pytest.raises(SchemaError, match="two columns are named 'a'"):
        arrow_schema(twice)


# --- rows -----------------------------------------------------------------------------------------

EVERY_TYPE = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("flag", pa.bool_()),
        pa.field("i8", pa.int8()),
        pa.field("i16", pa.int16()),
        pa.field("i32", pa.int32()),
        pa.field("f32", pa.float32()),
        pa.field("f64", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("local", pa.timestamp("us")),
        *([pa.field("clock", pa.time64("us"))] if HAS_TIME else []),
        pa.field("took", pa.duration("us")),
        pa.field("price", pa.decimal128(38, 10)),
        pa.field("nothing", pa.null()),
        pa.field("list", pa.list_(pa.field("element", pa.time64("us") if HAS_TIME else pa.date32()))),
        pa.field("none", pa.struct([])),
        pa.field(
            "map",
            pa.map_(
                pa.string(),
                pa.struct(
                    [
                        pa.field("n", pa.decimal128(20, 2), False),
                        pa.field("at", pa.timestamp("us", tz="UTC")),
                        pa.field("deep", pa.list_(pa.map_(pa.int32(), pa.duration("us")))),
                    ]
                ),
            ),
        ),
    ]
)


def every_value() -> pa.Table:
    """Return values of every type: nulls, signs, ends of ranges, empty and nested values."""
    old, far = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    summer = dt.datetime(1965, 7, 4, 12, 30, 0, 1)

    def row(id: int, at: dt.datetime, sign: int, text: str) -> dict[str, Any]:
        deep = [[(1, dt.timedelta(microseconds=sign))], [], None]
        record = {"n": Decimal("12.34") * sign, "at": at.replace(tzinfo=UTC), "deep": deep}
        return {
            "id": id,
            "flag": sign > 0,
            "i8": 127 * sign,
            "i16": 2**15 - 1 if sign > 0 else -(2**15),
            "i32": 2**31 - 1 if sign > 0 else -(2**31),
            "f32": 1.5 * sign,
            "f64": float("inf") * sign,
            "text": text,
            "bytes": b"\x00\xff" * id,
            "day": at.date(),
            "at": at.replace(tzinfo=UTC),
            "local": at,
            "clock": at.time(),
            "took": dt.timedelta(days=100_000, microseconds=1) * sign,
            "price": Decimal("9999999999999999999999999999.0123456789") * sign,
            "nothing": None,
            "list": [at.time() if HAS_TIME else at.date(), None],
            "none": {},
            "map": [("a", record), ("b", None), ("", {"n": Decimal(0), "at": None, "deep": None})],
        }

    rows = [
        row(1, summer, -1, "ä\x00\n"),
        row(2, old, 1, ""),
        {"id": 3},
        row(4, far, -1, "x" * 1000),
        {"id": 5, "list": [], "map": [], "text": "-0", "f64": -0.0},
    ]
    return pa.Table.from_pylist(rows, schema=EVERY_TYPE)


@pytest.mark.spark
def test_every_type_passes_through_spark_and_back_in_another_time_zone(spark: Any) -> None:
    table = every_value()
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    data = table_bytes(table)

    def make(batches: Any) -> Any:
        list(batches)
        for batch in pa.ipc.open_stream(data):
            yield to_spark(batch)

    def check(batches: Any) -> Any:
        for batch in batches:
            back = to_arrow(batch, EVERY_TYPE)
            back.validate(full=True)
            for row in back.slice(0).to_pylist():
                yield pa.record_batch([[repr(row)]], ["row"])

    frame = session.range(0, 1, 1, 1).mapInArrow(make, spark_schema(EVERY_TYPE))
    assert arrow_schema(frame.schema).equals(EVERY_TYPE)
    # A projection and a sort make Spark read the values itself, not just pass them on.
    shuffled = frame.repartition(2, "id").sortWithinPartitions("id")
    found = {row.row for row in shuffled.mapInArrow(check, "row string").collect()}
    assert found == {repr(row) for row in table.to_pylist()}
    local = frame.selectExpr("id", "cast(at as string) as at", "cast(local as string) as local")
    said = {row.id: (row.at, row.local) for row in local.collect()}
    # Noon in UTC is some hours earlier there, and a time without zone is what it is.
    assert said[1] == ("1965-07-04 10:00:00.000001", "1965-07-04 12:30:00.000001")


wide = pa.schema(
    {
        "fixed": pa.list_(pa.uint8(), 2),
        "dict": pa.dictionary(pa.int8(), pa.string()),
        "u64": pa.uint64(),
        "half": pa.float16(),
        "clock": pa.time32("ms"),
        "large": pa.large_list(pa.timestamp("s")),
        "view": pa.list_view(pa.string_view()),
        "map": pa.map_(pa.string(), pa.struct({"x": pa.dictionary(pa.int8(), pa.uint32())})),
    }
)


def test_wider_types_keep_their_values_in_every_slice_of_a_batch() -> None:
    full: dict[str, Any] = {
        "fixed": [1, 255],
        "dict": "a",
        "u64": 2**64 - 1,
        "half": 0.5,
        "clock": dt.time(1, 2, 3, 4000),
        "large": [dt.datetime(1900, 1, 1)],
        "view": ["a", None],
        "map": [("k", {"x": 2**32 - 1}), ("l", None)],
    }
    empty = {**full, "large": [], "view": [], "map": [], "dict": "b"}
    batch = pa.RecordBatch.from_pylist([full, {}, empty, full], schema=wide)
    for begin in range(5):
        for end in range(begin, 5):
            part = batch.slice(begin, end - begin)
            given = to_spark(part)
            given.validate(full=True)
            assert given.schema == wire_schema(wide)
            back = to_arrow(given, spark_arrow_schema(wide))
            back.validate(full=True)
            assert back.to_pylist() == part.to_pylist()


def test_a_value_beyond_sparks_range_is_an_error_that_names_the_column() -> None:
    batch = pa.record_batch({"at": pa.array([2**60], pa.timestamp("s"))})
    with pytest.raises(InputError, match="column 'at'"):
        to_spark(batch)
