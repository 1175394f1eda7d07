"""The certainty of a plan: an interval for each quantity, derived from the sample itself. Pure.

The size of errors is not assumed. They are computed from four comparisons:

- The model is fitted again with each half of each phase. If the sample was steady, the predictions are
  about the same (*sampling error*).
- Phases are predicted by a model that is fitted without them (*model error*). It grows with each
  doubling of the slots beyond those of the sample.
- The final state of the sample is predicted from its first half. The error grows with each doubling of
  the rows, as long as the state grows.
- Sizes of workers and of rows are compared between phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, hypot, isfinite, log, log2, sqrt

import msgspec

from rheos.ops.planning.cost_model import ChainCost, CostModel, phase_error, remote_share
from rheos.ops.planning.fitting import fit, paced_us
from rheos.ops.planning.intervals import LARGEST, root_mean_square, spread
from rheos.ops.planning.load import JobLoad, load_at, max_rate
from rheos.ops.planning.measurement import Measurement, Phase
from rheos.ops.planning.memory import memory_sizes
from rheos.ops.planning.readings import EXACT

_OFTEN_BUSY = 0.5
"""Share of a core from which a slot's buffers are expected to fill."""
_SAME_RATE = 1.5
"""Ratio of two rates up to which phases predict each other."""


@dataclass(frozen=True)
class Errors:
    """Standard errors of the logarithms of a plan's quantities; infinite if the sample shows none."""

    costs: float
    """Error of the processor time at the planned rate."""
    rate: float
    """Error of the highest rate, and so of the processor time at full load."""
    worker_memory: float
    network: float
    state: float


def errors_of(model: CostModel, load: JobLoad, rows: float, growth: float) -> Errors:
    """Return the errors of a plan.

    Args:
        model: Costs of the job.
        load: Its load.
        rows: Rows of the sources after the plan's time.
        growth: Ratio of the size of the state at that time to that in the sample.
    """
    measurement = model.measurement
    at_full_load = _model_error(model, load.slots)
    pauses = load.waking_us * load.slots / load.total_us if load.total_us else 0.0
    at_rate = hypot((1 - pauses) * at_full_load, pauses * _pauses_error(model))
    return Errors(
        costs=hypot(at_rate, _sampling_error(model, lambda each: _total_us(each, load))),
        rate=hypot(at_full_load, _sampling_error(model, lambda each: max_rate(each, load.slots))),
        worker_memory=_memory_error(measurement, memory_phases(measurement, load)),
        network=_network_error(model),
        state=_state_error(measurement, rows, growth),
    )


def memory_phases(measurement: Measurement, load: JobLoad) -> tuple[Phase, ...]:
    """Return the phases whose workers have about the memory of those of a load. Workers that wait most
    of the time have empty buffers, and process batches that are too small for compiled functions."""
    waits = load.busy < _OFTEN_BUSY and not load.compiled
    known = measurement.waiting_memory_bytes > 0
    if waits and known:
        return measurement.paced_phases
    with_checkpoints = measurement.state_phase
    return (*measurement.phases, *(() if with_checkpoints is None else (with_checkpoints,)))


# --- processor time ---------------------------------------------------------------------------------


def _total_us(model: CostModel, load: JobLoad) -> float:
    return load_at(model, load.slots, load.rate, load.timeout_us).total_us


def _sampling_error(model: CostModel, predict: Callable[[CostModel], float]) -> float:
    """Return the error of a prediction that comes from the limited time of the sample."""
    squares = [
        ((log(one) - log(other)) / 2) ** 2
        for one, other in (
            [predict(fit(half)) for half in halves] for halves in _halves(model.measurement)
        )
        if one > 0 and other > 0 and isfinite(one) and isfinite(other)
    ]
    return sqrt(fsum(squares))


def _halves(measurement: Measurement) -> Iterator[list[Measurement]]:
    """Yield two measurements for each phase: with its first half in its place, and with its second."""
    for name in ("phases", "paced_phases"):
        phases: tuple[Phase, ...] = getattr(measurement, name)
        for place, phase in enumerate(phases):
            if phase.parts:
                yield [
                    msgspec.structs.replace(
                        measurement,
                        **{name: (*phases[:place], _copy_kind(phase, part), *phases[place + 1 :])},
                    )
                    for part in phase.parts
                ]


def _copy_kind(phase: Phase, part: Phase) -> Phase:
    return msgspec.structs.replace(part, interpreted=phase.interpreted)


def _model_error(model: CostModel, slots: int) -> float:
    """Return the error of costs at full load that comes from the form of the model."""
    measurement = model.measurement
    phases = measurement.phases
    used = max((_used_costs(cost) for cost in model.chains), default=0)
    freedom = max(1, len(phases) - used)
    errors = [model.error * sqrt(len(phases) / freedom)]
    for phase in phases:
        others = tuple(each for each in phases if each is not phase)
        if _is_between(phase, others):
            without = fit(msgspec.structs.replace(measurement, phases=others, paced_phases=()))
            errors.append(phase_error(phase, without.chains, measurement.edges))
    doublings = max(0.0, log2(slots / measurement.most_slots))
    return root_mean_square(errors) * (1 + doublings)


def _used_costs(cost: ChainCost) -> int:
    costs = (cost.row_us, cost.remote_us, cost.batch_us, cost.send_us, cost.interpreted_us)
    return sum(each > 0 for each in costs)


def _is_between(phase: Phase, others: tuple[Phase, ...]) -> bool:
    slots = [
        each.parallelism
        for each in others
        if (each.batch_rows, each.interpreted) == (phase.batch_rows, phase.interpreted)
    ]
    return bool(slots) and min(slots) < phase.parallelism < max(slots)


def _pauses_error(model: CostModel) -> float:
    """Return the error of the cost of pauses. If slots waited for a core, they paused less often than
    on a quiet machine."""
    phases = model.measurement.paced_phases
    waited = fsum(phase.core_wait for phase in phases) / len(phases) if phases else 0.0
    errors = []
    for phase in phases:
        others = tuple(each for each in phases if each is not phase)
        rate = phase.source_rows / phase.seconds
        rates = [each.source_rows / each.seconds / rate for each in others]
        if any(1 / _SAME_RATE < each < _SAME_RATE for each in rates):
            without = fit(msgspec.structs.replace(model.measurement, paced_phases=others))
            timeout_us = model.measurement.buffer_timeout_us
            expected = load_at(without, phase.parallelism, rate, timeout_us).total_us
            errors.append(log(expected / paced_us(phase)) if expected > 0 else 0.0)
    return hypot(root_mean_square(errors), waited)


# --- memory, network and state ---------------------------------------------------------------------


def _memory_error(measurement: Measurement, phases: Sequence[Phase]) -> float:
    """Return the error of a worker's memory: by how much it differs between phases, and by how much it
    still grew in them."""
    grown = [
        log(late.memory_bytes / early.memory_bytes)
        for early, late in (phase.parts for phase in phases if phase.parts)
        if early.memory_bytes and late.memory_bytes
    ]
    sizes = [size for size in memory_sizes(measurement, phases) if size > 0]
    return hypot(spread(sizes), root_mean_square(grown))


def _network_error(model: CostModel) -> float:
    """Return the error of the bytes between slots, which the slow phases are not fitted to."""
    measurement = model.measurement
    errors = []
    for phase in measurement.paced_phases:
        load = load_at(
            model, phase.parallelism, phase.source_rows / phase.seconds, measurement.buffer_timeout_us
        )
        sent = _sent_bytes(measurement, phase)
        if sent and load.network_bytes_per_s:
            errors.append(log(load.network_bytes_per_s / sent))
    sizes = [
        size_bytes / phase.source_rows
        for phase in measurement.phases
        if (size_bytes := fsum(load.size_bytes for load in phase.edges))
    ]
    if not sizes:
        return 0.0
    return hypot(root_mean_square(errors), spread(sizes))


def _sent_bytes(measurement: Measurement, phase: Phase) -> float:
    """Return the bytes between slots per second of a phase."""
    loads = {load.edge: load for load in phase.edges}
    sent = fsum(
        loads[edge.id].size_bytes + loads[edge.id].batches * edge.frame_bytes
        for edge in measurement.edges
        if edge.remote
    )
    return sent * remote_share(phase.parallelism) / phase.seconds


def _state_error(measurement: Measurement, rows: float, growth: float) -> float:
    if not measurement.states:
        return 0.0
    if measurement.state_error is None or not measurement.state_rows:
        return LARGEST
    doublings = max(0.0, log2(rows / measurement.state_rows)) if rows > 0 and growth > 1 else 0.0
    # State cannot grow by more than its rows, so growth limits the effect of the doublings.
    extrapolated = min(doublings, log2(max(growth, 1.0)))
    if measurement.state_on_disk or any(state.lifetime_ms for state in measurement.states):
        # A checkpoint on disk does not show how many keys it has, and one of windows not all of them.
        extrapolated += 1
    return hypot(measurement.state_error * extrapolated, log(EXACT))
