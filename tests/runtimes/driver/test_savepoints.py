"""Savepoints of whole jobs under the simulated runtime: taken, stopped with, drained, started from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.savepoint import read_savepoint, verify_savepoint
from rheos.core.errors import CheckpointError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.task.config import TaskConfig
from rheos.runtimes.job import JobConfig, JobState
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.store import StoreFolder
from rheos.runtimes.simulated.world import World
from rheos.testing.memory import MemorySink

ROWS, USERS = 400, 7
CHECKPOINTS = CheckpointConfig(interval_ms=50, timeout_ms=5000)


def clicks(block: rh.Block) -> pl.DataFrame:
    return pl.DataFrame({"user": block.index() % USERS})


@dataclass
class Runtime:
    """Runtime that builds the job and leaves its steps to the test."""

    config: JobConfig
    after: SimulatedJob | None

    def submit(self, plan: PhysicalPlan, config: JobConfig, listener: object = None) -> SimulatedJob:
        left = self.after.world.store.files if self.after is not None else {}
        saved = {path: data for path, data in left.items() if not path.startswith("job/")}
        world = World(plan, self.config, seed=3, files=saved)
        # The savepoint is written, the log entry last. The world's invariants must hold afterwards,
        # too.
        for path in sorted(set(left) - set(saved), key=lambda path: ("/log/" in path, path)):
            world.store.put(path, left[path])
        return SimulatedJob(world)


class Program:
    """Program that numbers the clicks of each user; committed rows outlive the jobs that run it."""

    def __init__(self, renamed: str = "count") -> None:
        self.sink = MemorySink()
        self._counts = renamed

    def start(
        self,
        parallelism: int = 2,
        *,
        after: SimulatedJob | None = None,
        job: str = "job",
        checkpoints: CheckpointConfig = CHECKPOINTS,
        **config: Any,
    ) -> SimulatedJob:
        """Start the job; it continues in the checkpoint directory of `after`."""
        settings = JobConfig(JobId(job), checkpoints, task=TaskConfig(batch_rows=16), **config)
        env = rh.Environment(parallelism, max_parallelism=16, runtime=Runtime(settings, after))
        stream = env.from_source(rh.generator(clicks, count=ROWS, rate_per_s=1000))
        counted = stream.key_by("user").running(n=rh.agg.count()).uid(self._counts)
        counted.sink_to(self.sink, name="numbers")
        started = env.execute_async("clicks")
        assert isinstance(started, SimulatedJob)
        return started

    def numbers(self) -> dict[int, list[int]]:
        """Return the committed numbers of each user, in order."""
        found: dict[int, list[int]] = {user: [] for user in range(USERS)}
        for row in self.sink.target.table().to_pylist():
            found[row["user"]].append(row["n"])
        assert self.sink.target.violations == []
        return {user: sorted(numbers) for user, numbers in found.items()}


def whole(numbers: dict[int, list[int]]) -> bool:
    """Return whether every click has its number once."""
    counted = all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    return counted and sum(map(len, numbers.values())) == ROWS


def running(job: SimulatedJob, checkpoints: int = 1) -> SimulatedJob:
    job.world.run_until(lambda: job.status().checkpoints_completed >= checkpoints)
    assert job.status().state is JobState.RUNNING
    return job


def test_a_savepoint_is_complete_and_the_job_continues() -> None:
    program = Program()
    job = running(program.start())
    folder = job.savepoint()
    store = StoreFolder(job.world.store, folder)
    savepoint = read_savepoint(store, folder)
    verify_savepoint(store, savepoint, folder)
    assert savepoint.entry.committables == []
    assert (savepoint.job, savepoint.name) == ("job", "clicks")
    [taken] = [info for info in job.checkpoints() if info.savepoint]
    assert (taken.savepoint, taken.checkpoint) == (folder, savepoint.entry.checkpoint)
    assert taken.completed_ms == savepoint.taken_ms
    assert job.wait().status.state is JobState.FINISHED
    assert whole(program.numbers())
    assert read_savepoint(store, folder) == savepoint, "CP13: retention never touches it"
    verify_savepoint(store, savepoint, folder)


def test_a_stopped_job_has_committed_its_savepoint() -> None:
    program = Program()
    job = running(program.start())
    folder = job.stop("elsewhere")
    assert folder.startswith("elsewhere/job-1-")
    assert job.wait().status.state is JobState.STOPPED
    totals = read_savepoint(StoreFolder(job.world.store, folder), folder).entry.totals
    numbers = program.numbers()
    assert sum(map(len, numbers.values())) == totals.records_out["count"] < ROWS


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_savepoint_can_be_resumed_at_any_parallelism(parallelism: int) -> None:
    program = Program()
    stopped = running(program.start())
    folder = stopped.stop()
    job = program.start(parallelism, after=stopped, from_savepoint=folder)
    status = job.wait().status
    assert (status.state, status.parallelism) == (JobState.FINISHED, parallelism)
    assert whole(program.numbers())


def test_a_stopped_job_resumes_without_naming_the_savepoint() -> None:
    program = Program()
    stopped = running(program.start())
    stopped.stop()
    assert program.start(after=stopped).wait().status.state is JobState.FINISHED
    assert whole(program.numbers())


def test_repeating_the_command_with_from_savepoint_loses_nothing() -> None:
    """Invariant CP17: a cluster manager restarts the driver with --from-savepoint still in its
    command."""
    program = Program()
    stopped = running(program.start())
    folder = stopped.stop()
    lost = running(program.start(3, after=stopped, from_savepoint=folder), checkpoints=2)
    before = lost.checkpoints()[-1].checkpoint
    again = program.start(2, after=lost, from_savepoint=folder)
    again.world.run_until(lambda: again.status().state is JobState.RUNNING)
    assert again.checkpoints()[-1].checkpoint >= before
    again.wait()
    assert whole(program.numbers())


def test_a_fork_and_its_original_are_independent() -> None:
    program, fork = Program(), Program()
    job = running(program.start())
    folder = job.savepoint()
    savepoint = read_savepoint(StoreFolder(job.world.store, folder), folder)
    held = savepoint.entry.totals.records_out["count"]
    forked = fork.start(after=job, job="fork", from_savepoint=folder)
    assert forked.wait().status.state is JobState.FINISHED
    assert sum(map(len, fork.numbers().values())) == ROWS - held
    job.wait()
    assert whole(program.numbers())


def test_a_drained_job_commits_all_rows_it_has_read() -> None:
    program = Program()
    job = running(program.start())
    folder = job.stop(drain=True)
    assert job.wait().status.state is JobState.FINISHED
    entry = read_savepoint(StoreFolder(job.world.store, folder), folder).entry
    assert entry.final
    committed = sum(map(len, program.numbers().values()))
    assert committed == entry.totals.records_out["source-1"] < ROWS


def test_state_of_a_removed_operator_must_be_dropped_explicitly() -> None:
    stopped = running(Program().start())
    folder = stopped.stop()
    with pytest.raises(CheckpointError, match=r"'running' \(count\)"):
        Program("another").start(after=stopped, from_savepoint=folder).wait()
    renamed = Program("another")
    renamed.start(after=stopped, from_savepoint=folder, allow_dropped=True).wait()
    assert {numbers[0] for numbers in renamed.numbers().values()} == {1}, "it counts from the start"


def test_a_missing_savepoint_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="there is no savepoint in 'nowhere'"):
        Program().start(from_savepoint="nowhere").wait()


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_damaged_savepoint_does_not_harm_the_job(damage: str) -> None:
    """The damage is found before the savepoint replaces the job's own checkpoints."""
    program = Program()
    stopped = running(program.start())
    folder = stopped.stop("elsewhere")
    store = stopped.world.store
    hit = store.list(f"{folder}/state")[0]
    if damage == "missing":
        store.delete(hit)
    else:
        store.put(hit, store.get(hit)[:-1] + b"?")
    refused = program.start(after=stopped, from_savepoint=folder)
    with pytest.raises(CheckpointError, match=f"'{folder}' is incomplete: 1 of") as raised:
        refused.wait()
    assert damage in str(raised.value)
    assert program.start(after=refused).wait().status.state is JobState.FINISHED
    assert whole(program.numbers())


def test_a_savepoint_of_an_ended_job_is_an_error() -> None:
    job = Program().start()
    job.wait()
    with pytest.raises(CheckpointError, match="no savepoint was taken: the job has ended"):
        job.savepoint()


def test_several_concurrent_checkpoints_change_no_result() -> None:
    program = Program()
    often = CheckpointConfig(interval_ms=2, timeout_ms=5000, max_concurrent=4)
    job = program.start(checkpoints=often)
    assert job.wait().status.checkpoints_completed > 20
    assert whole(program.numbers())
