"""Rows that pass through Spark are unchanged, for every Arrow type."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.ids import ChainId
from rheos.runtimes.batch.buckets import BucketOutlet, SortedBuckets, without_hashes
from rheos.runtimes.batch.keyed_ports import OnePort
from rheos.runtimes.batch.layout import PACKED, packed_row, payloads, unpack
from rheos.runtimes.batch.tasks import RowsOutput

UTC = dt.UTC
EDGE = Edge(0, Exchange.HASH, ChainId(0), ChainId(1), 0, ("key",))
DAY = dt.datetime(2013, 1, 2, 3, 4, 5, 678_000)

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "uint8": (pa.uint8(), [0, None, 255]),
    "uint64": (pa.uint64(), [0, None, 2**64 - 1]),
    "int64": (pa.int64(), [-(2**63), None, 2**63 - 1]),
    "float16": (pa.float16(), [np.float16(1.5), None, np.float16("inf")]),
    "float32": (pa.float32(), [-0.0, None, 0.1]),
    "float64": (pa.float64(), [float("-inf"), None, 1e-320]),
    "ms in UTC": (pa.timestamp("ms", "UTC"), [DAY.replace(tzinfo=UTC), None, DAY.replace(tzinfo=UTC)]),
    "ns in no zone": (pa.timestamp("ns"), [1, None, 2**62]),
    "s in Rome": (pa.timestamp("s", "Europe/Rome"), [0, None, -(2**40)]),
    "date32": (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(2013, 1, 1), None, dt.date(1969, 1, 1)]),
    "time32": (pa.time32("ms"), [dt.time(23, 59), None, dt.time(0)]),
    "time64": (pa.time64("ns"), [1, None, 2]),
    "duration": (pa.duration("us"), [dt.timedelta(days=-1), None, dt.timedelta(0)]),
    "text": (pa.string(), ["", None, "çµ\0"]),
    "large text": (pa.large_string(), ["a", None, "b"]),
    "text view": (pa.string_view(), ["a", None, "a text too long to be inlined"]),
    "bytes": (pa.binary(), [b"", None, b"\x00\xff"]),
    "fixed bytes": (pa.binary(3), [b"abc", None, b"\0\0\0"]),
    "decimal": (pa.decimal128(38, 10), [decimal.Decimal("1.5"), None, decimal.Decimal("-9e20")]),
    "wide decimal": (pa.decimal256(60, 2), [decimal.Decimal("1.25"), None, decimal.Decimal(10) ** 50]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["EWR", None, "JFK"]),
    "nothing": (pa.null(), [None, None, None]),
    "list": (pa.list_(pa.timestamp("ms", "UTC")), [[DAY.replace(tzinfo=UTC), None], None, []]),
    "large list": (pa.large_list(pa.uint16()), [[1], None, [65535]]),
    "fixed list": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, None]]),
    "struct": (
        pa.struct([("At", pa.timestamp("ns")), ("rest", pa.struct([("x", pa.large_string())]))]),
        [{"At": 1, "rest": {"x": "y"}}, None, {"At": None, "rest": None}],
    ),
    "struct of a and A": (
        pa.struct([("a", pa.int8()), ("A", pa.int8())]),
        [{"a": 1, "A": 2}, None, {}],
    ),
    "map": (pa.map_(pa.string(), pa.time32("s")), [[("a", dt.time(1))], None, []]),
}


def table_of_all() -> pa.RecordBatch:
    arrays = [pa.array(values, kind) for kind, values in COLUMNS.values()]
    # Names that differ by case alone, a dot and a space are names like others.
    names = [*COLUMNS, "A.b", "a.B"]
    arrays += [pa.array([1, 2, 3]), pa.array([4, 5, 6])]
    return pa.record_batch(arrays, names=names)


def assert_same(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """Compare values and types; a dictionary may have another order."""
    assert found.schema == expected.schema
    for name in expected.schema.names:
        left, right = found.column(name), expected.column(name)
        if isinstance(right, pa.DictionaryArray):
            left, right = left.dictionary_decode(), right.dictionary_decode()
        assert left.equals(right), name


def test_a_packed_batch_is_restored() -> None:
    batch = table_of_all()
    ((port, payload),) = payloads(packed_row(3, table_bytes(batch)), "port")
    assert port == 3
    assert unpack(payload).equals(batch)
    assert packed_row(3, b"").schema == PACKED


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_any_type_survives_bucketing(name: str) -> None:
    kind, values = COLUMNS[name]
    batch = keyed([pa.array(values, kind)])
    assert_same(through_buckets([batch]), batch)
    assert_same(through_buckets([batch.slice(1, 2)]), batch.slice(1, 2))
    # Several batches have several dictionaries.
    halves = [keyed([pa.array(values[:1], kind)]), keyed([pa.array(values[1:], kind)])]
    assert_same(through_buckets(halves), batch)


def test_run_end_encoding_and_nested_views_survive_bucketing() -> None:
    runs = pc.run_end_encode(pa.array(["a", "a", None]))
    views = pa.array([["text"], None, []], pa.list_(pa.string_view()))
    records = pa.array([{"x": b"1"}, None, {"x": None}], pa.struct([("x", pa.binary_view())]))
    mapped = pa.array([[("k", "v")], None, []], pa.map_(pa.string_view(), pa.string_view()))
    fixed = pa.array([["v", "w"], None, [None, "x"]], pa.list_(pa.string_view(), 2))
    json = pa.array(["{}", None, "[]"], pa.string_view()).cast(pa.json_(pa.string_view()))
    batch = keyed([runs, views, records, mapped, fixed, json])
    assert through_buckets([batch]).to_pylist() == batch.to_pylist()
    assert through_buckets([batch]).schema == batch.schema


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None]),
        pa.array([1, 2], pa.int8()),
        pa.array([0.5, None]),
        pa.array([True, False]),
        pa.array([dt.date(2013, 1, 1), None]),
        pa.array([decimal.Decimal("1.5"), None]),
        pa.array([b"abc", None], pa.binary(3)),
        pa.array(["a view", None], pa.string_view()),
    ],
    ids=lambda values: str(values.type),
)
def test_dictionaries_of_any_values_survive_bucketing(values: pa.Array) -> None:
    """One dictionary has a null among its values, the other a null index."""
    indices = [[0, 1, 0], [1, None, 0]]
    batches = [
        keyed([pa.DictionaryArray.from_arrays(pa.array(index, pa.int8()), values)]) for index in indices
    ]
    found = through_buckets(batches)
    assert found.schema == batches[0].schema
    assert found.to_pylist() == [row for batch in batches for row in batch.to_pylist()]


def test_narrow_indices_and_run_ends_split_batches() -> None:
    runs = pa.run_end_encoded(pa.int16(), pa.int64())
    schema = pa.schema([("text", pa.dictionary(pa.int8(), pa.string())), ("run", runs)])
    texts, numbers = [f"t{n % 200}" for n in range(40_000)], [0] * 40_000
    plain = pa.record_batch(
        [pa.array([0] * 40_000), pa.array(texts), pa.array(numbers)], names=["h", "a", "b"]
    )
    found = list(without_hashes(plain, schema))
    assert {batch.schema for batch in found} == {schema}
    assert [text for batch in found for text in batch.column("text").to_pylist()] == texts
    assert [number for batch in found for number in batch.column("run").to_pylist()] == numbers


@pytest.mark.spark
def test_rows_survive_a_real_shuffle_and_sort(spark: Any) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    from rheos.runtimes.spark.shipping import worker_task

    batch = table_of_all()
    key = pa.array([0, 0, 0])
    batch = pa.RecordBatch.from_arrays([key, *batch.columns], names=["key", *batch.schema.names])

    def carry(rows: pa.RecordBatch) -> pa.RecordBatch:
        shuffled = (
            spark.range(0, 1, 1, 1)
            .mapInArrow(
                worker_task(f"{__name__}:give", table_bytes(rows)), from_arrow_schema(rows.schema)
            )
            .repartition("bucket")
            .sortWithinPartitions("bucket", "arrival")
            .mapInArrow(worker_task(f"{__name__}:take", b""), "b binary")
            .collect()
        )
        tables = [unpack(pa.py_buffer(row.b)) for row in shuffled]
        return pa.Table.from_batches(tables).combine_chunks().to_batches()[0]

    assert_same(through_buckets([batch], carry), batch)


def give(payload: bytes, _: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield unpack(pa.py_buffer(payload))


def take(_: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch([pa.array([table_bytes(batch)], pa.binary())], names=["b"])


def keyed(columns: list[pa.Array]) -> pa.RecordBatch:
    """Return the columns with a key that all rows share, so that they stay in order."""
    key = pa.array([0] * len(columns[0]))
    return pa.RecordBatch.from_arrays([key, *columns], names=["key", *map(str, range(len(columns)))])


def through_buckets(batches: list[pa.RecordBatch], carry: Any = lambda rows: rows) -> pa.RecordBatch:
    [schema] = {batch.schema for batch in batches}
    outlet = BucketOutlet(RowsOutput(EDGE, schema, bucket_bits=9), partition=3)
    left = [rows for batch in batches for rows in outlet.rows(0, batch)] + list(outlet.finish())
    port = OnePort(0, schema)
    buckets = SortedBuckets(port.order, "no folder is needed")
    found = [
        rows
        for keyed in left
        for bucket, payload in payloads(carry(keyed), "bucket")
        for rows in buckets.take(bucket, port.read(0, payload), payload.size)
    ]
    found += buckets.end()
    return pa.concat_batches([batch for rows in found for batch in without_hashes(rows, schema)])
