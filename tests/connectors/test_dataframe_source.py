"""A DataFrame's rows are staged once, and read again from there."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.hybrid import hybrid
from rheos.connectors.spark import staging
from rheos.connectors.spark.dataframe import DataFrameSource, dataframe_source
from rheos.connectors.spark.spark_types import spark_schema, to_spark
from rheos.connectors.spark.staging import StagedSource
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.connectors.contract import Source, Split
from rheos.core.errors import CheckpointError, InputError, SchemaError
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.task.config import TaskConfig
from rheos.core.times import TimeColumn
from rheos.runtimes.job import JobConfig, JobState
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.world import World
from rheos.testing.memory import MemorySink
from tests.connectors.ports import Probe, read
from tests.connectors.test_spark_types import EVERY_TYPE, every_value

pytestmark = pytest.mark.spark


@pytest.fixture
def random_rows(spark: Any) -> Any:
    """Return a DataFrame with other rows in another order at each evaluation."""
    return spark.sql(
        "select id, uuid() as name, timestamp_millis(cast(rand() * 1e6 as long)) as at from range(500)"
    )


def rows_of_split(source: Source, split: Split) -> list[dict[str, Any]]:
    return read(source.open(split, None, Probe().context()))


def rows_of(source: Source) -> list[dict[str, Any]]:
    return [row for split in source.splits() for row in rows_of_split(source, split)]


def of(frame: Any, folder: Path, event_time: str | None = "at") -> StagedSource:
    staged = dataframe_source(frame, event_time).staged(str(folder))
    assert isinstance(staged, StagedSource)
    return staged


def test_a_dataframe_is_staged_once_in_files_sorted_by_time(
    random_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_FILE_BYTES", 2000)
    first = of(random_rows, tmp_path / "staged")
    rows = rows_of(first)
    assert sorted(row["id"] for row in rows) == list(range(500))
    splits = first.splits()
    assert 1 < len(splits) <= 16
    for split in splits:
        times = [row["at"] for row in rows_of_split(first, split)]
        assert times == sorted(times)
        assert first.earliest_ms(split, TimeColumn("at")) == round(times[0].timestamp() * 1000)
        assert first.earliest_ms(split, TimeColumn("other")) is None
        assert first.earliest_ms(split, TimeColumn("at", unit="us")) is None
    again = of(random_rows, tmp_path / "staged")
    assert again.splits() == splits
    assert rows_of(again) == rows
    assert pickle.loads(pickle.dumps(again)) == again


def test_leftovers_of_a_dead_driver_are_removed(random_rows: Any, tmp_path: Path) -> None:
    folder = tmp_path / "staged"
    left = folder / "0123456789ab"
    left.mkdir(parents=True)
    (left / "00000-1.parquet").write_bytes(b"half")
    staged = of(random_rows, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([staged.staging, "manifest.json"])
    assert len(rows_of(staged)) == 500


def test_files_that_no_manifest_lists_are_removed_and_not_read(
    random_rows: Any, tmp_path: Path
) -> None:
    staged = of(random_rows, tmp_path)
    repeated = tmp_path / staged.staging / "00000-99999.parquet"
    repeated.write_bytes(b"of a task that Spark ran twice")
    assert of(random_rows, tmp_path).splits() == staged.splits()
    assert not repeated.exists()


@pytest.mark.parametrize(
    ("change", "event_time", "says"),
    [
        ("name as title, id, at", "at", "the columns ..name.. are missing"),
        ("*, 1 as more", "at", "the columns ..more.. are new"),
        ("cast(id as int) as id, name, at", "at", "'id' was int64 not null and is now int32"),
        ("name, id, at", "at", "order of its columns has changed"),
        ("*", None, "event time was 'at' and is now None"),
    ],
)
def test_a_restarted_job_with_another_dataframe_is_refused(
    random_rows: Any, tmp_path: Path, change: str, event_time: str | None, says: str
) -> None:
    of(random_rows, tmp_path)
    with pytest.raises(SchemaError, match=says) as caught:
        of(random_rows.selectExpr(*change.split(", ")), tmp_path, event_time)
    assert "another name or checkpoint directory" in str(caught.value.hint)


def test_a_damaged_manifest_is_an_error(random_rows: Any, tmp_path: Path) -> None:
    of(random_rows, tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="damaged"):
        of(random_rows, tmp_path)


def test_rows_without_event_time_leave_no_staging_behind(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("select id, if(id = 7, null, timestamp_millis(id)) at from range(10)")
    with pytest.raises(InputError, match="no event time") as caught:
        of(frame, tmp_path)
    assert "'id': 7" in str(caught.value.record)
    assert list(tmp_path.iterdir()) == []
    assert len(rows_of(of(frame.filter("id < 7"), tmp_path))) == 7


def test_a_dataframe_that_cannot_be_computed_is_an_error(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("select raise_error('no such luck') as a from range(1)")
    with pytest.raises(InputError, match="could not be staged before the job") as caught:
        of(frame.selectExpr("cast(a as string) a"), tmp_path, None)
    assert "no such luck" in str(caught.value.detail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error(random_rows: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be staged"):
        of(random_rows, tmp_path / "file" / "below")


def test_an_empty_dataframe_has_one_split(random_rows: Any, tmp_path: Path) -> None:
    empty = of(random_rows.filter("id < 0"), tmp_path)
    assert len(empty.splits()) == 1
    assert rows_of(empty) == []


def test_every_type_is_restored(spark: Any, tmp_path: Path) -> None:
    table = every_value()
    data = table_bytes(table)

    def make(batches: Any) -> Any:
        list(batches)
        for batch in pa.ipc.open_stream(data):
            yield to_spark(batch)

    frame = spark.range(0, 1, 1, 1).mapInArrow(make, spark_schema(EVERY_TYPE))
    staged = of(frame, tmp_path, None)
    assert staged.schema.equals(EVERY_TYPE)
    found = sorted(rows_of(staged), key=lambda row: int(row["id"]))
    assert repr(found) == repr(table.to_pylist())


def test_column_names_with_dots_and_differing_case_are_kept(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("select id as `a.b`, id + 1 as `A`, id + 2 as `a`, id + 3 as ` ` from range(3)")
    found = rows_of(of(frame, tmp_path, None))
    assert sorted(found, key=lambda row: int(row["a.b"]))[1] == {"a.b": 1, "A": 2, "a": 3, " ": 4}


def test_a_dataframe_is_never_sent_to_workers(random_rows: Any) -> None:
    source = dataframe_source(random_rows)
    with pytest.raises(AssertionError, match="staged before"):
        pickle.dumps(source)
    assert isinstance(source, DataFrameSource)
    with pytest.raises(AssertionError, match="staged before"):
        source.splits()


# --- a job's positions of one staging, and another staging --------------------------------------------


def known_of(splits: Sequence[Split]) -> dict[str, bytes]:
    """Return splits as a checkpoint contains them."""
    return {split.id: split.payload for split in splits}


def test_positions_of_another_staging_are_resumed_there_only(random_rows: Any, tmp_path: Path) -> None:
    here, there = of(random_rows, tmp_path / "here"), of(random_rows, tmp_path / "there")
    splits = here.splits()
    assert here.resumed(splits, known_of(splits[:1])) == splits
    assert here.resumed(splits, known_of(there.splits()[:1])) == []
    live = rh.collection(pa.table({"id": [1], "name": ["x"], "at": [0]}).cast(here.schema))
    both = hybrid(here, live)
    known = known_of(hybrid(there, live).splits())
    assert [split.id for split in both.resumed(both.splits(), known)] == ["1/0"]
    assert both.resumed(both.splits(), known_of(both.splits()[1:])) == both.splits()


class Runtime:
    """Runtime that lets the test execute the steps of the job. Its store may begin with that of
    another."""

    def __init__(self, parallelism: int, files: dict[str, bytes], savepoint: str | None) -> None:
        self._files = files
        self._config = JobConfig(
            JobId("job"),
            CheckpointConfig(interval_ms=5, timeout_ms=5000),
            task=TaskConfig(batch_rows=16),
            from_savepoint=savepoint,
        )

    def submit(self, plan: PhysicalPlan, config: JobConfig, listener: object = None) -> SimulatedJob:
        return SimulatedJob(World(plan, self._config, seed=3, files=self._files))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_savepoint_resumes_in_its_own_staging(spark: Any, parallelism: int) -> None:
    frame = spark.sql("select id, uuid() as name, id as at from range(4000)")
    sink = MemorySink()

    def start(parallelism: int, files: dict[str, bytes], savepoint: str | None = None) -> SimulatedJob:
        env = rh.Environment(
            parallelism, max_parallelism=16, runtime=Runtime(parallelism, files, savepoint)
        )
        env.from_dataframe(frame, event_time="at").sink_to(sink)
        job = env.execute_async("names")
        assert isinstance(job, SimulatedJob)
        return job

    first = start(2, {})
    first.world.run_until(lambda: first.status().checkpoints_completed >= 1)
    folder = first.stop("elsewhere")
    assert first.wait().status.state is JobState.STOPPED
    before = sink.target.table().num_rows
    assert before > 0
    saved = {path: data for path, data in first.world.store.files.items() if path.startswith(folder)}
    assert start(parallelism, saved, folder).wait().status.state is JobState.FINISHED
    found: Sequence[int] = sink.target.table().column("id").to_pylist()
    # The names differ from staging to staging: that no id is twice says that just one was read.
    assert sorted(found) == list(range(4000))
    assert sink.target.violations == []


def test_a_simulated_job_leaves_no_files(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    env = rh.Environment(parallelism=1, runtime="simulated")
    env.from_dataframe(spark.range(3)).collect("all")
    assert env.execute().collected["all"].num_rows == 3
    gc.collect()
    assert list(tmp_path.glob("rheos-staged-*")) == []


def test_a_continuous_job_keeps_what_it_staged_below_its_checkpoints(
    random_rows: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints"
    env = rh.Environment(parallelism=2, runtime="continuous", checkpoint_dir=folder)
    env.from_dataframe(random_rows, event_time="at", uid="names").collect("all")
    table = env.execute("names").collected["all"]
    assert sorted(table.column("id").to_pylist()) == list(range(500))
    [manifest] = folder.glob("names/staged/*/manifest.json")
    staged = of(random_rows, manifest.parent)
    by_id = sorted(table.to_pylist(), key=lambda row: int(row["id"]))
    assert sorted(rows_of(staged), key=lambda row: int(row["id"])) == by_id
