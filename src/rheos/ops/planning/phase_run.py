"""One run of a sample: starts a job, and returns reports of its metrics from the measured time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from msgspec.structs import replace as replaced

from rheos.core.errors import JobFailedError
from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.physical import PhysicalPlan
from rheos.ops.planning.measurement import Phase
from rheos.ops.planning.readings import compiled_chains, elapsed_s, phase_of, source_rows, total
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_handle import JobHandle

_EXTRA_S = 10.0
"""Maximum additional duration of a phase that waits for checkpoints."""
_START_WITHIN_S = 120.0
_POLL_S = 0.1
_WARM_UP = 0.3
"""Share of a phase that is not measured, while functions are compiled and caches fill."""
SLOW_WARM_UP_S = 2.5
"""Time at the beginning of a phase with slow sources or compiled functions that is not measured. Caches
fill more slowly with few batches, and the first call of a compiled function takes long."""


@dataclass(frozen=True)
class SampledProgram:
    """The program of a job with a number of slots."""

    plan: PhysicalPlan
    config: JobConfig


@dataclass(frozen=True)
class PhaseReports:
    """Reports of a phase. `first` is None if the job ended before the phase was measured."""

    first: MetricsReport | None
    middle: MetricsReport | None
    """Report of the middle of the measured time; None without `first`."""
    early: MetricsReport | None
    """Report of a checkpoint from the middle of the phase; None with fewer than two checkpoints."""
    late: MetricsReport | None
    """First report of the last checkpoint; None without a checkpoint."""
    last: MetricsReport
    seconds: float


def run_phase(
    program: SampledProgram, seconds: float, checkpoints: int = 0, warm_up_s: float = 0.0
) -> PhaseReports:
    """Run a phase, and cancel it. A job that ends earlier is measured from its beginning.

    A phase with fewer than `checkpoints` completed checkpoints lasts up to 10 s longer. Its first part
    is not measured: a share of `seconds`, or `warm_up_s` if that is longer.
    """
    from rheos.runtimes.continuous.runtime import ContinuousRuntime

    job = ContinuousRuntime().submit(program.plan, program.config)
    try:
        began_s = _wait_for_rows(job)
        last = job.metrics()
        first: MetricsReport | None = None
        middle: MetricsReport | None = None
        by_checkpoint: dict[float, MetricsReport] = {}
        measured_s = began_s
        while not job.status().state.is_over:
            now_s = time.monotonic()
            slow_s = SLOW_WARM_UP_S if compiled_chains(last) else warm_up_s
            warm_s = max(seconds * _WARM_UP, slow_s)
            end_s = max(seconds, warm_s + seconds * (1 - _WARM_UP))
            missing = total(last, f.CHECKPOINTS) < checkpoints
            if now_s >= began_s + end_s + (_EXTRA_S if missing else 0.0):
                break
            last = job.metrics()
            if first is None and now_s >= began_s + warm_s:
                first, measured_s = last, now_s
            if middle is None and now_s >= began_s + (warm_s + end_s) / 2:
                middle = last
            # Before a checkpoint completes, the reports of some slots are missing.
            if completed := total(last, f.CHECKPOINTS):
                by_checkpoint.setdefault(completed, last)
            time.sleep(_POLL_S)
        if job.status().state.is_over:
            job.wait()  # Raises the error of a job that has failed.
            first, middle, measured_s = None, None, began_s
        return PhaseReports(
            first,
            middle,
            *_middle_and_last(by_checkpoint),
            last,
            max(time.monotonic() - measured_s, _POLL_S),
        )
    finally:
        job.cancel()


def _middle_and_last(
    by_checkpoint: Mapping[float, MetricsReport],
) -> tuple[MetricsReport | None, MetricsReport | None]:
    """Return the report in the middle and the last one, by the number of checkpoints. The first
    checkpoints may be from a time when only a part of the keys had arrived."""
    reports = [by_checkpoint[count] for count in sorted(by_checkpoint)]
    middle = reports[(len(reports) - 1) // 2] if len(reports) > 1 else None
    return middle, reports[-1] if reports else None


def _wait_for_rows(job: JobHandle) -> float:
    """Wait until the sources have emitted rows. Return the time on the monotonic clock, in s."""
    give_up_s = time.monotonic() + _START_WITHIN_S
    while not source_rows(job.metrics()):
        if job.status().state.is_over:
            job.wait()
            break
        if time.monotonic() > give_up_s:
            raise JobFailedError(
                f"the sources returned no row within {_START_WITHIN_S:.0f} s",
                hint="check that they have rows: a sample reads what the job would read",
            )
        time.sleep(_POLL_S)
    return time.monotonic()


def measured_phase(reports: PhaseReports, slots: int, batch_rows: int, seconds: float) -> Phase:
    """Return a phase, with its halves if each has rows."""
    whole = phase_of(reports.first, reports.last, slots, batch_rows, seconds)
    ends = [reports.first, reports.middle, reports.last]
    parts = [
        phase_of(before, after, slots, batch_rows, elapsed)
        for before, after in pairwise(each for each in ends if each is not None)
        if (elapsed := elapsed_s(before, after)) > 0
    ]
    varied = len(parts) == 2 and all(part.source_rows > 0 for part in parts)
    return replaced(whole, parts=tuple(parts)) if varied else whole
