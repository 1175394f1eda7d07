"""A program that does not fit its stored state is refused before Spark starts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.connectors.source_wrapper import WrappedSource
from rheos.core.checkpoint.savepoint import MANIFEST
from rheos.core.connectors.contract import Source
from rheos.core.errors import CheckpointError
from rheos.core.metrics.event_log import EventKind
from rheos.core.protocol.ids import JobId
from rheos.ops.control import alert_webhook, controlled_jobs
from rheos.ops.control.controlled_jobs import ControlledRuntime
from rheos.ops.control.registry import Registry
from rheos.runtimes.continuous import runtime as continuous_runtime
from rheos.runtimes.continuous.runtime import ContinuousRuntime
from rheos.runtimes.driver.driver_logs import JOBS
from rheos.runtimes.driver.stored_state_check import find_misfit
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import AlertConfig, JobConfig, JobState
from tests.runtimes.views.jobs import Started, clicks, reached

RETURNS = {"page": int, "n": int}


class Counts(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.n.value += 1
        yield {"page": 0, "n": self.n.value}


class Other(rh.KeyedProcessFunction):
    n = rh.ValueState(str, default="")

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.n.value += "x"
        yield {"page": 0, "n": len(self.n.value)}


class Fewer(rh.KeyedProcessFunction):
    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        yield {"page": 0, "n": 1}


def program(
    function: Any = Counts,
    *,
    uid: str = "counts",
    key: str = "user",
    groups: int = 16,
    wrap: Callable[[Source], Source] = lambda source: source,
    **given: Any,
) -> rh.Environment:
    env = rh.Environment(2, max_parallelism=groups, **given)
    source = wrap(rh.generator(clicks, count=500, rate_per_s=1000, splits=1))
    keyed = env.from_source(source, uid="clicks").key_by(key)
    keyed.process(function(), returns=RETURNS).uid(uid).sink_to(rh.print_sink(), uid="out")
    return env


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the checkpoint directory of a job that runs the unchanged program."""
    job: Any = program(runtime=Started()).execute_async("job")
    reached(job, 2)
    job.savepoint()
    directory = str(tmp_path_factory.mktemp("kept"))
    store = open_store(directory)
    for path, data in job.world.store.files.items():
        store.put(path, data)
    return directory


def savepoint_in(directory: Path) -> str:
    (manifest,) = directory.rglob(MANIFEST)
    return str(manifest.parent)


def check(env: rh.Environment, directory: str, **given: Any) -> None:
    config = JobConfig(JobId("job"), checkpoint_dir=directory, **given)
    misfit = find_misfit(env.plan("job"), config)
    if misfit is not None:
        raise misfit


@dataclass(frozen=True, eq=False)
class StagingSource(WrappedSource):
    """A source that may stage its rows, and then is another one."""

    def positions(self) -> str:
        return "positions before staging"


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"function": Other}, "cannot read the stored state"),
    "another key": ({"key": "v"}, "cannot read the stored state"),
    "no state": ({"function": Fewer}, "would be lost|no longer has"),
    "another uid": ({"uid": "totals"}, "no longer has"),
    "other key groups": ({"groups": 32}, "max_parallelism 16"),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_a_misfit_names_the_checkpoint_and_a_remedy(directory: str, kind: str) -> None:
    changed, what = MISFITS[kind]
    with pytest.raises(CheckpointError, match=rf"checkpoint \d+.*({what})") as refused:
        check(program(**changed), directory)
    assert refused.value.hint


def test_allowed_changes_and_unchanged_programs_fit(directory: str) -> None:
    check(program(), directory)
    check(program(uid="totals"), directory, renamed={"counts": "totals"})
    check(program(Fewer), directory, allow_dropped=True)


def test_sources_that_stage_their_rows_are_compared_by_the_driver(directory: str) -> None:
    check(program(wrap=StagingSource), directory)


def test_state_that_cannot_be_read_is_reported_by_the_driver(tmp_path: Path) -> None:
    changed = program(Other)
    check(changed, str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()
    damaged = tmp_path / "job" / "log" / "0000000001.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{")
    check(changed, str(tmp_path))
    check(changed, str(tmp_path), from_savepoint=str(tmp_path / "no savepoint"))


class SparkStartedError(Exception):
    pass


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ControlledRuntime:
    def start(*given: Any) -> Any:
        raise SparkStartedError

    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(continuous_runtime, "get_context", start)
    monkeypatch.setattr(continuous_runtime, "get_session", start)
    monkeypatch.setattr(controlled_jobs, "find_predecessor", lambda config: None)
    return ControlledRuntime("continuous", ContinuousRuntime())


def test_an_upgrade_is_refused_before_spark_starts(directory: str, runtime: ControlledRuntime) -> None:
    config = JobConfig(JobId("job"), checkpoint_dir=directory, succeeds="job")
    with pytest.raises(CheckpointError, match="cannot read the stored state"):
        runtime.submit(program(Other).plan("job"), config)
    with pytest.raises(SparkStartedError):
        runtime.submit(program().plan("job"), config)


@pytest.mark.parametrize("keeps", [True, False], ids=["checkpoint directory", "temporary folder"])
def test_a_job_fails_before_spark_starts_and_notifies(
    directory: str,
    runtime: ControlledRuntime,
    keeps: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    posted: list[dict[str, Any]] = []

    def post(url: str, body: bytes) -> int:
        posted.append(json.loads(body))
        return 200

    monkeypatch.setattr(alert_webhook, "post_json", post)
    kept = shutil.copytree(directory, tmp_path / "kept")
    given: dict[str, Any] = {"checkpoint_dir": str(kept)}
    if not keeps:
        given = {"from_savepoint": savepoint_in(kept)}
    config = JobConfig(JobId("job"), alerts=AlertConfig("https://hooks.example.com"), **given)
    job = runtime.submit(program(Other).plan("job"), config)
    with pytest.raises(CheckpointError, match="cannot read the stored state") as refused:
        job.wait()
    status = job.status()
    assert (status.state, status.failure) == (JobState.FAILED, str(refused.value))
    assert [each.getMessage() for each in caplog.records if each.name == JOBS.name] == [
        f"the job 'job' has failed: {status.failure}"
    ]
    assert job.metrics().readings
    with pytest.raises(CheckpointError, match="the job has ended"):
        job.savepoint()
    (event,) = [each for each in job.events() if each.kind is EventKind.ENDED]
    assert event.what == f"failed: {refused.value.what}"
    (alert,) = posted
    assert refused.value.what in alert["text"]
    (ended,) = Registry().ended_jobs.newest_first()
    assert (ended.state, ended.failure) == (JobState.FAILED.value, str(refused.value))
    assert event in ended.events


def test_a_finished_job_does_nothing_whatever_the_program(tmp_path: Path) -> None:
    job: Any = program(runtime=Started()).execute_async("job")
    job.wait()
    store = open_store(str(tmp_path))
    for path, data in job.world.store.files.items():
        store.put(path, data)
    check(program(Other), str(tmp_path))
