"""Extreme values and names in a real Cassandra: each is stored bit for bit, or refused with its row."""

from __future__ import annotations

import ipaddress
import math
import struct
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.cassandra.columns import _KINDS
from rheos.core.errors import InputError, RheosError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing.servers import CassandraNode
from tests.connectors.ports import sink_context

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proves(
        "Cassandra",
        faults=["extreme values and names"],
        slow_because="a node takes some 15 s of processor time to start",
    ),
]

Encode = Callable[[Any], bytes]
Case = tuple[pa.Array, Encode]


@pytest.fixture(scope="module")
def cql(cassandra_node: CassandraNode) -> Iterator[Any]:
    from cassandra.cluster import Cluster

    host, port = cassandra_node.address.split(":")
    with Cluster([host], port=int(port), protocol_version=4) as cluster, cluster.connect() as session:
        session.execute(
            "CREATE KEYSPACE hostile WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        yield session.execute


def write(node: CassandraNode, table: str, rows: pa.RecordBatch, **more: Any) -> None:
    sink = rh.cassandra.sink(f"hostile.{table}", hosts=node.address, retry_for="60s", **more)
    sink.validate(rows.schema)
    writer = sink.prepared(rows.schema, ("job", "sink")).open(sink_context(rows.schema))
    try:
        writer.write(rows)
        writer.prepare(CheckpointId(1))
    finally:
        writer.close()


# --- values ---------------------------------------------------------------------------------------


def big_endian(value: int) -> bytes:
    """Return the shortest two's complement, as Java's BigInteger writes it."""
    bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return struct.pack(">i", -exponent) + big_endian(unscaled)


def whole(bits: int) -> pa.Array:
    most = (1 << bits - 1) - 1
    return pa.array([-most - 1, -129, -1, 0, 1, 127, most] if bits > 8 else [-128, -1, 0, 127])


def floats(type_: pa.DataType, *values: float) -> pa.Array:
    return pa.array([0.0, -0.0, math.inf, -math.inf, math.nan, *values], type_)


def times(unit: str, *values: int, zone: str | None = "UTC") -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def packed(form: str, scale: int = 1) -> Encode:
    return lambda value: struct.pack(form, value // scale if scale != 1 else value)


QUIET_NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]
MOST = (1 << 63) - 1
TEXTS = [
    "",
    "\0",
    "a\0b",
    "\U0010ffff",
    "\ud7ff",
    "x" * 70_000,
    "'; DROP TABLE t; --",
    "\ufffe",
    "e\u0301",
]
UUIDS = ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-ffff-ffff-ffff-ffffffffffff"]
TEXT: list[Case] = [(pa.array(TEXTS), str.encode), (pa.array(TEXTS[:2], pa.large_string()), str.encode)]
CASES: dict[str, list[Case]] = {
    "ascii": [(pa.array(["", "\0", "\x7f", "'\""]), str.encode)],
    "text": TEXT,
    "varchar": TEXT,
    "uuid": [(pa.array(UUIDS), lambda value: uuid.UUID(value).bytes)],
    "timeuuid": [
        (pa.array([str(uuid.UUID(int=1 << 76 | 1 << 63))]), lambda value: uuid.UUID(value).bytes),
    ],
    "inet": [
        (
            pa.array(["0.0.0.0", "255.255.255.255", "::", "::ffff:1.2.3.4", "fe80::1"]),
            lambda value: ipaddress.ip_address(value).packed,
        )
    ],
    "blob": [(pa.array([b"", b"\0", bytes(range(256)), b"\xff" * 2_000_000]), bytes)],
    "boolean": [(pa.array([True, False]), lambda value: bytes([value]))],
    "tinyint": [(whole(8).cast(pa.int8()), packed(">b"))],
    "smallint": [
        (whole(16).cast(pa.int16()), packed(">h")),
        (pa.array([255], pa.uint8()), packed(">h")),
    ],
    "int": [(whole(32).cast(pa.int32()), packed(">i")), (pa.array([65535], pa.uint16()), packed(">i"))],
    "bigint": [(whole(64), packed(">q")), (pa.array([(1 << 32) - 1], pa.uint32()), packed(">q"))],
    "varint": [
        (whole(64), big_endian),
        (pa.array([0, 255, 1 << 63, (1 << 64) - 1], pa.uint64()), big_endian),
    ],
    "float": [(floats(pa.float32(), 3.4028234663852886e38, 1e-45), packed(">f"))],
    "double": [
        (floats(pa.float64(), QUIET_NAN, 5e-324, 1.7976931348623157e308, 0.1), packed(">d")),
        (floats(pa.float32(), 1e-45), packed(">d")),
        (floats(pa.float16(), 65504.0), packed(">d")),
    ],
    "decimal": [
        (pa.array([Decimal(f"{sign}{'9' * 38}") for sign in "+-"], pa.decimal128(38, 0)), decimal),
        (pa.array([Decimal(f"-0.{'0' * 37}1"), Decimal("0E-38")], pa.decimal128(38, 38)), decimal),
        (pa.array([Decimal("9" * 76)], pa.decimal256(76, 0)), decimal),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), decimal),
    ],
    "timestamp": [
        (times("ms", -MOST - 1, -62_135_596_800_001, -1, 253_402_300_800_000, MOST), packed(">q")),
        (times("s", -62_135_596_801, MOST // 1000), lambda value: struct.pack(">q", value * 1000)),
        (times("us", -1000, 0, MOST // 1000 * 1000), packed(">q", 1000)),
        (times("ns", -1_000_000, 1_000_000), packed(">q", 1_000_000)),
        (times("ms", 1, zone=None), packed(">q")),
        (times("ms", 1, zone="Asia/Kolkata"), packed(">q")),
    ],
    "date": [
        (
            pa.array([-(1 << 31), -719_163, 0, 2_932_897, (1 << 31) - 1], pa.int32()).cast(pa.date32()),
            lambda value: struct.pack(">I", value + (1 << 31)),
        )
    ],
}


def test_every_kind_of_column_has_extremes() -> None:
    assert set(CASES) == set(_KINDS)


@pytest.mark.parametrize("kind", sorted(CASES))
def test_extremes_are_stored_bit_for_bit(cassandra_node: CassandraNode, cql: Any, kind: str) -> None:
    raw = '"v"' if kind == "blob" else f'{"text" if kind == "varchar" else kind}AsBlob("v")'
    for number, (values, encode) in enumerate(CASES[kind]):
        table = f"{kind}_{number}"
        cql(f'CREATE TABLE hostile.{table} ("id" int PRIMARY KEY, "v" {kind})')
        ids = pa.array(range(len(values)), pa.int32())
        write(cassandra_node, table, pa.record_batch([ids, values], names=["id", "v"]))
        found = {row[0]: row[1] for row in cql(f'SELECT "id", {raw} FROM hostile.{table}')}
        of_time = pa.int32() if kind == "date" else pa.int64() if kind == "timestamp" else values.type
        wanted = values.cast(of_time).to_pylist()
        assert found == {place: encode(value) for place, value in enumerate(wanted)}


# --- names and sizes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["select", 'a"b', '"', "a.b", "a/b", "a b", "A", "a;b", "?", "a\nb", "ü💥", "x" * 300]
)
def test_columns_may_have_any_name(cassandra_node: CassandraNode, cql: Any, name: str) -> None:
    table, quoted = f"names_{name.encode().hex()[:40]}", '"' + name.replace('"', '""') + '"'
    cql(f"CREATE TABLE hostile.{table} (id int, {quoted} bigint, PRIMARY KEY (id, {quoted}))")
    schema = pa.schema({"id": pa.int32(), name: pa.int64(), "gone": pa.bool_()})
    for rows in ([(1, 7, False), (2, 8, False)], [(1, 7, True)]):
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        write(cassandra_node, table, pa.RecordBatch.from_pylist(named, schema), delete="gone")
    assert [tuple(row) for row in cql(f"SELECT * FROM hostile.{table}")] == [(2, 8)]


@pytest.mark.parametrize(
    ("key", "why"), [("", "Key may not be empty"), ("x" * 65_536, "Key length of 65536")]
)
def test_a_key_that_the_server_refuses_is_named(
    cassandra_node: CassandraNode, cql: Any, key: str, why: str
) -> None:
    cql("CREATE TABLE IF NOT EXISTS hostile.keys (k text PRIMARY KEY, n int)")
    rows = pa.RecordBatch.from_pylist(
        [{"k": "a", "n": 1}, {"k": key, "n": 2}], pa.schema({"k": pa.string(), "n": pa.int32()})
    )
    with pytest.raises(InputError, match=why) as raised:
        write(cassandra_node, "keys", rows)
    assert "'n': 2" in (raised.value.record or "") or key[:50] in (raised.value.record or "-")


def test_a_row_that_is_larger_than_a_request_is_named(cassandra_node: CassandraNode, cql: Any) -> None:
    cql("CREATE TABLE hostile.large (id int PRIMARY KEY, v blob)")
    schema = pa.schema({"id": pa.int32(), "v": pa.binary()})
    rows = [{"id": 1, "v": b"a"}, {"id": 2, "v": bytes(17 << 20)}]
    with pytest.raises(RheosError, match="Request is too big") as raised:
        write(cassandra_node, "large", pa.RecordBatch.from_pylist(rows, schema))
    assert (raised.value.record or "").startswith("{'id': 2")
