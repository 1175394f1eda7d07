"""The sink on a real JetStream: which messages the stream has after failures."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.nats.publishing import MessagePublishing
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.nats.conftest import Streams
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json()}
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_the_sink_keeps_the_contract(
    nats_server: Any, streams: Streams, prefix: str, delivery: Any
) -> None:
    made: list[str] = []

    def make(name: str, schema: pa.Schema) -> Any:
        stream = f"{prefix}{len(made)}"
        made.append(stream)
        streams.create(stream)

        def seen() -> list[dict[str, Any]]:
            payloads = [payload for _, payload in streams.payloads(stream)]
            decoded = rh.formats.json().decoder(schema).decode(pa.array(payloads, pa.binary()))
            return decoded.rows.to_pylist()

        return rh.nats.sink(nats_server.url, subject=f"{stream}.x", delivery=delivery, **JSON), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))


def test_a_subject_is_built_from_columns(nats_server: Any, streams: Streams, prefix: str) -> None:
    streams.create(prefix)
    sink = rh.nats.sink(nats_server.url, subject=f"{prefix}.{{k}}.n-{{n}}", value="n", **JSON)
    sink.validate(SCHEMA)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    writer.write(rows(*range(1500)))
    assert writer.prepare(CheckpointId(1)) == []
    assert streams.messages(prefix) == [(f"{prefix}.k{n % 3}.n-{n}", {"n": n}) for n in range(1500)]
    for bad in ("a.b", "", "a b", "*", ">", None):
        with pytest.raises(InputError, match="cannot be a token of the subject"):
            writer.write(batch_of(SCHEMA, {"k": bad, "n": 1}))
    writer.close()
    writer = rh.nats.sink(nats_server.url, subject=f"{prefix}.x", **JSON).open(sink_context(SCHEMA))
    with pytest.raises(InputError, match="maximum payload"):
        writer.write(batch_of(SCHEMA, {"k": "x" * (2 << 20), "n": 1}))
    writer.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves("NATS", faults=["the server is killed", "workers of a simulated job crash"])
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_rows_arrive_after_any_crash(
    nats_server: Any, streams: Streams, prefix: str, delivery: Any
) -> None:
    streams.create(f"{prefix}in")
    streams.create(f"{prefix}out")
    streams.put(f"{prefix}in.x", *({"k": f"k{n % 3}", "n": n} for n in range(60)))

    def restart() -> None:
        nats_server.kill()
        nats_server.start()

    url = nats_server.url

    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.nats.source(url, stream=f"{prefix}in", end="latest", schema=SCHEMA, **JSON)
        found = env.from_source(source).map(passed, returns=SCHEMA)
        found.sink_to(rh.nats.sink(url, subject=f"{prefix}out.{{k}}", delivery=delivery, **JSON))
        return found

    AT_ROW[30] = restart
    faults = Faults(crash_slot=40.0, commit_error=0.2)
    done = simulate(build, seed=5, faults=faults, parallelism=2)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    times = Counter(row["n"] for _, row in streams.messages(f"{prefix}out"))
    assert {*times} == {*range(60)}
    if delivery == "exactly_once":
        assert {*times.values()} == {1}


@pytest.mark.parametrize("published", [0, 700, 1200])
def test_a_commit_that_was_cut_off_publishes_the_rest(
    nats_server: Any, streams: Streams, prefix: str, published: int, tmp_path: Path, monkeypatch: Any
) -> None:
    streams.create(prefix)
    sink = rh.nats.sink(nats_server.url, subject=f"{prefix}.{{k}}", delivery="exactly_once", **JSON)
    prepared = sink.prepared(SCHEMA, ("job", "sink")).staged(str(tmp_path / "staged"))
    writer = prepared.open(sink_context(SCHEMA))
    writer.write(rows(*range(1500)))
    [epoch] = writer.prepare(CheckpointId(1))
    writer.close()
    assert streams.messages(prefix) == []
    publish, left = MessagePublishing.publish, [published]
    again: list[int] = []

    def cut_off(self: MessagePublishing, batch: Any, ids: Any = None) -> None:
        count = min(left[0], batch.num_rows)
        publish(self, batch.slice(0, count), ids[:count])
        left[0] -= count
        if not left[0]:
            raise UnavailableError("the connection is lost")

    def repeated(self: MessagePublishing, batch: Any, ids: Any = None) -> None:
        again.extend(batch.column("n").to_pylist())
        publish(self, batch, ids)

    committer = prepared.committer()
    monkeypatch.setattr(MessagePublishing, "publish", cut_off)
    with pytest.raises(UnavailableError):
        committer.commit([epoch])
    assert len(streams.messages(prefix)) == published
    monkeypatch.setattr(MessagePublishing, "publish", repeated)
    committer.commit([epoch])
    committer.commit([epoch])
    # The server did not have to recognise messages: none was published again.
    assert again == [*range(published, 1500)]
    assert [row["n"] for _, row in streams.messages(prefix)] == [*range(1500)]
    # Notes of an epoch are kept as long as its checkpoint, and removed with it.
    folder = SinkFolder(str(tmp_path / "staged"))
    committer.abort_stale(JobId("job"), Attempt(100), [epoch])
    assert len([name for each in folder.names("") for name in folder.names(each)]) == 2
    committer.abort_stale(JobId("job"), Attempt(100), [])
    assert folder.names("") == []


def test_an_epoch_whose_messages_were_removed_is_not_guessed(
    nats_server: Any, streams: Streams, prefix: str, tmp_path: Path, monkeypatch: Any
) -> None:
    streams.create(prefix)
    sink = rh.nats.sink(nats_server.url, subject=f"{prefix}.{{k}}", delivery="exactly_once", **JSON)
    prepared = sink.prepared(SCHEMA, ("job", "sink")).staged(str(tmp_path / "staged"))
    writer = prepared.open(sink_context(SCHEMA))
    writer.write(rows(1, 2, 3))
    [epoch] = writer.prepare(CheckpointId(1))
    writer.close()
    with monkeypatch.context() as patched:
        patched.setattr(SinkFolder, "remove", lambda self, path: 1 / 0)
        patched.setattr(SinkFolder, "create", _fails_at_done(SinkFolder.create))
        with pytest.raises(OSError, match="full"):
            prepared.committer().commit([epoch])
    streams.purge(prefix, 3)
    with pytest.raises(UnrestorableError, match="has removed messages after 0"):
        prepared.committer().commit([epoch])
    repeating = replace(prepared, exactly_once=False)
    repeating.committer().commit([epoch])
    assert [row["n"] for _, row in streams.messages(prefix)] == [3, 1, 2, 3]


def _fails_at_done(create: Callable[..., Any]) -> Callable[..., Any]:
    def failing(self: SinkFolder, path: str) -> Any:
        if path.endswith(".done"):
            raise OSError("the disk is full")
        return create(self, path)

    return failing


def test_streams_that_cannot_keep_rows_once_are_refused(
    nats_server: Any, streams: Streams, prefix: str
) -> None:
    def prepared(subject: str) -> None:
        sink = rh.nats.sink(nats_server.url, subject=subject, delivery="exactly_once", **JSON)
        sink.prepared(SCHEMA, ("job", "sink"))

    streams.create(f"{prefix}w", retention="workqueue")
    streams.create(f"{prefix}s", duplicate_window=1)
    for name in ("w", "s"):
        with pytest.raises(ConfigurationError, match="cannot store rows exactly once"):
            prepared(f"{prefix}{name}.x")
    with pytest.raises(InputError, match="no stream stores the subject"):
        prepared(f"{prefix}.x")


@pytest.mark.parametrize(
    "given",
    [
        {"subject": "a b"},
        {"subject": "a.>"},
        {"subject": "a..b"},
        {"subject": "a.{n"},
        {"subject": 5},
        {"value": []},
        {"delivery": "once"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ProgramError):
        rh.nats.sink("nats://a", **{"subject": "s", **JSON, **given})


def test_columns_must_fit_the_subject() -> None:
    for subject, schema in (("a.{x}", SCHEMA), ("a.{f}", pa.schema([("f", pa.float64())]))):
        with pytest.raises(SchemaError):
            rh.nats.sink("nats://a", subject=subject, **JSON).validate(schema)
