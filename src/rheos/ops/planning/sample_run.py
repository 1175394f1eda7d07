"""Short runs of a job's program on this machine, at full load and at low rates.

The last phase takes checkpoints, and measures state, memory and keys. The other phases take none. They
differ in parallelism and batch size. So the fit can separate the costs of rows, exchange and batches.
In three of them, the sources are slow, which shows the cost of a slot that waits for rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace as replaced

from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.core.errors import JobFailedError
from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import Backend
from rheos.core.site import done_for
from rheos.ops.planning.measurement import Measurement, OperatorState, Phase
from rheos.ops.planning.memory import worker_memory
from rheos.ops.planning.readings import (
    StateLifetime,
    busy_share,
    elapsed_s,
    heaviest_share,
    key_curves,
    phase_of,
    source_rows,
    states_of,
    total,
    values_of,
)
from rheos.ops.planning.sampled_plan import SourcePace, planned_chains, planned_edges, sampled_plan
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_handle import JobHandle

Progress = Callable[[str], None]
"""Function that is called with a short description of the current phase."""

_SMALL_BATCH_RATIO = 16
_LEAST_BATCH_ROWS = 256
_SLOTS = (4, 2, 1)
"""Numbers of slots in the sample."""
_PACED = ((4, 20_000.0), (2, 20_000.0), (4, 40.0))
"""Numbers of slots and rows per second of the phases with slow sources."""
_PACED_SHARE = 0.1
"""Maximum rate of these phases, relative to the rate at full load with as many slots."""
_STATE_SLOTS = 2
"""Number of slots with which state is measured."""
_CHECKPOINT_MS = 2_000
_LEAST_CHECKPOINT_MS = 500
_CHECKPOINTS = 2
"""Number of checkpoints in the phase that measures state."""
_EXTRA_S = 10.0
"""Maximum time for which this phase waits for them in addition."""
_PROGRESS_US = 250_000
_START_WITHIN_S = 120.0
_POLL_S = 0.1
_WARM_UP = 0.3
"""Share of a phase that is not measured, while functions are compiled and caches fill."""
_PACED_WARM_UP_S = 1.5
"""The same time of a phase with slow sources. It has few batches, so this takes longer."""
_LEAST_PACED_S = 3.0
_STATE_PHASE = 0.3
"""Share of the sample that measures state."""
_MIB = 2**20
_MEASURABLE_STATE_BYTES = 16 * _MIB
_USUAL_MEMORY_PER_STATE_BYTE = 2.0
_MOST_MEMORY_PER_STATE_BYTE = 8.0
_FEW_ROWS = 1_000
_FULL_LOAD = 0.5
"""Share of the time that the busiest slot works in a sample of which nothing else is reported."""


@dataclass(frozen=True)
class Sample:
    """A measured sample, and what was unusual about it."""

    measurement: Measurement
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Program:
    """The program of a job with a number of slots."""

    plan: PhysicalPlan
    config: JobConfig


@dataclass(frozen=True)
class _Reports:
    """Reports of a phase. `first` is None if the job ended before the phase was measured."""

    first: MetricsReport | None
    early: MetricsReport | None
    """Report of a checkpoint from the middle of the phase; None with fewer than two checkpoints."""
    late: MetricsReport | None
    """First report of the last checkpoint; None without a checkpoint."""
    last: MetricsReport
    seconds: float


def measure_sample(
    file: Path, arguments: Sequence[str], settings: Overrides, seconds: float, progress: Progress
) -> Sample:
    """Run the program several times, for `seconds` in total plus the time to start, and measure it.

    Args:
        file: The program.
        arguments: Its arguments.
        settings: Settings of the command.
        seconds: Duration of all phases. Those with slow sources have at least 3 s each.
        progress: Function that is called with the current phase.

    Raises:
        RheosError: The program or its sample fails, or emits too few rows. The error has its line.
    """
    programs: dict[int, _Program] = {}
    for slots in _SLOTS:
        programs[slots] = _program(file, arguments, settings, slots)
    job = programs[_STATE_SLOTS]
    batch_rows = job.config.task.batch_rows
    small_rows = max(min(batch_rows, _LEAST_BATCH_ROWS), batch_rows // _SMALL_BATCH_RATIO)
    cells = [(slots, batch_rows) for slots in _SLOTS]
    cells.append((_SLOTS[0], small_rows))
    # The largest number of slots is first, so that all runs share one Spark context.
    each_s = seconds * (1 - _STATE_PHASE) / (len(cells) + len(_PACED))
    phases: list[Phase] = []
    splits: list[dict[str, int]] = []
    busy: list[float] = []
    for slots, rows in cells:
        progress(f"measuring costs with {slots} slots and batches of {rows:,} rows")
        reports = _run(_stateless(programs[slots], rows), each_s)
        phases.append(phase_of(reports.first, reports.last, slots, rows, reports.seconds))
        busy.append(busy_share(reports.first, reports.last, reports.seconds))
        splits.append(_splits(reports.last))
    paced: list[Phase] = []
    fixed = _fixed(splits)
    for slots, rate in _PACED if job.config.task.buffer_timeout_us is not None else ():
        full = next(phase for phase in phases if phase.parallelism == slots)
        lower = min(rate, full.source_rows / full.seconds * _PACED_SHARE)
        progress(f"measuring waiting with {slots} slots at {lower:,.0f} rows/s")
        slow = _paced(programs[slots], full, lower, fixed)
        reports = _run(slow, max(each_s, _LEAST_PACED_S), warm_up_s=_PACED_WARM_UP_S)
        if reports.first is not None and source_rows(reports.last) > source_rows(reports.first):
            elapsed = elapsed_s(reports.first, reports.last)
            paced.append(phase_of(reports.first, reports.last, slots, batch_rows, elapsed))
    progress(f"measuring state and keys with {_STATE_SLOTS} slots")
    state_s = seconds * _STATE_PHASE
    stateful = _run(_stateful(job, state_s), state_s, _CHECKPOINTS)
    if min(phase.source_rows for phase in phases) < _FEW_ROWS:
        raise JobFailedError(
            f"a phase of the sample read fewer than {_FEW_ROWS:,} rows, which is too few to measure",
            hint="pass a program whose sources have more rows, or measure for longer: --sample 2m",
        )
    measurement = _measurement(job, stateful, phases, paced, fixed)
    return Sample(measurement, tuple(_notes(stateful, busy)))


def _program(file: Path, arguments: Sequence[str], settings: Overrides, slots: int) -> _Program:
    forced = partial_settings.from_command({"parallelism": slots, "runtime": "continuous"})
    captured = captured_program(
        file, arguments, replace(settings, settings=(*settings.settings, forced))
    )
    with done_for(captured.site):
        plan = captured.environment.plan(captured.job_name)
    return _Program(plan, captured.environment._config)


# --- runs -------------------------------------------------------------------------------------------


def _stateful(program: _Program, seconds: float) -> _Program:
    config = _sampled_config(program.config)
    interval_ms = min(max(round(seconds * 1000 / 4), _LEAST_CHECKPOINT_MS), _CHECKPOINT_MS)
    checkpoint = replace(config.checkpoint, interval_ms=interval_ms)
    plan = sampled_plan(program.plan, counts_keys=True)
    return _Program(plan, replace(config, checkpoint=checkpoint))


def _stateless(program: _Program, batch_rows: int) -> _Program:
    config = _sampled_config(program.config)
    return _Program(
        sampled_plan(program.plan),
        replace(
            config,
            checkpoint=replace(config.checkpoint, interval_ms=None),
            task=replace(config.task, batch_rows=batch_rows),
        ),
    )


def _paced(program: _Program, full: Phase, rate: float, splits: Mapping[str, int]) -> _Program:
    """Return the program with slow sources. Each has the same share of the rows as at full load."""
    rows = {load.chain: load.rows for load in full.chains}
    targets = {edge.target for edge in program.plan.edges}
    heads = {str(each.operators[0].id): each.id for each in program.plan.chains}
    paces = {
        head: SourcePace(
            rate * rows[chain] / full.source_rows, splits.get(head, program.plan.parallelism)
        )
        for head, chain in heads.items()
        if chain not in targets and rows[chain]
    }
    stateless = _stateless(program, program.config.task.batch_rows)
    return replace(stateless, plan=sampled_plan(program.plan, paces=paces))


def _sampled_config(config: JobConfig) -> JobConfig:
    """Return the configuration of a job that shares nothing with the real one."""
    return replace(
        config,
        job=JobId(f"plan-{uuid4().hex[:8]}"),
        checkpoint_dir=None,
        from_savepoint=None,
        master=None,
        scaling=None,
        min_parallelism=None,
        alerts=None,
        lineage=None,
        history=None,
        until_now=False,
        standby=False,
        task=replace(config.task, latency_us=None, progress_interval_us=_PROGRESS_US),
    )


def _run(program: _Program, seconds: float, checkpoints: int = 0, warm_up_s: float = 0.0) -> _Reports:
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
        by_checkpoint: dict[float, MetricsReport] = {}
        warm_s = began_s + max(seconds * _WARM_UP, warm_up_s)
        measured_s = began_s
        while not job.status().state.is_over:
            now_s = time.monotonic()
            missing = total(last, f.CHECKPOINTS) < checkpoints
            if now_s >= began_s + seconds + (_EXTRA_S if missing else 0.0):
                break
            last = job.metrics()
            if first is None and now_s >= warm_s:
                first, measured_s = last, now_s
            # Before a checkpoint completes, the reports of some slots are missing.
            if completed := total(last, f.CHECKPOINTS):
                by_checkpoint.setdefault(completed, last)
            time.sleep(_POLL_S)
        if job.status().state.is_over:
            job.wait()  # Raises the error of a job that has failed.
            first, measured_s = None, began_s
        return _Reports(
            first, *_middle_and_last(by_checkpoint), last, max(time.monotonic() - measured_s, _POLL_S)
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


# --- the measurement --------------------------------------------------------------------------------


def _measurement(
    job: _Program,
    stateful: _Reports,
    phases: Sequence[Phase],
    paced: Sequence[Phase],
    splits: dict[str, int],
) -> Measurement:
    config = job.config
    late = stateful.late or stateful.last
    curves = key_curves(
        stateful.last, [each for each in (stateful.early, stateful.late) if each is not None]
    )
    states = states_of(stateful.early, late, _lifetimes(job.plan), curves)
    size = fsum(state.size_bytes for state in states)
    factor = _memory_per_state_byte(stateful)
    measurement = Measurement(
        job=job.plan.name,
        chains=planned_chains(job.plan, splits),
        edges=planned_edges(job.plan),
        phases=tuple(phases),
        paced_phases=tuple(paced),
        states=states,
        key_curves=curves,
        heaviest_key_share=heaviest_share(stateful.last),
        max_parallelism=job.plan.max_parallelism,
        batch_rows=config.task.batch_rows,
        buffer_timeout_us=config.task.buffer_timeout_us,
        checkpoint_interval_ms=config.checkpoint.interval_ms,
        retained_checkpoints=config.checkpoint.retain,
        state_on_disk=config.state.backend is Backend.ROCKSDB,
        state_memory_bytes=int(config.state.memory_bytes),
        memory_per_state_byte=factor,
        written_share=_written_share(stateful.last, states),
        sync_us_per_mb=_sync_us_per_mb(stateful.last, size / job.plan.parallelism),
    )
    return replaced(measurement, worker_memory_bytes=worker_memory(measurement))


def _memory_per_state_byte(reports: _Reports) -> float:
    """Return the growth of the workers' memory per byte of state, if the state grew enough to measure
    it; otherwise a usual value."""
    if reports.early is None:
        return _USUAL_MEMORY_PER_STATE_BYTE
    grown, memory = (
        total(reports.last, metric) - total(reports.early, metric)
        for metric in (f.STATE_BYTES, f.MEMORY)
    )
    if grown < _MEASURABLE_STATE_BYTES:
        return _USUAL_MEMORY_PER_STATE_BYTE
    return min(max(memory / grown, 1.0), _MOST_MEMORY_PER_STATE_BYTE)


def _written_share(report: MetricsReport, states: Sequence[OperatorState]) -> float:
    size = fsum(state.size_bytes for state in states)
    return min(1.0, total(report, f.WRITTEN) / size) if size else 1.0


def _sync_us_per_mb(report: MetricsReport, slot_bytes: float) -> float:
    pause_ms = max(values_of(report, f.SYNC).values(), default=0.0)
    return pause_ms * 1000 / (slot_bytes / 1e6) if slot_bytes > 1e6 else 0.0


def _lifetimes(plan: PhysicalPlan) -> dict[str, StateLifetime]:
    """Return the times of windows of a fixed size, by operator."""
    return {
        str(planned.id): StateLifetime(lifetime_ms, planned.spec.window_pane_ms)
        for planned in plan.operators()
        if (lifetime_ms := planned.spec.window_lifetime_ms) is not None
    }


def _splits(report: MetricsReport) -> dict[str, int]:
    """Return the number of splits of each source that have not ended, by the id of its operator."""
    splits: dict[str, int] = {}
    for metric in (f.OPEN_SPLITS, f.WAITING_SPLITS):
        for (operator, _), count in values_of(report, metric).items():
            splits[operator] = splits.get(operator, 0) + int(count)
    return splits


def _fixed(splits: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the numbers of splits that do not depend on the parallelism."""
    return {
        operator: count
        for operator, count in splits[0].items()
        if count and len(splits) > 1 and all(each.get(operator) == count for each in splits)
    }


def _notes(stateful: _Reports, busy: Sequence[float]) -> list[str]:
    notes = []
    if min(busy) < _FULL_LOAD:
        notes.append(
            f"the sources filled only {min(busy):.0%} of a slot: a row costs more in such a sample"
        )
    if not values_of(stateful.last, f.STATE_BYTES):
        notes.append("no checkpoint was completed in the sample, so the size of the state is unknown")
    return notes
