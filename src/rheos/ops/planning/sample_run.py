"""Short runs of a job's program on this machine, at full load and at low rates.

The last phase takes checkpoints, and measures state, memory and keys. The other phases take none. They
differ in parallelism and batch size. So the fit can separate the costs of rows, exchange and batches.
In three of them, the sources are slow, which shows the cost of a slot that waits for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, log
from pathlib import Path
from types import MappingProxyType
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
from rheos.ops.planning.measurement import CostedChain, Measurement, OperatorState, Phase
from rheos.ops.planning.memory import worker_memory
from rheos.ops.planning.phase_run import (
    SLOW_WARM_UP_S,
    PhaseReports,
    SampledProgram,
    measured_phase,
    run_phase,
)
from rheos.ops.planning.readings import (
    StateLifetime,
    busy_share,
    compiled_chains,
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
from rheos.ops.planning.state_growth import state_after
from rheos.runtimes.job import JobConfig

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
_PROGRESS_US = 250_000
_LEAST_PACED_S = 4.0
_MARKER_US = 50_000
"""Time between latency markers in a phase with slow sources."""
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
    programs: dict[int, SampledProgram] = {}
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
    compiled: set[int] = set()
    for slots, rows in cells:
        progress(f"measuring costs with {slots} slots and batches of {rows:,} rows")
        reports = run_phase(_compiled(_stateless(programs[slots], rows)), each_s)
        phases.append(measured_phase(reports, slots, rows, reports.seconds))
        busy.append(busy_share(reports.first, reports.last, reports.seconds))
        splits.append(_splits(reports.last))
        compiled |= compiled_chains(reports.last)
    if compiled:
        progress(f"measuring functions that are not compiled with {_STATE_SLOTS} slots")
        never = _program(file, arguments, settings, _STATE_SLOTS, {"compiled": False})
        reports = run_phase(_stateless(never, batch_rows), each_s)
        interpreted = measured_phase(reports, _STATE_SLOTS, batch_rows, reports.seconds)
        phases.append(replaced(interpreted, interpreted=True))
    paced: list[Phase] = []
    fixed = _fixed(splits)
    for slots, rate in _PACED if job.config.task.buffer_timeout_us is not None else ():
        full = next(phase for phase in phases if phase.parallelism == slots)
        lower = min(rate, full.source_rows / full.seconds * _PACED_SHARE)
        progress(f"measuring waiting with {slots} slots at {lower:,.0f} rows/s")
        slow = _paced(programs[slots], full, lower, fixed)
        reports = run_phase(slow, max(each_s, _LEAST_PACED_S), warm_up_s=SLOW_WARM_UP_S)
        if reports.first is not None and source_rows(reports.last) > source_rows(reports.first):
            paced.append(
                measured_phase(reports, slots, batch_rows, elapsed_s(reports.first, reports.last))
            )
    progress(f"measuring state and keys with {_STATE_SLOTS} slots")
    state_s = seconds * _STATE_PHASE
    stateful = run_phase(_stateful(job, state_s), state_s, _CHECKPOINTS)
    if min(phase.source_rows for phase in phases) < _FEW_ROWS:
        raise JobFailedError(
            f"a phase of the sample read fewer than {_FEW_ROWS:,} rows, which is too few to measure",
            hint="pass a program whose sources have more rows, or measure for longer: --sample 2m",
        )
    chains = planned_chains(job.plan, fixed, compiled)
    measurement = _measurement(job, chains, stateful, phases, paced)
    return Sample(measurement, tuple(_notes(stateful, busy)))


def _program(
    file: Path,
    arguments: Sequence[str],
    settings: Overrides,
    slots: int,
    others: Mapping[str, object] = MappingProxyType({}),
) -> SampledProgram:
    forced = partial_settings.from_command({"parallelism": slots, "runtime": "continuous", **others})
    captured = captured_program(
        file, arguments, replace(settings, settings=(*settings.settings, forced))
    )
    with done_for(captured.site):
        plan = captured.environment.plan(captured.job_name)
    return SampledProgram(plan, captured.environment._config)


# --- runs -------------------------------------------------------------------------------------------


def _stateful(program: SampledProgram, seconds: float) -> SampledProgram:
    config = _sampled_config(program.config)
    interval_ms = min(max(round(seconds * 1000 / 4), _LEAST_CHECKPOINT_MS), _CHECKPOINT_MS)
    checkpoint = replace(config.checkpoint, interval_ms=interval_ms)
    plan = sampled_plan(program.plan, counts_keys=True)
    return SampledProgram(plan, replace(config, checkpoint=checkpoint))


def _stateless(program: SampledProgram, batch_rows: int) -> SampledProgram:
    config = _sampled_config(program.config)
    return SampledProgram(
        sampled_plan(program.plan),
        replace(
            config,
            checkpoint=replace(config.checkpoint, interval_ms=None),
            task=replace(config.task, batch_rows=batch_rows),
        ),
    )


def _paced(
    program: SampledProgram, full: Phase, rate: float, splits: Mapping[str, int]
) -> SampledProgram:
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
    checkpoint = program.config.checkpoint
    if checkpoint.interval_ms is not None:
        # A short phase needs some, because they take memory, and delay rows.
        checkpoint = replace(checkpoint, interval_ms=min(checkpoint.interval_ms, _CHECKPOINT_MS))
    return SampledProgram(
        sampled_plan(program.plan, paces=paces),
        replace(
            stateless.config,
            checkpoint=checkpoint,
            task=replace(stateless.config.task, marker_interval_us=_MARKER_US),
        ),
    )


def _compiled(program: SampledProgram) -> SampledProgram:
    """Return the program with functions that are compiled before the first row. A job that runs for
    long has them compiled in the background, which a sample is too short for."""
    context = replace(program.plan.context, compiles_at_once=True)
    return replace(program, plan=replace(program.plan, context=context))


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


# --- the measurement --------------------------------------------------------------------------------


def _measurement(
    job: SampledProgram,
    chains: tuple[CostedChain, ...],
    stateful: PhaseReports,
    phases: Sequence[Phase],
    paced: Sequence[Phase],
) -> Measurement:
    config = job.config
    late = stateful.late or stateful.last
    curves = key_curves(
        stateful.last, [each for each in (stateful.early, stateful.late) if each is not None]
    )
    lifetimes = _lifetimes(job.plan)
    states = states_of(stateful.early, late, lifetimes, curves)
    size = fsum(state.size_bytes for state in states)
    factor = _memory_per_state_byte(stateful)
    measurement = Measurement(
        job=job.plan.name,
        chains=chains,
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
    waiting = worker_memory(measurement, paced) if paced else 0.0
    state_phase = phase_of(
        stateful.first,
        stateful.last,
        job.plan.parallelism,
        config.task.batch_rows,
        stateful.seconds,
    )
    return replaced(
        measurement,
        state_phase=state_phase,
        state_error=_state_error(measurement, stateful.early, late, lifetimes),
        state_rows=source_rows(late),
        # Phases without checkpoints lack the memory for writing them.
        worker_memory_bytes=max(worker_memory(measurement, each) for each in (phases, [state_phase])),
        waiting_memory_bytes=waiting,
    )


def _state_error(
    measurement: Measurement,
    early: MetricsReport | None,
    late: MetricsReport,
    lifetimes: Mapping[str, StateLifetime],
) -> float | None:
    """Return the error of a prediction of the last report's state from an earlier report, as the
    logarithm of its ratio to the real size; None if one of the two has no state."""
    actual = fsum(state.size_bytes for state in measurement.states)
    if early is None or not actual:
        return None
    curves = key_curves(early)
    half = replaced(measurement, states=states_of(None, early, lifetimes, curves), key_curves=curves)
    rows = source_rows(late)
    expected = 0.0
    before = {(each.operator, each.chain): each for each in half.states}
    for state in measurement.states:
        earlier = before.get((state.operator, state.chain))
        if earlier is None:
            return None
        if state.lifetime_ms is None:
            # A rate of one row per ms: only the number of rows counts.
            expected += state_after(half, earlier, 1000.0, round(rows))
        elif state.entry_bytes:
            # The size of windows depends on event time, but not that of an entry.
            expected += state.size_bytes * earlier.entry_bytes / state.entry_bytes
    return abs(log(expected / actual)) if expected else None


def _memory_per_state_byte(reports: PhaseReports) -> float:
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


def _notes(stateful: PhaseReports, busy: Sequence[float]) -> list[str]:
    notes = []
    if min(busy) < _FULL_LOAD:
        notes.append(
            f"the sources filled only {min(busy):.0%} of a slot: a row costs more in such a sample"
        )
    if not values_of(stateful.last, f.STATE_BYTES):
        notes.append("no checkpoint was completed in the sample, so the size of the state is unknown")
    return notes
