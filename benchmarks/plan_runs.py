"""Real runs of the jobs of `plan_jobs.py` at a rate, for `plan_accuracy`: what they use.

Nothing is discarded or replaced as in a sample: the job takes checkpoints into a folder, and the
numbers come from its metrics and from the files on the disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.model import MetricsReport
from rheos.ops.planning.readings import (
    COMPILED_ROWS,
    core_wait_share,
    growth,
    latency_ms,
    source_rows,
    total,
    values_of,
)
from rheos.runtimes.continuous.runtime import ContinuousRuntime

_POLL_S = 0.1
_PROGRESS_US = 250_000
_MARKER_US = 50_000
_START_WITHIN_S = 120.0
_COMPILED_WITHIN_S = 60.0


@dataclass(frozen=True)
class RealRun:
    """Resources that a job used, after its start and in its steady state."""

    rate: float
    """Rows per second that the sources emitted."""
    seconds: float
    """Time of the newest checkpoint after the job's start."""
    cpu_us: float
    """Processor time of a source's row in µs, all threads of all workers."""
    memory_bytes: float
    """Resident memory of the largest worker."""
    sent_bytes_per_s: float
    """Size of the rows sent to all slots, the own one included."""
    sent_batches_per_s: float
    state_bytes: float
    """State of a checkpoint with its shared parts: of the newest half of them, on average."""
    written_bytes: float
    """Bytes that the newest half of the checkpoints wrote, on average."""
    store_bytes: float
    """Largest size of the retained checkpoints, and of the next one that was written."""
    disk_bytes: float
    """Largest size of a slot's local files of state."""
    latency_ms: float
    """Latency that 99 % of the latency markers stayed below; 0 without markers."""
    core_wait: float
    """Share of the slots' working time in which they waited for a core."""


def real_run(
    program: Path,
    arguments: Sequence[str],
    settings: Overrides,
    slots: int,
    seconds: float,
    compiled: bool = False,
) -> RealRun:
    """Run the program for `seconds` after its first rows. Return what it used in the second half.

    If `compiled`, the time starts when each slot has called a compiled function: this takes a while, as
    functions are compiled in the background.
    """
    forced = partial_settings.from_command({"parallelism": slots, "runtime": "continuous"})
    captured = captured_program(
        program, arguments, replace(settings, settings=(*settings.settings, forced))
    )
    config = captured.environment._config
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        checkpoints, state = Path(folder, "checkpoints"), Path(folder, "state")
        config = replace(
            config,
            checkpoint_dir=str(checkpoints),
            history=None,
            state=replace(config.state, directory=str(state)),
            task=replace(config.task, progress_interval_us=_PROGRESS_US, marker_interval_us=_MARKER_US),
        )
        job = ContinuousRuntime().submit(captured.environment.plan(captured.job_name), config)
        try:
            deadline_s = time.monotonic() + _START_WITHIN_S
            while not source_rows(job.metrics()) and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)
            deadline_s = time.monotonic() + (_COMPILED_WITHIN_S if compiled else 0.0)
            while _compiled_slots(job.metrics()) < slots and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)
            began_s = measured_s = time.monotonic()
            first: MetricsReport | None = None
            seen: list[MetricsReport] = []
            stores: dict[float, float] = {}
            disk = 0.0
            while (now_s := time.monotonic()) < began_s + seconds:
                seen.append(job.metrics())
                if first is None and now_s >= began_s + seconds / 2:
                    first, measured_s = seen[-1], now_s
                completed, size = total(seen[-1], f.CHECKPOINTS), _size(checkpoints)
                stores[completed] = min(stores.get(completed, size), size)
                disk = max(disk, max(map(_size, state.glob("*")), default=0.0))
                time.sleep(_POLL_S)
            last = job.metrics()
            if job.status().state.is_over:
                job.wait()
        finally:
            job.cancel()
    assert first is not None
    interval_ms = config.checkpoint.interval_ms or 0
    return _run_of(first, last, seen, time.monotonic() - measured_s, stores, disk, interval_ms)


def _run_of(
    first: MetricsReport,
    last: MetricsReport,
    seen: Sequence[MetricsReport],
    seconds: float,
    stores: Mapping[float, float],
    disk: float,
    interval_ms: int,
) -> RealRun:
    rows = source_rows(last) - source_rows(first)
    newest = total(last, f.CHECKPOINTS)
    written = {total(each, f.CHECKPOINTS): total(each, f.WRITTEN) for each in seen}
    return RealRun(
        rate=rows / seconds,
        seconds=newest * interval_ms / 1000 if newest else source_rows(last) / rows * seconds,
        cpu_us=_grown(first, last, f.CPU) * 1000 / rows,
        memory_bytes=max(values_of(last, f.MEMORY).values()),
        sent_bytes_per_s=_grown(first, last, f.SENT_BYTES) / seconds,
        sent_batches_per_s=_grown(first, last, f.SENT_BATCHES) / seconds,
        state_bytes=_mean_of_newer({total(each, f.CHECKPOINTS): _state(each) for each in seen}),
        written_bytes=_mean_of_newer(written),
        store_bytes=_largest_store(stores, written),
        disk_bytes=disk,
        latency_ms=latency_ms(first, last) or 0.0,
        core_wait=core_wait_share(first, last),
    )


def _compiled_slots(report: MetricsReport) -> int:
    return len({each.at[2] for each in report.of(f.COUNTER) if each.at[1] == COMPILED_ROWS})


def _mean_of_newer(sizes: Mapping[float, float]) -> float:
    """Return the average size of the newest half of the checkpoints, by their number."""
    in_order = [size for count, size in sorted(sizes.items()) if count]
    return fmean(in_order[len(in_order) // 2 :]) if in_order else 0.0


def _largest_store(stores: Mapping[float, float], written: Mapping[float, float]) -> float:
    """Return the largest size of the retained checkpoints and the next one.

    Args:
        stores: Smallest size of the folder while a number of checkpoints was completed. At that moment,
            none was being written, and older ones were deleted.
        written: Bytes that the newest checkpoint wrote, by the number of completed checkpoints.
    """
    sizes = [stores[count] + written[count + 1] for count in stores if count + 1 in written]
    return max(sizes, default=max(stores.values(), default=0.0))


def _grown(first: MetricsReport, last: MetricsReport, metric: Metric) -> float:
    return sum(growth(first, last, metric).values())


def _state(report: MetricsReport) -> float:
    """Return the size of the state, without the positions of sources."""
    targets = {target for _, target in report.edges.values()}
    sources = {operators[0] for chain, operators in report.chains.items() if chain not in targets}
    sizes = values_of(report, f.STATE_BYTES).items()
    return sum(size for (operator, _), size in sizes if operator not in sources)


def _size(folder: Path) -> float:
    """Return the size of the files below a folder, each link to a file once; 0 if they have just been
    deleted."""
    sizes: dict[int, int] = {}
    # os.walk ignores folders that are deleted meanwhile.
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.stat(os.path.join(parent, name))
            except OSError:
                continue
            sizes[found.st_ino] = found.st_size
    return float(sum(sizes.values()))
