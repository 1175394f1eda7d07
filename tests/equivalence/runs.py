"""Runs programs of the corpus in each mode, and returns the rows of their sinks.

On Spark several programs share one environment and run as one job, as starting a job costs more than
the few rows of each program. If that job fails, the requested program runs alone, so that its own
failure is shown, if it has one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import rheos as rh
from rheos import testing
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.config import TaskConfig
from rheos.runtimes.job import JobState
from rheos.testing.simulation import CHECKPOINTS
from tests.equivalence.corpus.program import Given, Handing, Program
from tests.equivalence.modes import Mode

Found = Mapping[str, pa.Table]
"""The rows of each sink of a program."""

TOGETHER = 8
"""So many programs run as one job on Spark."""

WITHIN_S = 400.0

# --- simulated --------------------------------------------------------------------------------------

QUIET = testing.Faults(until_us=0)
DEADLY = testing.Faults(crash_slot=10.0, crash_driver=4.0, crash_after_checkpoint=0.3, until_us=300_000)
OFTEN = replace(CHECKPOINTS, interval_ms=20)
PACED_S = 0.2
SMALL = TaskConfig(batch_rows=16)
SEEDS = 20


def simulated(program: Program, mode: Mode, folder: Path) -> Found:
    """Run without Spark. In modes that need it, the job must be killed, or stopped half-way: seeds
    are tried until it is."""
    stateful: dict[str, Any] = {"state": StateConfig(Backend.ROCKSDB, memory_bytes=1 << 20)}
    for seed in range(SEEDS):
        if mode is Mode.SIMULATED:
            whole = replace(CHECKPOINTS, interval_ms=None)
            return _simulate(program, folder, Handing.PARQUET, faults=QUIET, checkpoint=whole).rows
        if mode is Mode.SIMULATED_CHECKPOINTED:
            done = _simulate(program, folder, faults=QUIET, parallelism=3, seed=seed)
            passed = done.status.checkpoints_completed > 2
        elif mode is Mode.SIMULATED_RESCALED:
            stops = testing.Requests(stop=15.0, until_us=300_000, resume_from_savepoint=1.0)
            done = _simulate(
                program, folder, faults=QUIET, parallelisms=(2, 3, 1), requests=stops, seed=seed
            )
            passed = any(not taken.final for taken in done.savepoints)
        elif mode is Mode.SIMULATED_FOUND:
            done = _simulate(program, folder, Handing.FOUND, faults=DEADLY, seed=seed)
            passed = done.crashes > 0
        else:
            more = stateful if mode is Mode.SIMULATED_ROCKSDB else {}
            done = _simulate(program, folder, faults=DEADLY, seed=seed, **more)
            passed = done.crashes > 0
        if passed or not program.lasts:
            return done.rows
    raise AssertionError(f"in {SEEDS} worlds {program.name!r} was never {mode.value}")


def _simulate(
    program: Program, folder: Path, handing: Handing = Handing.PACED, **how: Any
) -> testing.Simulated:
    settings = {"checkpoint": OFTEN, "task": SMALL, **how}
    given: list[Given] = []

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        given.append(Given(env, handing, Path(own), PACED_S))
        return program.build(given[0])

    def all_read(splits: int, now_ms: int) -> bool:
        """Without rows that the program is handed, its own bounded source ends the job."""
        dealt = given[0].dealt
        return bool(dealt) and splits == sum(rows.splits for rows in dealt)

    if handing is Handing.FOUND:
        settings["until_read"] = all_read
    with TemporaryDirectory(dir=folder) as own:
        return testing.simulate(build, **settings)


# --- on Spark ---------------------------------------------------------------------------------------


class Batches:
    """Programs of one mode that run on Spark, several at a time, with their results."""

    def __init__(self, mode: Mode, programs: Sequence[Program], folder: Path) -> None:
        self._mode = mode
        self._folder = folder
        self._found: dict[str, Found] = {}
        self._groups: dict[str, tuple[Program, ...]] = {}
        rest = iter(programs)
        while group := tuple(islice(rest, TOGETHER)):
            self._groups.update(dict.fromkeys((program.name for program in group), group))

    def found(self, program: Program) -> Found:
        if program.name not in self._found:
            self._run(self._groups.pop(program.name, (program,)), program)
        return self._found[program.name]

    def _run(self, group: Sequence[Program], wanted: Program) -> None:
        try:
            tables = self._run_together(group)
        except Exception as error:
            if len(group) == 1:
                raise
            for program in group:
                self._groups.pop(program.name, None)
            self._run_together((wanted,))
            error.add_note(f"by itself {wanted.name!r} runs")
            raise
        for program in group:
            self._found[program.name] = {
                sink: table for (name, sink), table in tables.items() if name == program.name
            }

    def _run_together(self, group: Sequence[Program]) -> dict[tuple[str, str], pa.Table]:
        with TemporaryDirectory(dir=self._folder) as own:
            return run_on_spark(group, self._mode, Path(own))


def run_on_spark(group: Sequence[Program], mode: Mode, folder: Path) -> dict[tuple[str, str], pa.Table]:
    """Return the rows by program and sink."""
    if mode is Mode.BATCH:
        env = rh.Environment(1, runtime="batch")
        return _executed(env, group, Handing.PARQUET, folder)
    if mode is Mode.BATCH_WIDE:
        env = rh.Environment(3, runtime="batch")
        return _executed(env, group, Handing.FAST, folder)
    settings: dict[str, Any] = {
        "runtime": "continuous",
        "checkpoint_interval": "100ms",
        "batch_rows": 64,
    }
    if mode is Mode.CONTINUOUS:
        env = rh.Environment(2, **settings)
        return _executed(env, group, Handing.PACED, folder)
    assert mode is Mode.CONTINUOUS_RESCALED
    return _rescaled(group, folder, settings)


def _executed(
    env: rh.Environment, group: Sequence[Program], handing: Handing, folder: Path
) -> dict[tuple[str, str], pa.Table]:
    sinks = _write(group, Given(env, handing, folder))
    result = env.execute("corpus")
    return {of: result.collected[sink] for sink, of in sinks.items()}


def _write(group: Sequence[Program], given: Given) -> dict[str, tuple[str, str]]:
    """Write the programs into the environment. Return program and sink of each collect sink."""
    sinks = {}
    for program in group:
        for name, stream in program.build(given).items():
            title = f"{program.name}: {name}"
            stream.collect(title)
            sinks[title] = program.name, name
    return sinks


def _rescaled(
    group: Sequence[Program], folder: Path, settings: Mapping[str, Any]
) -> dict[tuple[str, str], pa.Table]:
    """Stop the job with a savepoint half-way, and resume it with a higher parallelism."""
    first = rh.Environment(2, **settings, checkpoint_dir=folder / "before")
    given = Given(first, Handing.PACED, folder, last_s=30.0)
    sinks = _write(group, given)
    job = first.execute_async("corpus")
    rows = sum(rows.table.num_rows for rows in given.dealt)
    _wait_until(lambda: _read(job) > rows // 15, job)
    savepoint = job.stop()
    before = job.wait()
    assert before.status.state is JobState.STOPPED
    assert 0 < _read(job) < rows, "it was not stopped in the middle"
    second = rh.Environment(3, **settings, from_savepoint=savepoint, checkpoint_dir=folder / "after")
    _write(group, Given(second, Handing.PACED, folder, last_s=0.5))
    after = second.execute("corpus")
    return {
        of: pa.concat_tables([before.collected[sink], after.collected[sink]])
        for sink, of in sinks.items()
    }


def _read(job: rh.JobHandle) -> int:
    """Return the number of rows that the sources have emitted."""
    return sum(o.records_out for o in job.status().operators if o.id.startswith("source"))


def _wait_until(true: Callable[[], bool], job: rh.JobHandle) -> None:
    never, give_up = threading.Event(), time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < give_up, job.status()
        assert job.status().state in (JobState.STARTING, JobState.RUNNING), job.status()
        never.wait(0.02)
