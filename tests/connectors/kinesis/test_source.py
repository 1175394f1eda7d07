"""Shards as splits, on a stream in memory: which records are read, and in which order."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import EndOfSplit, SplitReader
from rheos.core.errors import ConfigurationError, InputError, ProgramError, UnavailableError
from rheos.testing import Faults, check_source, simulate
from tests.connectors.kinesis.streams import ALL, BEGAN_MS, MemoryStream, moment, refused
from tests.connectors.ports import Probe
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": SCHEMA}
SHARDS = [f"shardId-{n:012}" for n in range(8)]


def source_of(**given: Any) -> rh.connectors.Source:
    found = rh.kinesis.source("orders", region="eu-central-1", **{**JSON, **given})
    return replace(found, of=replace(found.of, poll_ms=1))


def read(reader: SplitReader, rows: int | None = None) -> list[dict[str, Any]]:
    """Return the next rows of a reader, or all to its end."""
    found: list[dict[str, Any]] = []
    until_s = time.monotonic() + 30
    while rows is None or len(found) < rows:
        assert time.monotonic() < until_s, found
        polled = reader.poll(1000 if rows is None else rows - len(found))
        if isinstance(polled, EndOfSplit):
            break
        if isinstance(polled, pa.RecordBatch):
            found += polled.to_pylist()
        else:
            time.sleep(0.001)
    return found


def numbers(source: rh.connectors.Source, probe: Probe | None = None) -> list[int]:
    """Return the column `n` of all splits that end."""
    found: list[int] = []
    for split in source.splits():
        reader = source.open(split, None, (probe or Probe()).context())
        found += [row["n"] for row in read(reader)]
        reader.close()
    return found


def aggregate(keys: list[str], records: list[tuple[int, bytes]], hashes: tuple[str, ...] = ()) -> bytes:
    """Return what the producer library writes. Lengths are below 128."""
    message = b"".join(b"\x0a" + bytes([len(key)]) + key.encode() for key in keys)
    message += b"".join(b"\x12" + bytes([len(each)]) + each.encode() for each in hashes)
    for index, data in records:
        explicit = bytes([0x10, index]) if hashes else b""
        record = bytes([0x08, index]) + explicit + b"\x1a" + bytes([len(data)]) + data
        message += b"\x1a" + bytes([len(record)]) + record
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()


def test_the_source_keeps_the_contract(stream: MemoryStream) -> None:
    for n in range(14):
        at = stream.put({"n": n} if n != 5 else b"no JSON", f"k{n}")
        if n == 5:
            bad = at
    metadata = {name: name for name in ("partition_key", "sequence_number", "shard", "timestamp")}
    given: dict[str, Any] = {"end": moment(BEGAN_MS), "metadata": metadata}
    source = source_of(on_error="skip", **given)
    found = check_source(source, positions=3, max_rows=(1, 3))
    rows = [row for name in SHARDS[:2] for row in found[name]]
    assert sorted(row["n"] for row in rows) == [n for n in range(14) if n != 5]
    assert all(row["partition_key"] == f"k{row['n']}" for row in rows)
    assert {row["timestamp"] for row in rows} == {moment(BEGAN_MS)}
    assert {row["shard"] for row in rows} == {*SHARDS[:2]}
    probe = Probe()
    numbers(source, probe)
    assert [each["sequence_number"] for each in probe.rejected] == [bad]


def test_aggregated_records_are_read_one_by_one(stream: MemoryStream) -> None:
    inside, outside = str(ALL // 4), str(ALL - 1)
    packed = [(n % 2, b'{"n":%d}' % n) for n in range(6)]
    stream.put({"n": 100}, hash_key=0)
    stream.put(aggregate(["a", "b"], packed, (inside, inside)), hash_key=0)
    # The shard was divided on the way: the library sends records of the other one again.
    stream.put(aggregate(["a", "b"], packed, (inside, outside)), hash_key=0)
    stream.put({"n": 101}, hash_key=0)
    source = source_of(end=moment(BEGAN_MS), metadata={"partition_key": "key"})
    found = check_source(source, positions=9, max_rows=(1, 2))[SHARDS[0]]
    assert [row["n"] for row in found] == [100, *range(6), 0, 2, 4, 101]
    assert [row["key"] for row in found] == ["k", *"ababab", *"aaa", "k"]
    # A mark without the checksum is a payload. With it, a damaged message is an error.
    stream.put(b"\xf3\x89\x9a\xc2" + b"x" * 20, hash_key=0)
    probe = Probe()
    assert len(numbers(source_of(end="latest", on_error="skip"), probe)) == 11
    assert probe.counts["skipped"] == 1
    for message in (
        b"\x0f",
        b"\x1a\x05\x08",
        b"\x1a\x02\x08\x07",
        b"\x1a\x04\x08\x00\x18\x00",
        b"\xff" * 11,
    ):
        stream.put(b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest(), hash_key=0)
        with pytest.raises(InputError, match="an aggregated record cannot be read"):
            numbers(source_of(end="latest"))
        stream.shards[SHARDS[0]].records.pop()


def test_start_and_end_are_times(stream: MemoryStream) -> None:
    for n in range(6):
        stream.put({"n": n}, hash_key=0)
        stream.now_ms += 1000
    later = moment(BEGAN_MS + 2000)
    assert numbers(source_of(start=later, end="latest")) == [2, 3, 4, 5]
    assert numbers(source_of(end=later)) == [0, 1, 2]
    assert numbers(source_of(start=later, end=moment(BEGAN_MS + 3500))) == [2, 3]
    assert numbers(source_of(start="latest", end="latest")) == []
    with pytest.raises(InputError, match="in the future"):
        source_of(end=moment(BEGAN_MS + 10**9)).splits()
    source = source_of(start="latest")
    [first, _] = source.splits()
    stream.put({"n": 6}, hash_key=0)
    reader = source.open(first, None, Probe().context())
    assert read(reader, 1) == [{"n": 6}]
    position = reader.position()
    reader.close()
    # A shard that appears while the job is down is read from its first record.
    stream.put({"n": 7}, hash_key=0)
    stream.divide(SHARDS[0])
    stream.put({"n": 8}, hash_key=0)
    stream.now_ms += 10_000
    known = {split.id: split.payload for split in source.splits()[:2]}
    found = {split.id: split for split in capabilities.resumed(source, source.splits(), known)}
    reader = source.open(found[SHARDS[0]], position, Probe().context())
    assert read(reader) == [{"n": 7}]
    reader.close()
    reader = source.open(found[SHARDS[2]], None, Probe().context())
    assert read(reader, 1) == [{"n": 8}]
    reader.close()
    assert capabilities.read_after(source, found[SHARDS[2]]) == {SHARDS[0]}
    stream.created_ms += 1
    with pytest.raises(InputError, match="created anew"):
        capabilities.resumed(source, source.splits(), known)


def test_children_are_read_after_their_parents(stream: MemoryStream) -> None:
    """Records of one partition key arrive in their order, although its shard is divided and merged
    while workers crash."""
    count = 0

    def put(rows: int) -> None:
        nonlocal count
        for n in range(count, count + rows):
            stream.put({"n": n}, f"k{n % 5}")
        count += rows

    put(20)
    stream.divide(SHARDS[0])
    put(20)
    stream.merge(SHARDS[3], SHARDS[1])
    put(20)
    stream.divide(SHARDS[4])
    put(20)

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rows = env.from_source(source_of(metadata={"partition_key": "key"}, discover="100ms"))
        return {"rows": rows}

    # The simulated runtime checks the order of shards at each that is opened.
    closed = [shard for shard in stream.shards.values() if not shard.is_open]
    done = simulate(
        build,
        seed=3,
        faults=Faults(crash_slot=1.0),
        parallelism=2,
        until_read=lambda splits, _: splits >= len(closed),
    )
    found = [row["n"] for row in done.rows["rows"].to_pylist()]
    assert len(closed) == 4
    assert len({*found}) == len(found)
    wanted = {json.loads(record["Data"])["n"] for shard in closed for record in shard.records}
    assert {*found} >= wanted


def test_records_that_the_stream_may_have_dropped_are_an_error(stream: MemoryStream) -> None:
    hour_ms = 3_600_000
    stream.put({"n": 1}, hash_key=0)
    source = source_of(start="earliest")
    [first, _] = source.splits()
    probe = Probe()
    reader = source.open(first, None, probe.context())
    assert read(reader, 1) == [{"n": 1}]
    position, before_ms = reader.position(), stream.now_ms
    # While nothing arrives, the position advances.
    stream.now_ms += 30 * hour_ms
    wait_for(lambda: reader.position() != position, 30)
    later = reader.position()
    reader.close()
    stream.shards[SHARDS[0]].records.clear()
    stream.now_ms = before_ms + 47 * hour_ms
    stream.put({"n": 2}, hash_key=0)
    for at in (position, later):
        reader = source.open(first, at, probe.context())
        assert read(reader, 1) == [{"n": 2}]
        reader.close()
    stream.now_ms = before_ms + 50 * hour_ms
    reader = source.open(first, position, probe.context())
    with pytest.raises(InputError, match="keeps records for 48 hours"):
        read(reader, 1)
    reader.close()
    goes_on = source_of(start="earliest", on_removed="continue")
    for at, removed in ((position, 2), (later, 2)):
        reader = goes_on.open(first, at, probe.context())
        assert read(reader, 1) == [{"n": 2}]
        assert probe.counts["removed"] == removed
        reader.close()


@pytest.mark.parametrize("request_name", ["records", "iterator"])
def test_throttled_requests_are_retried(stream: MemoryStream, request_name: str) -> None:
    stream.put({"n": 1}, hash_key=0)
    for code in ("ProvisionedThroughputExceededException", "ExpiredIteratorException"):
        stream.faults[request_name].append(refused(code))
    stream.faults[request_name].append(refused("InternalFailure", status=500))
    probe = Probe()
    assert numbers(source_of(end="latest"), probe) == [1]
    assert probe.counts["retries"] == 3
    stream.faults[request_name] += [refused("LimitExceededException") for _ in range(3)]
    with pytest.raises(UnavailableError, match="LimitExceededException"):
        numbers(source_of(end="latest", retry_for="0s"))


def test_what_cannot_be_read_is_an_error(stream: MemoryStream) -> None:
    with pytest.raises(InputError, match="ResourceNotFoundException"):
        rh.kinesis.source("none", **JSON).splits()
    stream.faults["list"].append(refused("AccessDeniedException"))
    with pytest.raises(ConfigurationError, match="AccessDenied"):
        source_of().splits()
    stream.faults["list"].append(refused("ThrottlingException"))
    assert list(capabilities.discovered(source_of())) == []


@pytest.mark.parametrize(
    "given",
    [
        {"stream": ""},
        {"stream": "o" * 129},
        {"start": 7},
        {"end": "earliest"},
        {"poll_interval": "100ms"},
        {"on_removed": "ignore"},
        {"metadata": {"offset": "o"}},
        {"region": "Europe!"},
        {"options": {"password": "x"}},
        {"endpoint": "localhost:5000"},
        {"endpoint": "http://"},
    ],
    ids=str,
)
def test_wrong_arguments_of_the_source_are_refused(given: dict[str, Any]) -> None:
    fine = {"stream": "orders", "region": "eu-west-1", **JSON}
    rh.kinesis.source(**fine)
    with pytest.raises(ProgramError):
        rh.kinesis.source(**{**fine, **given})
