"""Staged micro-batches are read in lanes: each row once, and late only because of its batch."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.spark.staging_manifest import Manifest, identity, put_manifest
from rheos.connectors.spark.staging_writer import StagingWriter, WriteTask
from rheos.connectors.spark.stream_folder import StreamFolder
from rheos.connectors.spark.stream_lanes import StagedStream
from rheos.core.connectors.contract import EndOfSplit, Pending, SplitReader, TimeReached
from rheos.core.errors import InputError, ProgramError, UnrestorableError
from tests.connectors.ports import Probe

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.int64())])
T = 1_700_000_000_000

BATCHES: Sequence[Mapping[int, Sequence[int]]] = [
    {0: [0, 1, 7], 1: [3], 2: [4]},
    {1: [6, 15]},
    {0: [2, 8, 14], 2: [20, 31]},
    {2: [5]},
    {0: [40], 1: [30]},
]
"""Of each batch the times that the lanes have, in ms after T."""


def put_batch(folder: Path, number: int, lanes: Mapping[int, Sequence[int]]) -> None:
    root = f"{folder}/batches/{number:010d}"
    files = []
    for lane, times in lanes.items():
        task = WriteTask(f"{root}/0123456789ab", SCHEMA, "at")
        writer = StagingWriter(task, f"{lane:05d}-{number}.parquet")
        rows = [{"id": number * 1000 + lane * 100 + ms, "at": T + ms} for ms in times]
        writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        writer.finish()
        files.append(writer.finished())
    system = pytest.importorskip("fsspec").filesystem("file")
    put_manifest(
        system,
        root,
        Manifest(
            of=identity(root),
            staging="0123456789ab",
            schema=SCHEMA.serialize().to_pybytes(),
            event_time="at",
            files=files,
            staged_ms=0,
        ),
    )


def stream(folder: Path, batches: int | None = None) -> StagedStream:
    return StagedStream(str(folder), "query", SCHEMA, "at", 3, batches)


@pytest.fixture
def whole(tmp_path: Path) -> StagedStream:
    for number, lanes in enumerate(BATCHES):
        put_batch(tmp_path, number, lanes)
    return stream(tmp_path, len(BATCHES))


def polled(reader: SplitReader, max_rows: int = 100) -> list[Any]:
    """Return what a reader emits, up to its end or until it waits; of rows, their times."""
    found: list[Any] = []
    while True:
        match reader.poll(max_rows):
            case EndOfSplit() | Pending():
                return found
            case TimeReached(event_time_ms):
                found.append(f"to {event_time_ms - T}")
            case rows:
                found += [at - T for at in rows.column("at").to_pylist()]


def test_after_each_batch_every_lane_has_reached_its_latest_time(whole: StagedStream) -> None:
    lanes = [polled(whole.open(split, None, Probe().context())) for split in whole.splits()]
    assert lanes == [
        [0, 1, 7, "to 7", "to 15", 2, 8, 14, "to 31", "to 5", 40, "to 40"],
        [3, "to 7", 6, 15, "to 15", "to 31", "to 5", 30, "to 40"],
        [4, "to 7", "to 15", 20, 31, "to 31", 5, "to 5", "to 40"],
    ]


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_a_lane_resumes_at_its_position(whole: StagedStream, lane: int) -> None:
    split = whole.splits()[lane]
    expected = polled(whole.open(split, None, Probe().context()))
    for polls in range(len(expected) + 1):
        first = whole.open(split, None, Probe().context())
        before: list[Any] = []
        for _ in range(polls):
            polled_once: Any = first.poll(1)
            match polled_once:
                case TimeReached(event_time_ms):
                    before.append(f"to {event_time_ms - T}")
                case rows:
                    before += [at - T for at in rows.column("at").to_pylist()]
        again = pickle.loads(pickle.dumps(whole))
        after = polled(again.open(split, first.position(), Probe().context()), max_rows=1)
        assert before + after == expected


def late_and_counted(source: StagedStream, parallelism: int) -> tuple[list[int], dict[int, int]]:
    env = rh.Environment(parallelism, runtime="simulated")
    rows = env.from_source(
        source, watermark=rh.Watermark.bounded_out_of_orderness("5ms", on="at"), name="rows"
    )
    counts = (
        rows.with_columns(key=rh.lit(1))
        .key_by("key")
        .window(rh.Tumbling("10ms"))
        .aggregate(n=rh.agg.count())
    )
    counts.collect("counts")
    counts.side_output("late").collect("late")
    collected = env.execute().collected
    late = sorted(at - T for at in collected["late"].column("at").to_pylist())
    windows = {
        round(row["window_start"].timestamp() * 1000) - T: row["n"]
        for row in collected["counts"].to_pylist()
    }
    return late, windows


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_lateness_depends_only_on_the_batch_of_a_row(whole: StagedStream, parallelism: int) -> None:
    late: list[int] = []
    windows: dict[int, int] = {}
    before = -(10**9)
    for batch in BATCHES:
        for at in (at for times in batch.values() for at in times):
            begin = at // 10 * 10
            if begin + 10 - 1 <= before - 5 - 1:
                late.append(at)
            else:
                windows[begin] = windows.get(begin, 0) + 1
        before = max(before, *(at for times in batch.values() for at in times))
    assert len(late) == 3
    assert late_and_counted(whole, parallelism) == (sorted(late), windows)


def test_a_lane_waits_for_the_next_batch_and_records_its_progress(tmp_path: Path) -> None:
    source = stream(tmp_path)
    probe = Probe()
    ctx = probe.context()
    ctx.client = source.client(ctx)
    reader = source.open(source.splits()[1], None, ctx)
    assert polled(reader) == []
    put_batch(tmp_path, 0, BATCHES[0])
    assert polled(reader) == [], "it looks again after a while"
    probe.clock.us += 100_000
    assert polled(reader) == [3, "to 7"]
    folder = StreamFolder(str(tmp_path))
    assert folder.marks("reached", 3) == {1: 1}
    assert folder.marks("completed", 3) == {}
    assert ctx.client is not None
    ctx.client.completed({"query/00001": reader.position()})
    assert folder.marks("completed", 3) == {1: 1}
    (tmp_path / "completed" / "00001").write_text("many")
    assert folder.marks("completed", 3) == {}, "what is no number is none"


def test_a_reopened_lane_records_its_position(whole: StagedStream, tmp_path: Path) -> None:
    """Check that a reopened lane records its position: the earlier mark may be lost, and the query
    waits for it."""
    source = stream(tmp_path)
    split = source.splits()[1]
    reader = source.open(split, None, Probe().context())
    polled(reader)
    ctx = Probe().context()
    ctx.client = source.client(ctx)
    assert polled(source.open(split, reader.position(), ctx)) == [], "no batch comes"
    assert StreamFolder(str(tmp_path)).marks("reached", 3) == {1: len(BATCHES)}


def test_event_time_is_emitted_at_the_source(whole: StagedStream) -> None:
    """Check that a lane emits its event time: a lane without rows would otherwise not advance."""
    by_at = rh.Watermark.monotonic(on="at")
    history = rh.collection(pa.table({"id": [1], "at": [T]}))
    for source in (whole, rh.hybrid(history, whole), rh.hybrid(whole, history)):
        rows = rh.Environment(1, runtime="simulated").from_source(source, name="rows").filter("id > 0")
        with pytest.raises(ProgramError, match="event time is assigned after 'rows'") as caught:
            rows.with_event_time(by_at)
        assert "env.from_stream(df, watermark=...)" in str(caught.value.hint)


def test_within_a_hybrid_a_lane_advances_to_the_switch_only(
    whole: StagedStream,
) -> None:
    """Check that within a hybrid, a lane advances only to the switch: later rows belong to the next
    source, and are not late there."""
    switched = rh.hybrid(
        whole, rh.collection(pa.table({"id": [1], "at": [T + 20]})), on="at", switch=T + 15
    )
    lanes = [polled(switched.open(split, None, Probe().context())) for split in switched.splits()]
    assert lanes == [
        [0, 1, 7, "to 7", "to 14", 2, 8, 14, "to 14", "to 5", "to 14"],
        [3, "to 7", 6, "to 14", "to 14", "to 5", "to 14"],
        [4, "to 7", "to 14", "to 14", 5, "to 5", "to 14"],
        [20],
    ]


def test_removed_batches_are_an_error(whole: StagedStream, tmp_path: Path) -> None:
    source = stream(tmp_path)
    split = source.splits()[0]
    reader = source.open(split, None, Probe().context())
    assert isinstance(reader.poll(1), pa.RecordBatch)
    position = reader.position()
    folder = StreamFolder(str(tmp_path))
    for number in (0, 1):
        manifest = folder.batch(number)
        assert manifest is not None
        folder.remove(number, manifest)
    assert folder.numbers() == [2, 3, 4]
    with pytest.raises(InputError, match=r"batch 0 of the stream is needed but was") as caught:
        polled(source.open(split, position, Probe().context()))
    assert "retain" in str(caught.value.hint)


def test_a_folder_that_lost_read_batches_is_an_error(whole: StagedStream, tmp_path: Path) -> None:
    source = stream(tmp_path)
    split = source.splits()[0]
    reader = source.open(split, None, Probe().context())
    polled(reader)
    position = reader.position()
    folder = StreamFolder(str(tmp_path))
    for number in (3, 4):
        manifest = folder.batch(number)
        assert manifest is not None
        folder.remove(number, manifest)
    with pytest.raises(UnrestorableError, match="the job has read the batches of the stream before"):
        polled(source.open(split, position, Probe().context()))


def test_positions_of_another_stream_are_refused(whole: StagedStream, tmp_path: Path) -> None:
    known = {split.id: split.payload for split in whole.splits()}
    assert whole.resumed(whole.splits(), known) == whole.splits()
    other = StagedStream(str(tmp_path / "other"), "another", SCHEMA, "at", 3)
    with pytest.raises(UnrestorableError, match="the checkpoint or savepoint has read") as caught:
        other.resumed(other.splits(), known)
    assert "staged rows belong to the name and the checkpoint directory of" in str(caught.value.hint)
