"""Runs a benchmark on the continuous runtime: warm up, measure a window, stop."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from rheos.api.environment import Environment
from rheos.cli.benchmarks.measured_connectors import SINK
from rheos.cli.benchmarks.programs import BenchProgram, Load
from rheos.cli.benchmarks.recorder import (
    SLICE_NS,
    MeasuredWindow,
    Slice,
    first_complete,
    measured,
    read_slices,
)
from rheos.core.errors import JobFailedError
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.job import JobState, JobStatus
from rheos.runtimes.job_handle import JobHandle

_WHOLE = {"0": 0, "-1": -1}
"""Buffer timeouts that are not durations, with their meanings."""

_POLL_S = 0.2
_START_WITHIN_S = 120.0
_LAST_SLICES_WITHIN_S = 5.0


@dataclass(frozen=True)
class BenchSettings:
    """Options of the command. None means the program's own default."""

    parallelism: int
    seconds: float
    warmup_s: float
    keys: int | None = None
    rate_per_core: float | None = None
    buffer_timeout: str = "10ms"
    checkpoint_interval: str | None = None
    """Interval of checkpoints; None for no checkpoints."""
    batch_rows: int = 16_384
    objective: str | None = None
    """Latency objective, for which the job chooses its own buffer timeout."""
    state: StateConfig = field(default_factory=StateConfig)


@dataclass(frozen=True)
class BenchResult:
    """Metrics of a benchmark, and the settings of its run."""

    program: BenchProgram
    settings: BenchSettings
    load: Load
    window: MeasuredWindow
    status: JobStatus
    """Status at the end of the window."""
    cores: float
    """Average number of cores that the driver, its JVM and the workers used together."""


Progress = Callable[[str], None]
"""Function that is called with a short description of the current phase."""


def run(program: BenchProgram, settings: BenchSettings, progress: Progress) -> BenchResult:
    """Run the program and measure it. Raises the errors of the job."""
    with tempfile.TemporaryDirectory(prefix="rheos-bench-") as folder:
        measures = Path(folder, "measures")
        measures.mkdir()
        load = Load(
            parallelism=settings.parallelism,
            keys=(settings.keys or program.keys) if program.keys else None,
            rate_per_core=settings.rate_per_core or program.rate_per_core,
            batch_rows=settings.batch_rows,
            folder=str(measures),
        )
        env = Environment(
            parallelism=settings.parallelism,
            runtime="continuous",
            checkpoint_dir=str(Path(folder, "checkpoints")),
            checkpoint_interval=settings.checkpoint_interval,
            buffer_timeout=_WHOLE.get(settings.buffer_timeout, settings.buffer_timeout),
            batch_rows=settings.batch_rows,
            state=settings.state,
            latency=settings.objective,
        )
        program.build(env, load)
        progress("starting Spark")
        handle = env.execute_async(f"bench {program.name}")
        try:
            window, status, cores = _measure(handle, program, settings, load.folder, progress)
        finally:
            handle.cancel()
        return BenchResult(program, settings, load, window, status, cores)


def start_of_rows(handle: JobHandle, folder: str, tap: str, parallelism: int) -> int:
    """Wait until every slot has records at the tap, and return the first slice in which all had.

    Raises JobFailedError if no records arrive.
    """
    give_up = time.monotonic() + _START_WITHIN_S
    while True:
        _rest(handle, _POLL_S)
        recorded = read_slices(folder, tap)
        # There is one recorder per slot: the sink's, or that of the slot's split.
        started = first_complete(recorded) if len(recorded) >= parallelism else None
        if started is not None:
            return started
        if time.monotonic() > give_up:
            raise JobFailedError(
                f"no record reached the end of the job within {_START_WITHIN_S:.0f} s",
                hint="run it with a lower --parallelism: each subtask needs a slot of the machine",
            )


def _measure(
    handle: JobHandle, program: BenchProgram, settings: BenchSettings, folder: str, progress: Progress
) -> tuple[MeasuredWindow, JobStatus, float]:
    def rows() -> list[list[Slice]]:
        return read_slices(folder, program.counted_at)

    started = start_of_rows(handle, folder, program.counted_at, settings.parallelism)
    # On a busy machine the notification may be delayed.
    first = max(started, time.time_ns() // SLICE_NS) + round(settings.warmup_s * 1e9) // SLICE_NS
    end = first + max(round(settings.seconds * 1e9) // SLICE_NS, 1)
    _wait_for(handle, first, "warming up", settings.warmup_s, progress)
    began_s, before = time.monotonic(), _processor_s()
    _wait_for(handle, end, "measuring", settings.seconds, progress)
    cores = (_processor_s() - before) / (time.monotonic() - began_s)
    status = handle.status()
    give_up = time.monotonic() + _LAST_SLICES_WITHIN_S
    while (
        any(slices[-1].number < end - 1 for slices in rows() if slices) and time.monotonic() < give_up
    ):
        _rest(handle, _POLL_S)
    return measured(rows(), read_slices(folder, SINK), first, end), status, cores


def _processor_s() -> float:
    """Return the processor time of this process and its current descendants, which live as long as the
    job."""
    used_s = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used_s += times.user + times.system
    return used_s


def _wait_for(handle: JobHandle, number: int, what: str, of_s: float, progress: Progress) -> None:
    """Wait until the slice has begun."""
    while (left_s := (number * SLICE_NS - time.time_ns()) / 1e9) > 0:
        progress(f"{what}, {max(of_s - left_s, 0):.0f} of {of_s:g} s")
        _rest(handle, min(_POLL_S, left_s))


def _rest(handle: JobHandle, seconds: float) -> None:
    """Sleep. Raises the job's error if it has ended since."""
    time.sleep(seconds)
    if handle.status().state in (JobState.FAILED, JobState.CANCELLED, JobState.FINISHED):
        handle.wait()
        raise JobFailedError("the job ended before it was measured")
