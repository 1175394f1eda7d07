"""Streams of a real Redis as a source: which entries are read, and that none is skipped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.redis.entries import EntryId, StreamEntries
from rheos.core.connectors.contract import EndOfSplit, Pending, SplitReader
from rheos.core.errors import InputError, ProgramError, SchemaError, UnavailableError
from rheos.testing import check_source
from tests.connectors.ports import Probe, read_all

VISIT = pa.schema([pa.field("page", pa.string(), nullable=False), pa.field("n", pa.int64())])


def add(redis: Any, stream: str, *numbers: int) -> None:
    """Add entries with the ids 1000-n."""
    for n in numbers:
        redis.xadd(stream, {"page": f"p{n}", "n": n, "more": "x"}, id=f"1000-{n}")


def numbers(reader: SplitReader, rows: int, max_rows: int = 1000) -> list[int]:
    """Return the next rows of a reader whose I/O runs immediately."""
    found: list[int] = []
    while len(found) < rows:
        match reader.poll(min(max_rows, rows - len(found))):
            case pa.RecordBatch() as batch:
                found += batch.column("n").to_pylist()
            case EndOfSplit():
                break
    return found


def poll_for(reader: SplitReader, probe: Probe, seconds: int) -> None:
    for _ in range(10 * seconds):
        probe.clock.us += 100_000
        assert isinstance(reader.poll(10), Pending)


def opened(source: rh.connectors.Source, probe: Probe, position: bytes | None = None) -> SplitReader:
    [split] = source.splits()
    return source.open(split, position, probe.context())


def test_the_source_keeps_the_contract(redis_server: Any, redis: Any, prefix: str) -> None:
    names = [f"{prefix}:a", f"{prefix}:b"]
    add(redis, names[0], 1, 2, 3)
    redis.xadd(names[0], {"page": "bad", "n": "many"}, id="1000-4")
    redis.xadd(names[0], {"page": "null"}, id="1000-5")
    add(redis, names[1], *range(1, 8))
    source = rh.redis.source(
        redis_server.url, stream=names, schema=VISIT, end="latest", id="id", on_error="skip"
    )
    read = check_source(source, positions=3, max_rows=(1, 3))
    assert read[names[0]] == [
        *({"page": f"p{n}", "n": n, "id": f"1000-{n}"} for n in (1, 2, 3)),
        {"page": "null", "n": None, "id": "1000-5"},
    ]
    assert [row["n"] for row in read[names[1]]] == list(range(1, 8))
    probe = Probe()
    read_all(source, probe)
    assert probe.counts == {"skipped": 1}
    assert probe.rejected[0]["id"] == "1000-4"
    assert "must be int64, but is b'many'" in probe.rejected[0]["error"]


def test_payloads_have_a_format_and_may_hold_several_rows(
    redis_server: Any, redis: Any, prefix: str
) -> None:
    encoder = rh.formats.arrow().encoder(VISIT)
    for base in (0, 5):
        rows = [{"page": f"p{n}", "n": n} for n in range(base, base + 5)]
        [payload] = encoder.encode(pa.RecordBatch.from_pylist(rows, VISIT)).to_pylist()
        redis.xadd(prefix, {"payload": payload})
    given: dict[str, Any] = {"schema": VISIT, "end": "latest"}
    source = rh.redis.source(redis_server.url, stream=prefix, format=rh.formats.arrow(), **given)
    read = check_source(source, positions=3, max_rows=(1, 3))
    assert [row["n"] for row in read[prefix]] == list(range(10))
    redis.xadd(f"{prefix}:json", {"body": json.dumps({"page": "home", "n": 3})})
    given |= {"format": rh.formats.json(), "payload": "body"}
    assert read_all(rh.redis.source(redis_server.url, stream=f"{prefix}:json", **given)) == [
        {"page": "home", "n": 3}
    ]


def test_start_and_end_are_resolved(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, *range(1, 6))

    def between(**given: Any) -> list[int]:
        source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, **given)
        return [row["n"] for row in read_all(source)]

    assert between(end="latest") == [1, 2, 3, 4, 5]
    assert between(start="1000-3", end="1000-5") == [3, 4]
    assert between(start=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), end=1001) == [1, 2, 3, 4, 5]
    assert between(start="latest", end="latest") == []
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, start="latest")
    reader = opened(source, Probe())
    assert isinstance(reader.poll(10), Pending)
    add(redis, prefix, 6)
    assert numbers(opened(source, Probe(), reader.position()), 1) == [6]
    assert isinstance(opened(source, Probe()).poll(10), Pending)


def test_new_entries_are_read_as_they_arrive(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, 1)
    probe = Probe()
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, poll_every="20ms")
    reader = opened(source, probe)
    assert numbers(reader, 1) == [1]
    assert reader.poll(10) == Pending(20_000)
    add(redis, prefix, 2, 3)
    probe.clock.us += 20_000
    assert numbers(reader, 2) == [2, 3]
    reader.close()


@pytest.mark.parametrize("how", ["trimmed", "emptied", "deleted", "was recreated: its last entry is"])
def test_possibly_lost_entries_are_an_error(
    redis_server: Any, redis: Any, prefix: str, how: str
) -> None:
    add(redis, prefix, *range(1, 6))
    given: dict[str, Any] = {"stream": prefix, "schema": VISIT}
    source = rh.redis.source(redis_server.url, **given)
    reader = opened(source, Probe())
    assert numbers(reader, 2) == [1, 2]
    position = reader.position()
    reader.close()
    match how:
        case "trimmed":
            redis.xtrim(prefix, minid="1000-4", approximate=False)
            what = "was trimmed, or entries were deleted, and the job is at 1000-2"
        case "emptied":
            redis.xtrim(prefix, maxlen=0, approximate=False)
            what = "was trimmed"
        case "deleted":
            redis.delete(prefix)
            redis.xadd(f"{prefix}:x", {"n": 1})
            what = "no longer exists|does not exist"
        case _:
            redis.delete(prefix)
            add(redis, prefix, 1)
            what = "was recreated: its last entry is 1000-1"
    with pytest.raises(InputError, match=what):
        numbers(opened(source, Probe(), position), 1)
    if how == "trimmed":
        probe = Probe()
        goes_on = rh.redis.source(redis_server.url, **given, on_trimmed="continue")
        assert numbers(opened(goes_on, probe, position), 2) == [4, 5]
        assert probe.counts == {"trimmed": 1}


@pytest.mark.parametrize("start", ["latest", "1000-6"])
def test_no_entry_before_the_first_returned_one_is_skipped(
    redis_server: Any, redis: Any, prefix: str, start: str
) -> None:
    add(redis, prefix, *range(1, 6))
    given: dict[str, Any] = {"stream": prefix, "schema": VISIT, "start": start}
    source = rh.redis.source(redis_server.url, **given)
    goes_on = rh.redis.source(redis_server.url, **given, on_trimmed="continue")
    [split] = source.splits()
    reader = source.open(split, None, Probe().context())
    assert isinstance(reader.poll(10), Pending)
    position = reader.position()
    add(redis, prefix, *range(6, 10))
    assert numbers(source.open(split, position, Probe().context()), 4) == [6, 7, 8, 9]
    redis.xtrim(prefix, minid="1000-8", approximate=False)
    for begun in (None, position):
        with pytest.raises(InputError, match=r"was trimmed, .* and the job is at 1000-5"):
            numbers(source.open(split, begun, Probe().context()), 1)
        probe = Probe()
        assert numbers(goes_on.open(split, begun, probe.context()), 2) == [8, 9]
        assert probe.counts == {"trimmed": 1}


def test_a_stream_may_be_trimmed_up_to_the_start(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, *range(1, 6))
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, start="1000-3")
    [split] = source.splits()
    redis.xtrim(prefix, minid="1000-3", approximate=False)
    assert numbers(source.open(split, None, Probe().context()), 3) == [3, 4, 5]
    begins = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, start=0)
    assert numbers(opened(begins, Probe()), 3) == [3, 4, 5]


@pytest.mark.parametrize("start", ["earliest", "latest", "1000-3"])
def test_a_recreated_stream_is_an_error(redis_server: Any, redis: Any, prefix: str, start: str) -> None:
    add(redis, prefix, *range(1, 6))
    redis.xtrim(prefix, maxlen=0, approximate=False)
    given: dict[str, Any] = {"stream": prefix, "schema": VISIT, "on_trimmed": "continue"}
    source = rh.redis.source(redis_server.url, **given, start=start)
    [split] = source.splits()
    redis.delete(prefix)
    with pytest.raises(InputError, match="no longer exists, and the job has read none of its entries"):
        source.open(split, None, Probe().context()).poll(10)
    add(redis, prefix, 1)
    with pytest.raises(InputError, match="was recreated: its last entry is 1000-1") as raised:
        source.open(split, None, Probe().context()).poll(10)
    assert "on_trimmed" not in str(raised.value)


def test_trimming_is_counted_once(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, *range(1, 6))
    probe = Probe()
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, on_trimmed="continue")
    reader = opened(source, Probe())
    assert numbers(reader, 2) == [1, 2]
    redis.xtrim(prefix, maxlen=0, approximate=False)
    reader = opened(source, probe, reader.position())
    poll_for(reader, probe, seconds=1)
    add(redis, prefix, 6)
    probe.clock.us += 100_000
    assert numbers(reader, 1) == [6]
    assert probe.counts == {"trimmed": 1}


def test_a_trimmed_entrys_row_count_is_not_applied_to_another(
    redis_server: Any, redis: Any, prefix: str
) -> None:
    encoder = rh.formats.arrow().encoder(VISIT)
    for base in (0, 5):
        rows = [{"page": "p", "n": n} for n in range(base, base + 5)]
        [payload] = encoder.encode(pa.RecordBatch.from_pylist(rows, VISIT)).to_pylist()
        redis.xadd(prefix, {"payload": payload}, id=f"1000-{base + 1}")
    given: dict[str, Any] = {"stream": prefix, "schema": VISIT, "format": rh.formats.arrow()}
    source = rh.redis.source(redis_server.url, **given)
    reader = opened(source, Probe())
    assert numbers(reader, 2, max_rows=2) == [0, 1]
    position = reader.position()
    assert numbers(opened(source, Probe(), position), 8) == [2, 3, 4, 5, 6, 7, 8, 9]
    redis.xdel(prefix, "1000-1")
    with pytest.raises(InputError, match=r"was trimmed, or entries were deleted, .* is at 1000-1"):
        numbers(opened(source, Probe(), position), 1)
    probe = Probe()
    goes_on = rh.redis.source(redis_server.url, **given, on_trimmed="continue")
    assert numbers(opened(goes_on, probe, position), 5) == [5, 6, 7, 8, 9]
    assert probe.counts == {"trimmed": 1}


def test_read_ahead_is_bounded_in_bytes(
    redis_server: Any, redis: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.connectors.redis.stream._CHUNK_BYTES", 20_000)
    asked = []
    read = StreamEntries.read

    def counting(self: Any, stream: str, begin: Any, end: Any, count: int) -> Any:
        asked.append(count)
        return read(self, stream, begin, end, count)

    monkeypatch.setattr(StreamEntries, "read", counting)
    with redis.pipeline() as pipe:
        for n in range(200):
            pipe.xadd(prefix, {"page": "p" if n < 50 else "p" * 1_980, "n": n}, id=f"1000-{n + 1}")
        pipe.execute()
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, end="latest")
    assert [row["n"] for row in read_all(source)] == list(range(200))
    # Of small ones four times as many; then ten of 2 kB, with the one that was read before.
    assert asked[:2] == [16, 65]
    assert set(asked[3:]) == {11}


def test_a_stream_may_be_trimmed_before_the_position(
    redis_server: Any, redis: Any, prefix: str
) -> None:
    add(redis, prefix, 1, 2, 3)
    probe = Probe()
    reader = opened(rh.redis.source(redis_server.url, stream=prefix, schema=VISIT), probe)
    assert numbers(reader, 3) == [1, 2, 3]
    redis.xtrim(prefix, maxlen=0, approximate=False)  # Also the last one: there is nothing behind it.
    probe.clock.us += 20_000
    assert isinstance(reader.poll(10), Pending)
    add(redis, f"{prefix}:b", 1, 2, 3)
    other = opened(rh.redis.source(redis_server.url, stream=f"{prefix}:b", schema=VISIT), Probe())
    assert numbers(other, 1) == [1]


def test_a_server_that_restarts_is_waited_for(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, 1, 2)
    probe = Probe()
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, retry_for="1s")
    reader = opened(source, probe)
    assert numbers(reader, 2) == [1, 2]
    redis_server.kill()
    try:
        for _ in range(3):
            probe.clock.us += 300_000
            assert isinstance(reader.poll(10), Pending)
    finally:
        redis_server.start()
    add(redis, prefix, 3)
    probe.clock.us += 300_000
    assert numbers(reader, 1) == [3]
    assert probe.counts["retries"] >= 1
    reader.close()


def test_a_server_that_stays_away_is_an_error(redis_server: Any, redis: Any, prefix: str) -> None:
    add(redis, prefix, 1)
    probe = Probe()
    source = rh.redis.source(redis_server.url, stream=prefix, schema=VISIT, retry_for="1s")
    reader = opened(source, probe)
    assert numbers(reader, 1) == [1]
    redis_server.kill()
    try:
        with pytest.raises(UnavailableError, match=f"the stream '{prefix}' cannot be read, at 127"):
            poll_for(reader, probe, seconds=3)
    finally:
        redis_server.start()


def test_invalid_sources_are_refused_early(redis_server: Any, redis: Any, prefix: str) -> None:
    url = redis_server.url
    with pytest.raises(InputError, match="does not exist at") as raised:
        rh.redis.source(url, stream=prefix, schema=VISIT).splits()
    assert "MKSTREAM" in (raised.value.hint or "")
    redis.set(prefix, "a text")
    with pytest.raises(InputError, match="WRONGTYPE"):
        rh.redis.source(url, stream=prefix, schema=VISIT).splits()
    for given, error, what in (
        ({"start": "soon"}, ProgramError, "start='soon'"),
        ({"end": "earliest"}, ProgramError, "end='earliest'"),
        ({"on_trimmed": "skip"}, ProgramError, "on_trimmed='skip'"),
        ({"stream": []}, ProgramError, "does not name streams"),
        ({"id": "n"}, SchemaError, "id= names the column 'n', which is not a string"),
        ({"schema": pa.schema([("x", pa.list_(pa.int64()))])}, SchemaError, "'x' of type list"),
    ):
        with pytest.raises(error, match=what):
            rh.redis.source(url, **{"stream": prefix, "schema": VISIT, **given})


def test_ids_are_in_their_order() -> None:
    ids = [EntryId.of(text) for text in ("9-10", "10-9", "9", "9-18446744073709551615")]
    assert [str(id) for id in sorted(ids)] == ["9-0", "9-10", "9-18446744073709551615", "10-9"]
    assert str(ids[3].next()) == "10-0"
    for text in ("", "a", "1-", "-1", "1-2-3", "18446744073709551616"):
        with pytest.raises(ValueError, match="is not an entry id"):
            EntryId.of(text)
