"""Streams of a real JetStream as a source: which messages are read, and that none is skipped."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.nats import session, stream_pull
from rheos.core.connectors.contract import EndOfSplit, SplitReader
from rheos.core.errors import ConfigurationError, InputError, ProgramError, SchemaError
from rheos.testing import check_source
from tests.connectors.nats.conftest import Streams
from tests.connectors.ports import Probe
from tests.waiting import wait_for

VISIT = pa.schema([pa.field("page", pa.string(), nullable=False), pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": VISIT}


def add(streams: Streams, subject: str, *numbers: int) -> None:
    streams.put(subject, *({"page": f"p{n}", "n": n} for n in numbers))


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
            time.sleep(0.002)
    return found


def opened(source: rh.connectors.Source, probe: Probe, position: bytes | None = None) -> SplitReader:
    [split] = source.splits()
    return source.open(split, position, probe.context())


def all_of(source: rh.connectors.Source, probe: Probe | None = None) -> list[dict[str, Any]]:
    reader = opened(source, probe or Probe())
    try:
        return read(reader)
    finally:
        reader.close()


def test_the_source_keeps_the_contract(nats_server: Any, streams: Streams, prefix: str) -> None:
    names = [f"{prefix}a", f"{prefix}b"]
    for name in names:
        streams.create(name)
    add(streams, f"{names[0]}.x", 1, 2, 3)
    streams.put(f"{names[0]}.x", b"no JSON", {"page": "null"})
    add(streams, f"{names[1]}.x.y", *range(1, 8))
    source = rh.nats.source(
        nats_server.url,
        stream=names,
        end="latest",
        on_error="skip",
        metadata={"sequence": "at", "subject": "subject"},
        **JSON,
    )
    found = check_source(source, positions=3, max_rows=(1, 3))
    assert found[names[0]] == [
        *({"page": f"p{n}", "n": n, "at": n, "subject": f"{names[0]}.x"} for n in (1, 2, 3)),
        {"page": "null", "n": None, "at": 5, "subject": f"{names[0]}.x"},
    ]
    assert [row["n"] for row in found[names[1]]] == list(range(1, 8))
    probe = Probe()
    read(source.open(source.splits()[0], None, probe.context()))
    assert probe.counts == {"skipped": 1}
    assert [(row["stream"], row["sequence"]) for row in probe.rejected] == [(names[0], 4)]


def test_payloads_may_hold_several_rows(nats_server: Any, streams: Streams, prefix: str) -> None:
    streams.create(prefix)
    encoder = rh.formats.arrow().encoder(VISIT)
    for base in (0, 5):
        rows = [{"page": f"p{n}", "n": n} for n in range(base, base + 5)]
        [payload] = encoder.encode(pa.RecordBatch.from_pylist(rows, VISIT)).to_pylist()
        streams.put(f"{prefix}.x", payload)
    given: dict[str, Any] = {"format": rh.formats.arrow(), "schema": VISIT, "end": "latest"}
    source = rh.nats.source(nats_server.url, stream=prefix, **given)
    found = check_source(source, positions=3, max_rows=(1, 3))
    assert [row["n"] for row in found[prefix]] == list(range(10))


def test_start_end_and_subject_are_resolved(nats_server: Any, streams: Streams, prefix: str) -> None:
    streams.create(prefix)
    for n in range(1, 6):
        add(streams, f"{prefix}.{n % 2}.x", n)

    def between(**given: Any) -> list[int]:
        return [
            row["n"] for row in all_of(rh.nats.source(nats_server.url, stream=prefix, **JSON, **given))
        ]

    assert between(end="latest") == [1, 2, 3, 4, 5]
    assert between(start=3, end=4) == [3, 4]
    assert between(start=datetime(1970, 1, 2, tzinfo=UTC), end="latest") == [1, 2, 3, 4, 5]
    assert between(start=datetime(2100, 1, 1, tzinfo=UTC), end="latest") == []
    assert between(start="latest", end="latest") == []
    assert between(subject=f"{prefix}.0.*", end="latest") == [2, 4]
    # The last message that matches is not the last of the stream.
    assert between(subject=f"{prefix}.0.>", start=5, end="latest") == []


def test_new_messages_and_the_progress_of_other_subjects(
    nats_server: Any, streams: Streams, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_pull, "_IDLE_S", 0.2)
    streams.create(prefix)
    source = rh.nats.source(
        nats_server.url, stream=prefix, start="latest", subject=f"{prefix}.mine", **JSON
    )
    reader = opened(source, Probe())
    add(streams, f"{prefix}.mine", 1)
    add(streams, f"{prefix}.other", 2, 3)
    assert [row["n"] for row in read(reader, 1)] == [1]
    # The stream removes what others have published: nothing is lost.
    before = reader.position()

    def advanced() -> bool:
        reader.poll(1)
        return reader.position() != before

    wait_for(advanced, 30)
    streams.purge(prefix, 3)
    position = reader.position()
    reader.close()
    again = opened(source, Probe(), position)
    add(streams, f"{prefix}.mine", 4)
    assert [row["n"] for row in read(again, 1)] == [4]
    again.close()


@pytest.mark.parametrize("on_removed", ["fail", "continue"])
def test_removed_messages_are_named(
    nats_server: Any, streams: Streams, prefix: str, on_removed: Any
) -> None:
    streams.create(prefix)
    add(streams, f"{prefix}.x", *range(1, 10))
    source = rh.nats.source(nats_server.url, stream=prefix, end="latest", on_removed=on_removed, **JSON)
    reader = opened(source, Probe())
    read(reader, 3)
    reader.close()
    streams.purge(prefix, 7)
    probe = Probe()
    again = opened(source, probe, reader.position())
    if on_removed == "continue":
        assert [row["n"] for row in read(again)] == [7, 8, 9]
        assert probe.counts == {"removed": 1}
    else:
        with pytest.raises(InputError, match="removed the messages 4 to 6, and the job is at 3"):
            read(again)
    again.close()


def test_a_stream_that_was_created_anew_is_noticed(
    nats_server: Any, streams: Streams, prefix: str
) -> None:
    streams.create(prefix)
    add(streams, f"{prefix}.x", 1, 2)
    source = rh.nats.source(nats_server.url, stream=prefix, end="latest", **JSON)
    [split] = source.splits()
    streams.delete(prefix)
    streams.create(prefix)
    add(streams, f"{prefix}.x", 3, 4, 5)
    reader = source.open(split, None, Probe().context())
    with pytest.raises(InputError, match="was created anew"):
        read(reader)
    reader.close()


@pytest.mark.proves("NATS", faults=["the server is killed and frozen while a source reads"])
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_the_source_continues_when_the_server_is_back(
    nats_server: Any, streams: Streams, prefix: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_pull, "ANSWER_S", 0.2)
    monkeypatch.setattr(session, "ANSWER_S", 0.5)
    streams.create(prefix)
    add(streams, f"{prefix}.x", *range(100))
    probe = Probe()
    source = rh.nats.source(nats_server.url, stream=prefix, **JSON)
    reader = opened(source, probe)
    assert len(read(reader, 50)) == 50
    if fault == "kill":
        nats_server.kill()
    else:
        nats_server.freeze()

    def is_away() -> bool:
        reader.poll(1)
        return probe.counts.get("retries", 0) > 0

    found = read(reader, 49)  # They were read ahead.
    wait_for(is_away, 30)
    if fault == "kill":
        nats_server.start()
    else:
        nats_server.thaw()
    add(streams, f"{prefix}.x", 100, 101)
    found += read(reader, 3 - 1)
    assert [row["n"] for row in found][-2:] == [100, 101]
    reader.close()


def test_a_wrong_token_and_a_missing_stream_are_errors_of_the_user(
    nats_server: Any, prefix: str
) -> None:
    with pytest.raises(InputError, match="stream not found"):
        rh.nats.source(nats_server.url, stream=prefix, **JSON).splits()
    wrong = f"nats://guessed@{nats_server.address}"
    with pytest.raises(ConfigurationError) as raised:
        rh.nats.source(wrong, stream=prefix, **JSON).splits()
    assert "guessed" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {"stream": "a b"},
        {"stream": []},
        {"start": 0},
        {"end": "earliest"},
        {"subject": ""},
        {"metadata": {"offset": "o"}},
        {"metadata": {"sequence": "s", "subject": "s"}},
        {"on_removed": "ignore"},
        {"options": {"password": "x"}},
        {"url": "http://a"},
        {"url": "nats://a:4222,redis://b"},
    ],
    ids=json.dumps,
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"url": "nats://a", "stream": "S", **JSON, **given}
    with pytest.raises(ProgramError):
        rh.nats.source(arguments.pop("url"), **arguments)


def test_a_column_has_the_type_of_its_field() -> None:
    with pytest.raises(SchemaError, match="the column 'n' is int64, but the subject"):
        rh.nats.source("nats://a", stream="S", metadata={"subject": "n"}, **JSON)
