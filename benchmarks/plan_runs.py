"""Real runs of the jobs of `plan_jobs.py` at a rate, for `plan_accuracy`: what they use.

Nothing is discarded or replaced as in a sample: the job takes checkpoints into a folder, and the
numbers come from its metrics and from the files on the disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.ops.planning.readings import growth, source_rows, total, values_of
from rheos.runtimes.continuous.runtime import ContinuousRuntime

_POLL_S = 0.1
_PROGRESS_US = 250_000
_START_WITHIN_S = 120.0


@dataclass(frozen=True)
class RealRun:
    """Resources that a job used, after its start and in its steady state."""

    rate: float
    """Rows per second that the sources emitted."""
    rows: float
    """Rows that the sources had emitted when the newest checkpoint was reported."""
    cpu_us: float
    """Processor time of a source's row in µs, all threads of all workers."""
    memory_bytes: float
    """Resident memory of the largest worker."""
    sent_bytes_per_s: float
    """Size of the rows sent to all slots, the own one included."""
    sent_batches_per_s: float
    state_bytes: float
    """Largest state of a checkpoint."""
    written_bytes: float
    """Bytes that the newest half of the checkpoints wrote, on average."""
    store_bytes: float
    """Largest size of the folder of checkpoints, and of one that is being written."""
    disk_bytes: float
    """Largest size of a slot's local files of state."""
    latency_ms: float
    """Latency that 99 % of the latency markers stayed below; 0 without markers."""


def real_run(
    program: Path,
    arguments: Sequence[str],
    settings: Overrides,
    slots: int,
    seconds: float,
) -> RealRun:
    """Run the program for `seconds` after its first rows. Return what it used in the second half."""
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
            task=replace(config.task, progress_interval_us=_PROGRESS_US),
        )
        job = ContinuousRuntime().submit(captured.environment.plan(captured.job_name), config)
        try:
            deadline_s = time.monotonic() + _START_WITHIN_S
            while not source_rows(job.metrics()) and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)
            began_s = measured_s = time.monotonic()
            first: MetricsReport | None = None
            seen: list[MetricsReport] = []
            store, disk = 0.0, 0.0
            while (now_s := time.monotonic()) < began_s + seconds:
                seen.append(job.metrics())
                if first is None and now_s >= began_s + seconds / 2:
                    first, measured_s = seen[-1], now_s
                store = max(store, _size(checkpoints))
                disk = max(disk, max(map(_size, state.glob("*")), default=0.0))
                time.sleep(_POLL_S)
            last = job.metrics()
            if job.status().state.is_over:
                job.wait()
        finally:
            job.cancel()
    assert first is not None
    return _run_of(first, last, seen, time.monotonic() - measured_s, store, disk)


def _run_of(
    first: MetricsReport,
    last: MetricsReport,
    seen: Sequence[MetricsReport],
    seconds: float,
    store: float,
    disk: float,
) -> RealRun:
    rows = source_rows(last) - source_rows(first)
    written = {total(each, f.CHECKPOINTS): total(each, f.WRITTEN) for each in seen}
    sizes = [size for count, size in sorted(written.items()) if count]
    written_bytes = fmean(sizes[len(sizes) // 2 :]) if sizes else 0.0
    latencies = [each.value for each in last.of(f.LATENCY) if isinstance(each.value, Accumulated)]
    return RealRun(
        rate=rows / seconds,
        rows=_rows_at_checkpoint(seen),
        cpu_us=_grown(first, last, f.CPU) * 1000 / rows,
        memory_bytes=max(values_of(last, f.MEMORY).values()),
        sent_bytes_per_s=_grown(first, last, f.SENT_BYTES) / seconds,
        sent_batches_per_s=_grown(first, last, f.SENT_BATCHES) / seconds,
        state_bytes=max(_state(each) for each in seen),
        written_bytes=written_bytes,
        store_bytes=store + written_bytes,
        disk_bytes=disk,
        latency_ms=max((each.quantile(0.99) or 0.0 for each in latencies), default=0.0),
    )


def _rows_at_checkpoint(seen: Sequence[MetricsReport]) -> float:
    newest = max(total(each, f.CHECKPOINTS) for each in seen)
    return source_rows(next(each for each in seen if total(each, f.CHECKPOINTS) == newest))


def _grown(first: MetricsReport, last: MetricsReport, metric: Metric) -> float:
    return sum(growth(first, last, metric).values())


def _state(report: MetricsReport) -> float:
    """Return the size of the state, without the positions of sources."""
    targets = {target for _, target in report.edges.values()}
    sources = {operators[0] for chain, operators in report.chains.items() if chain not in targets}
    sizes = values_of(report, f.STATE_BYTES).items()
    return sum(size for (operator, _), size in sizes if operator not in sources)


def _size(folder: Path) -> float:
    """Return the size of the files below a folder; 0 if they have just been deleted."""
    size = 0.0
    # os.walk ignores folders that are deleted meanwhile.
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.stat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return size
