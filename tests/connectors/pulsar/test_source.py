"""Partitions of a real Pulsar as a source: which messages are read, and that none is skipped."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.contract import EndOfSplit, SplitReader
from rheos.core.errors import InputError
from rheos.testing import check_source
from tests.connectors.ports import Probe
from tests.connectors.pulsar.conftest import Topics
from tests.waiting import wait_for

VISIT = pa.schema([pa.field("page", pa.string(), nullable=False), pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": VISIT}
pytestmark = pytest.mark.slow
BECAUSE = "a server takes some 15 s of processor time to start"


def add(topics: Topics, topic: str, *numbers: int, **given: Any) -> None:
    topics.put(topic, *({"page": f"p{n}", "n": n} for n in numbers), **given)


def read(reader: SplitReader, rows: int | None = None) -> list[dict[str, Any]]:
    """Return the next rows of a reader, or all to its end."""
    found: list[dict[str, Any]] = []
    until_s = time.monotonic() + 60
    while rows is None or len(found) < rows:
        assert time.monotonic() < until_s, found
        polled = reader.poll(1000 if rows is None else rows - len(found))
        if isinstance(polled, EndOfSplit):
            break
        if isinstance(polled, pa.RecordBatch):
            found += polled.to_pylist()
        else:
            time.sleep(0.002)
    return found


def opened(source: rh.connectors.Source, probe: Probe, position: bytes | None = None) -> SplitReader:
    [split] = source.splits()
    return source.open(split, position, probe.context())


def numbers_of(source: rh.connectors.Source) -> list[int]:
    reader = opened(source, Probe())
    try:
        return [row["n"] for row in read(reader)]
    finally:
        reader.close()


def test_the_source_keeps_the_contract(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    names = [f"{prefix}a", f"{prefix}b", f"{prefix}c"]
    topics.create(names[0], 1)
    add(topics, names[0], 1, 2, 3, batches=True)
    topics.put(names[0], b"no JSON", None, {"page": "null"})
    add(topics, names[1], *range(1, 8), partition_key="k", properties={"a": "b"}, event_timestamp=5)
    topics.put(names[2])
    source = rh.pulsar.source(
        pulsar_server.url,
        topic=names,
        end="latest",
        on_error="skip",
        metadata={"key": "key", "event_time": "at", "properties": "properties", "message_id": "id"},
        options=topics.options,
        **JSON,
    )
    found = check_source(source, positions=3, max_rows=(1, 3))
    first, second, third = (f"persistent://public/default/{name}" for name in names)
    first += "-partition-0"
    assert [row["n"] for row in found[first]] == [1, 2, 3, None]
    assert {row["key"] for row in found[first]} == {row["at"] for row in found[first]} == {None}
    assert [row["id"].count(":") for row in found[first]] == [2, 2, 2, 1]
    assert [row["n"] for row in found[second]] == list(range(1, 8))
    [*values] = {(row["key"], row["at"], str(row["properties"])) for row in found[second]}
    at = datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)
    assert values == [("k", at, str([{"name": "a", "value": "b"}]))]
    assert found.get(third, []) == []
    probe = Probe()
    [split] = [split for split in source.splits() if split.id == first]
    reader = source.open(split, None, probe.context())
    read(reader)
    reader.close()
    assert probe.counts == {"skipped": 2}
    assert {row["partition"] for row in probe.rejected} == {first}
    assert all(row["message_id"].count(":") == 1 for row in probe.rejected)


def test_payloads_may_hold_several_rows(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    encoder = rh.formats.arrow().encoder(VISIT)
    payloads = []
    for base in (0, 5, 10):
        rows = [{"page": f"p{n}", "n": n} for n in range(base, base + 5)]
        payloads += encoder.encode(pa.RecordBatch.from_pylist(rows, VISIT)).to_pylist()
    topics.put(prefix, *payloads, batches=True)
    given: dict[str, Any] = {"format": rh.formats.arrow(), "schema": VISIT, "end": "latest"}
    source = rh.pulsar.source(pulsar_server.url, topic=prefix, options=topics.options, **given)
    [found] = check_source(source, positions=3, max_rows=(1, 3)).values()
    assert [row["n"] for row in found] == list(range(15))


def test_start_and_end_are_resolved(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    given = {"topic": prefix, "options": topics.options, **JSON}
    add(topics, prefix, 1, 2, 3, batches=True)
    time.sleep(0.05)
    since = datetime.now(UTC)
    add(topics, prefix, 4, 5, batches=True)

    def between(**bounds: Any) -> list[int]:
        return numbers_of(rh.pulsar.source(pulsar_server.url, **given, **bounds))

    assert between(end="latest") == [1, 2, 3, 4, 5]
    assert between(start=since, end="latest") == [4, 5]
    assert between(start=datetime(2100, 1, 1, tzinfo=UTC), end="latest") == []
    assert between(start="latest", end="latest") == []
    source = rh.pulsar.source(pulsar_server.url, start="latest", **given)
    reader = opened(source, Probe())
    add(topics, prefix, 6)
    assert [row["n"] for row in read(reader, 1)] == [6]
    reader.close()


def test_partitions_are_found_while_the_job_runs(
    pulsar_server: Any, topics: Topics, prefix: str
) -> None:
    topics.create(prefix, 1)
    source = rh.pulsar.source(
        pulsar_server.url, topic=prefix, start="latest", options=topics.options, **JSON
    )
    known = {split.id: split.payload for split in source.splits()}
    topics.create(prefix, 2, method="POST")
    add(topics, f"{prefix}-partition-1", 1, 2)
    for found in (source.discover(), source.resumed(source.splits(), known)):
        [new] = [split for split in found if split.id not in known]
        reader = source.open(new, None, Probe().context())
        assert [row["n"] for row in read(reader, 2)] == [1, 2]
        reader.close()


@pytest.mark.parametrize("on_removed", ["fail", "continue"])
def test_removed_messages_are_noticed(
    pulsar_server: Any, topics: Topics, prefix: str, on_removed: Any
) -> None:
    given = {"topic": prefix, "options": topics.options, "on_removed": on_removed, **JSON}
    add(topics, prefix, *range(1, 10))
    reader = opened(rh.pulsar.source(pulsar_server.url, end="latest", **given), Probe())
    read(reader, 3)
    reader.close()
    topics.admin("DELETE", f"persistent/public/default/{prefix}?force=true")
    add(topics, prefix, 11, 12)
    probe = Probe()
    again = opened(rh.pulsar.source(pulsar_server.url, **given), probe, reader.position())
    if on_removed == "continue":
        assert [row["n"] for row in read(again, 2)] == [11, 12]
        assert probe.counts == {"removed": 1}
    else:
        with pytest.raises(InputError, match=r"has removed the message .* messages may be lost"):
            read(again, 1)
    again.close()


def test_a_compacted_topic_has_the_last_message_of_each_key(
    pulsar_server: Any, topics: Topics, prefix: str
) -> None:
    for n in range(1, 7):
        add(topics, prefix, n, partition_key=f"k{n % 2}")
    given = {"topic": prefix, "options": topics.options, "end": "latest", **JSON}
    whole = opened(rh.pulsar.source(pulsar_server.url, **given), Probe())
    assert [row["n"] for row in read(whole, 2)] == [1, 2]
    whole.close()
    topics.admin("PUT", f"persistent/public/default/{prefix}/compaction")
    source = rh.pulsar.source(pulsar_server.url, compacted=True, **given)
    wait_for(lambda: numbers_of(source) == [5, 6], 60)
    # The message at the position was compacted, which is no loss.
    again = opened(source, Probe(), whole.position())
    assert [row["n"] for row in read(again)] == [5, 6]
    again.close()


@pytest.mark.proves(
    "Pulsar", faults=["the server is killed and frozen while a source reads"], slow_because=BECAUSE
)
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_the_source_continues_when_the_server_is_back(
    pulsar_server: Any, topics: Topics, prefix: str, fault: str
) -> None:
    add(topics, prefix, *range(100), batches=True)
    probe = Probe()
    source = rh.pulsar.source(
        pulsar_server.url, topic=prefix, retry_for="200s", options=topics.options, **JSON
    )
    reader = opened(source, probe)
    found = read(reader, 50)
    if fault == "kill":
        pulsar_server.kill()
    else:
        pulsar_server.freeze()

    def is_away() -> bool:
        reader.poll(1)
        return probe.counts.get("retries", 0) > 0

    found += read(reader, 50)  # They were read ahead.
    wait_for(is_away, 60)
    if fault == "kill":
        pulsar_server.start()
    else:
        pulsar_server.thaw()
    add(topics, prefix, 100, 101)
    found += read(reader, 2)
    assert [row["n"] for row in found] == [*range(102)]
    reader.close()
