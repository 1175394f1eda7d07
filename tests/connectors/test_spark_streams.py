"""Spark streams as sources: each row is read once, even if the query or the job dies."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos.connectors.spark import staging, stream_query
from rheos.connectors.spark.dataframe import stream_source
from rheos.connectors.spark.staging_manifest import Manifest
from rheos.connectors.spark.stream import StreamSource, stream_settings
from rheos.connectors.spark.stream_lanes import StagedStream
from rheos.connectors.spark.stream_query import StreamQuery
from rheos.core.connectors.contract import EndOfSplit, Pending, TimeReached
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    SchemaError,
    UnrestorableError,
)
from tests.connectors.ports import Probe
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

ROWS = 40
"""In each file."""


def put_file(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    ids = range(number * ROWS, (number + 1) * ROWS)
    at = pa.array([id * 1000 for id in ids], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": list(ids), "at": at}), folder / f".{number}")
    # Spark reads files in the order of their times.
    os.utime(folder / f".{number}", (1_700_000_000 + number, 1_700_000_000 + number))
    (folder / f".{number}").rename(folder / f"{number}.parquet")


@pytest.fixture
def frame(spark: Any, tmp_path: Path) -> Any:
    """Return a DataFrame of three files, each a micro-batch."""
    for number in range(3):
        put_file(tmp_path / "in", number)
    return files_of(spark, tmp_path / "in")


def files_of(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def stream(frame: Any, *, available_now: bool = False, lanes: int = 2, **others: Any) -> StreamSource:
    settings = stream_settings("10ms", available_now, lanes, 100, "1h")
    return replace(stream_source(frame, replace(settings, **others)), event_time="at")


def rows_of(source: StagedStream) -> list[int]:
    ids: list[int] = []
    for split in source.splits():
        reader = source.open(split, None, Probe().context())
        while True:
            polled = reader.poll(1000)
            if isinstance(polled, Pending | EndOfSplit):
                break
            if not isinstance(polled, TimeReached):
                ids += polled.column("id").to_pylist()
    return sorted(ids)


def started(source: StreamSource, folder: Path) -> tuple[StagedStream, StreamQuery]:
    staged = source.staged(str(folder))
    assert isinstance(staged, StagedStream)
    assert isinstance(staged.running, StreamQuery)
    return staged, staged.running


def checking(query: StreamQuery, errors: list[RheosError]) -> Callable[[], bool]:
    """Supervise the query as the driver does; yield when it is paused or has staged all three
    batches."""

    def check() -> bool:
        try:
            query.check()
        except RheosError as error:
            errors.append(error)
        return query._next == 3 and query._query.isActive

    return check


def test_a_query_that_dies_around_a_batch_stages_it_once(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check failures before batch 1 is staged, and when batch 2 is staged but Spark does not know
    it."""
    died: set[int] = set()

    def stage(*args: Any, **named: Any) -> Manifest:
        number = int(args[3][-1])
        manifest = None if number == 1 else staging.stage(*args, **named)
        if number in (1, 2) and number not in died:
            died.add(number)
            raise OSError(f"the disk is full at batch {number}")
        return manifest or staging.stage(*args, **named)

    monkeypatch.setattr(stream_query, "stage", stage)
    staged, query = started(stream(frame), tmp_path / "staged")
    errors: list[RheosError] = []
    try:
        wait_for(checking(query, errors))
    finally:
        staged.released()
    assert [str(error.what).rpartition(": ")[2] for error in errors] == [
        "the disk is full at batch 1",
        "the disk is full at batch 2",
    ]
    assert rows_of(staged) == list(range(3 * ROWS))
    assert rows_of(pickle.loads(pickle.dumps(staged))) == list(range(3 * ROWS))

    # A driver that comes after finds all of it, and Spark goes on behind it.
    put_file(tmp_path / "in", 3)
    again, query = started(stream(frame), tmp_path / "staged")
    try:
        wait_for(lambda: query._next == 4)
    finally:
        again.released()
    assert rows_of(again) == list(range(4 * ROWS))
    assert again.splits() == staged.splits()

    with pytest.raises(ConfigurationError, match="this job started reading the stream with lanes=2"):
        stream(frame, lanes=5).staged(str(tmp_path / "staged"))
    with pytest.raises(SchemaError, match="the columns"):
        replace(stream(frame.select("at"))).staged(str(tmp_path / "staged"))
    # Without Spark's own note of what it has read, it would read all of it again.
    for path in sorted((tmp_path / "staged" / "query").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(
        UnrestorableError,
        match="would read the stream from its beginning",
    ):
        stream(frame).staged(str(tmp_path / "staged"))


def test_a_query_that_dies_repeatedly_is_given_up(spark: Any, frame: Any, tmp_path: Path) -> None:
    bad = frame.selectExpr("if(id = 50, null, id) as id", "if(id = 50, null, at) as at")
    staged, query = started(stream(bad), tmp_path / "staged")
    errors: list[RheosError] = []
    check = checking(query, errors)
    try:
        wait_for(lambda: check() or len(errors) == 6)
    finally:
        staged.released()
    assert all(isinstance(error, InputError) for error in errors)
    assert {error.what.partition(":")[0] for error in errors} == {
        "a record of batch 1 of the stream has no event time"
    }
    assert rows_of(staged) == list(range(ROWS))


def test_the_query_pauses_while_too_much_is_unread_and_read_batches_are_removed(
    frame: Any, tmp_path: Path
) -> None:
    staged, query = started(stream(frame, max_unread=1, retain_ms=-1), tmp_path / "staged")
    folder = query._folder
    try:
        for batch in range(3):
            wait_for(lambda: query._next == batch + 1)  # noqa: B023
            assert folder.numbers()[-1] == batch
            for lane in range(2):
                folder.mark("completed", lane, batch)
                folder.mark("reached", lane, batch + 1)
    finally:
        staged.released()
    assert folder.numbers() == [1, 2], "a checkpoint may be in the middle of batch 1"


def test_a_job_and_its_query_resume_together(spark: Any, tmp_path: Path) -> None:
    """Check two sources with windows over both; the first run is cancelled in the middle."""
    put_file(tmp_path / "in", 0)

    def start() -> rh.JobHandle:
        env = rh.Environment(
            2, checkpoint_dir=tmp_path / "checkpoints", checkpoint_interval="100ms", spark=spark
        )
        on_time = rh.Watermark.monotonic(on="at")
        files = env.from_stream(
            files_of(spark, tmp_path / "in"), on_time, trigger="10ms", lanes=1, name="files"
        )
        rates = env.from_stream(
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
            .selectExpr("value as id", "timestamp as at"),
            on_time,
            trigger="100ms",
            lanes=1,
            name="rates",
        )  # fmt: skip
        files.select("id").sink_to(rh.files.sink(tmp_path / "files"))
        rates.select("id").sink_to(rh.files.sink(tmp_path / "rates"))
        return env.execute_async("both")

    def written(name: str) -> list[int]:
        found = (tmp_path / name).glob("*.parquet")
        return sorted(id for path in found for id in pq.read_table(path).column("id").to_pylist())

    job = start()
    wait_for(lambda: len(written("files")) == ROWS and written("rates"))
    job.cancel()
    put_file(tmp_path / "in", 1)
    job = start()
    before = len(written("rates"))
    wait_for(
        lambda: len(written("files")) >= 2 * ROWS and len(written("rates")) > before,
    )
    job.stop(drain=True)
    assert written("files") == list(range(2 * ROWS))
    rates = Counter(written("rates"))
    assert rates == Counter(range(len(rates)))
    assert [query for query in spark.streams.active if "both" in str(query.name)] == []


def test_available_now_reads_to_the_end(spark: Any, frame: Any) -> None:
    def counted(**runtime: Any) -> list[tuple[Any, ...]]:
        env = rh.Environment(2, **runtime)
        rows = env.from_stream(
            frame, rh.Watermark.monotonic(on="at"), available_now=True, lanes=2
        ).with_columns(key=rh.col("id") % 3)
        counts = rows.key_by("key").window(rh.Tumbling("50ms")).aggregate(n=rh.agg.count())
        counts.collect("counts")
        found = env.execute().collected["counts"].to_pylist()
        return sorted(tuple(row.values()) for row in found)

    in_batch = counted(spark=spark)
    assert sum(row[-1] for row in in_batch) == 3 * ROWS
    assert counted(runtime="simulated") == in_batch


def test_unsupported_streams_are_refused(spark: Any, frame: Any) -> None:
    env = rh.Environment(1, runtime="simulated")
    with pytest.raises(ProgramError, match=r"test_spark_streams.py:\d+.* is bounded"):
        env.from_stream(spark.range(3))
    with pytest.raises(ProgramError, match="is streaming") as caught:
        env.from_dataframe(frame)
    assert "from_stream" in str(caught.value.hint)
    with pytest.raises(ProgramError, match="of a Spark stream must be a timestamp, without unit= or"):
        env.from_stream(frame, rh.Watermark.monotonic(on="id", unit="s"))
    with pytest.raises(ProgramError, match=r"test_spark_streams.py:\d+.*event time is assigned after"):
        env.from_stream(frame).with_event_time(rh.Watermark.monotonic(on="at"))
    with pytest.raises(ConfigurationError, match="lanes must be an integer from 1 to"):
        env.from_stream(frame, lanes=0)
    env.from_stream(frame).print()
    with pytest.raises(ConfigurationError, match=r"test_spark_streams.py:\d+.*in real time"):
        env.execute()
