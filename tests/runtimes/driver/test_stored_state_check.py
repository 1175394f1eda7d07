"""A program that does not fit its stored state is refused before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ids import JobId
from rheos.ops.control import controlled_jobs
from rheos.ops.control.controlled_jobs import ControlledRuntime
from rheos.runtimes.driver.stored_state_check import check_stored_state
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
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
    function: Any = Counts, *, uid: str = "counts", key: str = "user", groups: int = 16, **given: Any
) -> rh.Environment:
    env = rh.Environment(2, max_parallelism=groups, **given)
    source = rh.generator(clicks, count=500, rate_per_s=1000, splits=1)
    keyed = env.from_source(source, uid="clicks").key_by(key)
    keyed.process(function(), returns=RETURNS).uid(uid).sink_to(rh.print_sink(), uid="out")
    return env


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the checkpoint directory of a job that runs the unchanged program."""
    job: Any = program(runtime=Started()).execute_async("job")
    reached(job, 2)
    directory = str(tmp_path_factory.mktemp("kept"))
    store = open_store(directory)
    for path, data in job.world.store.files.items():
        store.put(path, data)
    return directory


def check(env: rh.Environment, directory: str, **given: Any) -> None:
    config = JobConfig(JobId("job"), checkpoint_dir=directory, **given)
    check_stored_state(env.plan("job"), config)


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
    with pytest.raises(CheckpointError, match=f"the newest checkpoint.*({what})") as refused:
        check(program(**changed), directory)
    assert refused.value.hint


def test_allowed_changes_and_unchanged_programs_fit(directory: str) -> None:
    check(program(), directory)
    check(program(uid="totals"), directory, renamed={"counts": "totals"})
    check(program(Fewer), directory, allow_dropped=True)


def test_state_that_cannot_be_read_is_reported_by_the_driver(tmp_path: Path) -> None:
    changed = program(Other)
    check(changed, str(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()
    damaged = tmp_path / "job" / "log" / "0000000001.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"{")
    check(changed, str(tmp_path))
    check(changed, str(tmp_path), from_savepoint=str(tmp_path / "no savepoint"))


class NoSpark:
    def submit(self, *asked: Any) -> Any:
        raise AssertionError("Spark was started")

    settle = submit


def test_an_upgrade_is_refused_before_spark_starts(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controlled_jobs, "find_predecessor", lambda config: None)
    config = JobConfig(JobId("job"), checkpoint_dir=directory, succeeds="job")
    runtime = ControlledRuntime("continuous", NoSpark())
    with pytest.raises(CheckpointError, match="cannot read the stored state"):
        runtime.submit(program(Other).plan("job"), config)
    with pytest.raises(AssertionError, match="Spark was started"):
        runtime.submit(program().plan("job"), config)
