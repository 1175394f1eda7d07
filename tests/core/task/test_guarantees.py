"""Savepoints, draining, and checkpoints without alignment, with whole engines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from rheos.core.checkpoint.restored_state import restored_state
from rheos.core.state import format as state_format
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.simulated.store import StoreFolder
from tests.core.task.cluster import Job, planned
from tests.core.task.programs import LATE_WINDOWS, RUNNING_IN_ORDER, TWICE_KEYED, WINDOWS, build, made
from tests.worlds import programs
from tests.worlds.programs import CheckedProgram

_TASK = TaskConfig(batch_rows=8, credits=2, buffer_timeout_us=0)


@pytest.mark.parametrize(
    "program", [TWICE_KEYED, WINDOWS, LATE_WINDOWS, programs.REDUCED], ids=lambda p: p.name
)
def test_a_savepoint_has_the_content_of_its_checkpoint(program: CheckedProgram) -> None:
    of = made()
    job = Job(planned(build(program, of)), _TASK)
    for _ in range(3):
        job.cluster.run(60)
        job.take()
    job.cluster.run(60)
    checkpoint = job.trigger("my savepoints/1")
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    job.enter(checkpoint)
    # The log is lost: the savepoint is all there is. What it holds is published.
    job.cluster.run(500)
    committed = {name: sink.target.table().num_rows for name, sink in job.sinks.items()}
    job.newest = job.cluster.entry(checkpoint, savepoint=True)
    assert not job.newest.committables
    files = StoreFolder(job.store, "my savepoints/1").list("state")
    assert {handle.path for handle in job.newest.handles} == set(files)
    job.restart_from_savepoint(3, "my savepoints/1")
    assert {name: sink.target.table().num_rows for name, sink in job.sinks.items()} == committed
    program.check(of.arrived(), job.finish())


def test_a_checkpoint_after_a_savepoint_has_all_changes() -> None:
    of = made()
    job = Job(planned(build(programs.COUNTED, of)), _TASK)
    job.cluster.run(60)
    job.take()
    job.cluster.run(60)
    checkpoint = job.trigger("s/1")
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    job.enter(checkpoint)
    job.cluster.run(60)
    job.take()
    job.restart(3)
    programs.COUNTED.check(of.arrived(), job.finish())


def test_draining_ends_the_input_at_its_position() -> None:
    of = made(rate_per_s=2000.0)
    job = Job(planned(build(WINDOWS, of)), _TASK)
    job.cluster.run(300)
    job.cluster.drain()
    job.cluster.run_until(lambda: job.cluster.is_drained)
    checkpoint = job.trigger("drained/1")
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    entry = job.cluster.entry(checkpoint, savepoint=True)
    job.enter(checkpoint)
    job.cluster.run(500)
    # Each split stands where it was drained, and is not at its end.
    store = StoreFolder(job.store, "drained/1")
    state = restored_state(entry, 0, 1, store, state_format.decode)
    (rows,) = [s for of_op in state.values() for name, s in of_op.items() if name == "splits"]
    splits = [row for table in rows for row in table.to_pylist()]
    assert len(splits) == of.splits
    assert not any(row["finished"] for row in splits)
    assert all(row["position"] is not None for row in splits)


def test_with_at_least_once_nothing_waits_for_a_slow_channel() -> None:
    """Check that without failures every row still counts once, and checkpoints complete."""
    task = replace(_TASK, guarantee=Guarantee.AT_LEAST_ONCE)
    of = made(splits=1)
    job = Job(planned(build(RUNNING_IN_ORDER, of)), task)
    for _ in range(5):
        job.cluster.run(50)
        assert not job.take().unaligned
    RUNNING_IN_ORDER.check(of.arrived(), job.finish())


def test_with_at_least_once_rows_may_repeat_but_none_is_lost() -> None:
    task = replace(_TASK, guarantee=Guarantee.AT_LEAST_ONCE)
    doubled = 0
    for seed in range(4):
        of = made(splits=4, seed=seed)
        job = Job(planned(build(RUNNING_IN_ORDER, of)), task, seed=seed, parallelism=3)
        for _ in range(3):
            job.cluster.run(40)
            several = [job.trigger() for _ in range(3)]
            while not all(job.cluster.is_acknowledged(checkpoint) for checkpoint in several):
                job.cluster.run(10)
            job.enter(several[-1])
            job.restart(1 + seed % 3)
        counted: Counter[int] = Counter()
        for row in job.finish()["out"]:
            counted[row["k"]] = max(counted[row["k"]], row["n"])
        wanted = Counter(row.k for row in of.arrived())
        assert all(counted[key] >= count for key, count in wanted.items())
        doubled += sum((counted - wanted).values())
    assert doubled > 0


def test_with_at_least_once_a_savepoint_is_exact() -> None:
    task = replace(_TASK, guarantee=Guarantee.AT_LEAST_ONCE)
    for seed in range(4):
        of = made(splits=4, seed=seed)
        job = Job(planned(build(TWICE_KEYED, of)), task, seed=seed, parallelism=3)
        job.cluster.run(100)
        # A checkpoint is under way when the savepoint is asked for.
        job.trigger()
        savepoint = job.trigger("exact/1")
        job.cluster.run_until(lambda: job.cluster.is_acknowledged(savepoint))  # noqa: B023
        job.enter(savepoint)
        job.restart(2)
        TWICE_KEYED.check(of.arrived(), job.finish())
