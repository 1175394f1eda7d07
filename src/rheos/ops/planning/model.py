"""From measured costs and a target to a plan: slots, memory, disk, network, checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, inf

from rheos.core.task.config import TaskConfig
from rheos.ops.planning.certainty import errors_of, memory_phases
from rheos.ops.planning.checkpoint_sizes import USUAL_STATE_MEMORY_BYTES, checkpoint_sizes
from rheos.ops.planning.cost_model import CostModel
from rheos.ops.planning.intervals import NOTHING, ExpectedRange, around
from rheos.ops.planning.latency import Latency, latency_of
from rheos.ops.planning.load import JobLoad, hot_share, load_at, max_rate
from rheos.ops.planning.measurement import Measurement
from rheos.ops.planning.state_growth import state_after

_WAITING_BATCHES = TaskConfig().credits
"""Number of batches of each channel that may wait."""
_USUAL_TIMEOUT_US = 10_000
_LEAST_TIMEOUT_US = 500
_SMALL_BATCHES = 4.0
"""Ratio to the smallest batches of the sample below which smaller batches are extrapolated."""
_MOST_HELD = 2.0
"""Maximum ratio of the memory of state to the predicted one, if its size is known."""
_BUSY_MACHINE = 0.2
"""Share of the slots' working time that they may wait for a core in the sample."""


@dataclass(frozen=True)
class PlanTarget:
    """The load to plan for."""

    rate: float
    """Rows per second that all sources emit."""
    latency_ms: float | None = None
    """Maximum latency of 99 % of the rows; None: any."""
    busy: float = 0.7
    """Maximum share of a core that a slot uses at this rate. The rest is for catching up."""
    after_ms: int = 86_400_000
    """Time for which growing state is planned."""


@dataclass(frozen=True)
class PlanIntervals:
    """The values between which nine of ten measured values of each quantity are expected."""

    busy: ExpectedRange
    """Share of a core that the busiest slot uses."""
    processor_us: ExpectedRange
    """Processor time in µs per second of all slots together."""
    max_rate: ExpectedRange
    latency_ms: ExpectedRange
    state_bytes: ExpectedRange
    checkpoint_bytes: ExpectedRange
    memory_bytes_per_slot: ExpectedRange
    disk_bytes_per_slot: ExpectedRange
    network_bytes_per_s: ExpectedRange
    checkpoint_store_bytes: ExpectedRange
    checkpoint_bytes_per_s: ExpectedRange


@dataclass(frozen=True)
class CapacityPlan:
    """The resources that a job needs."""

    target: PlanTarget
    slots: int
    feasible: bool
    """Whether `slots` reach the target; if not, they come closest to it."""
    load: JobLoad
    max_rate: float
    """Rows per second with which the hottest slot would be fully used."""
    latency: Latency
    limit: str
    """Names of the operators that limit the job, and the reason."""
    state_bytes: float
    checkpoint_bytes: float
    """Average size of the state in a checkpoint, with the parts that it shares with earlier ones."""
    memory_bytes_per_slot: float
    disk_bytes_per_slot: float
    network_bytes_per_s: float
    """Traffic between slots, over all slots."""
    checkpoint_store_bytes: float
    checkpoint_bytes_per_s: float
    intervals: PlanIntervals
    doubts: tuple[str, ...]


def plan_for(model: CostModel, target: PlanTarget) -> CapacityPlan:
    """Return the plan with the fewest slots that reaches the target. If none does, return that with
    the highest rate, marked as not feasible."""
    candidates = range(1, model.measurement.max_parallelism + 1)
    for slots in candidates:
        if sufficient_load(model, target, slots) is not None:
            return plan_with(model, target, slots)
    rates = {slots: max_rate(model, slots) for slots in candidates}
    highest = max(rates.values())
    # More slots that add less than 1 % are not worth their price.
    return plan_with(model, target, next(n for n, rate in rates.items() if rate >= highest * 0.99))


def plan_with(model: CostModel, target: PlanTarget, slots: int) -> CapacityPlan:
    """Return the plan for a fixed number of slots, even if they do not reach the target."""
    measurement = model.measurement
    sufficient = sufficient_load(model, target, slots)
    load = sufficient
    if load is None:
        load = load_at(model, slots, target.rate, measurement.buffer_timeout_us)
    state = state_bytes(measurement, target)
    interval_ms = measurement.checkpoint_interval_ms
    sizes = checkpoint_sizes(measurement, target.rate, target.after_ms, slots)
    per_s = 0.0 if interval_ms is None else 1000 / interval_ms
    disk = sizes.local_bytes * _state_share(model, slots) if measurement.state_on_disk else 0.0
    stored = sizes.stored_bytes
    latency, rate = latency_of(model, load, state), max_rate(model, slots)
    sampled = fsum(each.size_bytes for each in measurement.states)
    errors = errors_of(
        model, load, target.rate * target.after_ms / 1000, state / sampled if sampled else 1.0
    )
    held, idle = _held_bytes(model, load, state), _worker_bytes(model, load)
    of_state = _state_interval(measurement, target, state, errors.state)
    shrinks, grows = (of_state.low / state, of_state.high / state) if state else (1.0, 1.0)
    worker = around(idle, errors.worker_memory)
    # The memory of state is at least its size. On disk, it is limited.
    least = min(held, of_state.low * _state_share(model, slots))
    most = held if measurement.state_on_disk else held * max(grows, _MOST_HELD)
    return CapacityPlan(
        target=target,
        slots=slots,
        feasible=sufficient is not None,
        load=load,
        max_rate=rate,
        latency=latency,
        limit=_limit(model, load),
        state_bytes=state,
        checkpoint_bytes=sizes.referred_bytes,
        memory_bytes_per_slot=idle + held,
        disk_bytes_per_slot=disk,
        network_bytes_per_s=load.network_bytes_per_s,
        checkpoint_store_bytes=stored,
        checkpoint_bytes_per_s=sizes.written_bytes * per_s,
        intervals=PlanIntervals(
            busy=around(load.busy, errors.costs),
            processor_us=around(load.total_us, errors.costs),
            max_rate=around(rate, errors.rate),
            latency_ms=latency.total,
            state_bytes=of_state,
            checkpoint_bytes=sizes.referred.times(shrinks, grows),
            memory_bytes_per_slot=ExpectedRange(worker.low + least, worker.high + most),
            disk_bytes_per_slot=ExpectedRange(disk * shrinks, disk * grows) if disk else NOTHING,
            network_bytes_per_s=around(load.network_bytes_per_s, errors.network),
            checkpoint_store_bytes=ExpectedRange(stored * shrinks, stored * grows),
            checkpoint_bytes_per_s=sizes.written.times(per_s).times(shrinks, grows),
        ),
        doubts=tuple(doubts_of(model, target, load, latency)),
    )


def sufficient_load(model: CostModel, target: PlanTarget, slots: int) -> JobLoad | None:
    """Return the load with a buffer timeout with which the slots reach the target; None if there is no
    such timeout. The configured one is preferred, then shorter ones, then longer ones."""
    state = state_bytes(model.measurement, target)
    for timeout_us in _timeouts_us(model.measurement.buffer_timeout_us):
        load = load_at(model, slots, target.rate, timeout_us)
        if load.busy <= target.busy and (
            target.latency_ms is None or latency_of(model, load, state).total_ms <= target.latency_ms
        ):
            return load
    return None


def _timeouts_us(configured: int | None) -> list[int | None]:
    base = _USUAL_TIMEOUT_US if configured is None else max(configured, _LEAST_TIMEOUT_US)
    shorter = [base >> shift for shift in range(1, 6) if base >> shift >= _LEAST_TIMEOUT_US]
    longer: list[int | None] = [base << shift for shift in range(1, 7)]
    return [configured, *shorter, *longer, None]


def state_bytes(measurement: Measurement, target: PlanTarget) -> float:
    """Return the size of all state at the target's rate, after the target's time."""
    return sum(
        state_after(measurement, state, target.rate, target.after_ms) for state in measurement.states
    )


def doubts_of(model: CostModel, target: PlanTarget, load: JobLoad, latency: Latency) -> list[str]:
    """Return everything that makes the plan less certain."""
    doubts = []
    wanted_ms = target.latency_ms
    if latency.total.high == inf:
        doubts.append("the sample has no latency markers, so the latency has no upper limit")
    elif wanted_ms is not None and latency.total_ms <= wanted_ms < latency.total.high:
        doubts.append(f"latencies varied so much in the sample that {wanted_ms:g} ms may be exceeded")
    measurement = model.measurement
    if model.error > 0.1:
        doubts.append(f"the model misses the sample's own phases by {model.error:.0%}")
    if load.slots > measurement.most_slots:
        doubts.append(
            f"the sample had at most {measurement.most_slots} slots, the plan has {load.slots}"
        )
    if _smaller_batches(model, load) > _SMALL_BATCHES:
        doubts.append("batches are much smaller at this rate than in the sample")
    waits = [each.core_wait for each in (*measurement.phases, *measurement.paced_phases)]
    waited = fsum(waits) / len(waits)
    if waited > _BUSY_MACHINE:
        doubts.append(
            f"the sample's machine was busy: slots waited for a core {waited:.0%} of their working time"
        )
    if any(
        state.growth_bytes_per_row > 0 and state.lifetime_ms is None for state in measurement.states
    ):
        doubts.append("state grew until the end of the sample, and its growth is extrapolated")
    if measurement.heaviest_key_share is None and any(chain.keyed for chain in measurement.chains):
        doubts.append("the share of the heaviest key is unknown")
    doubts.append("sinks discarded their rows in the sample: the cost of writing is not included")
    return doubts


# --- parts ------------------------------------------------------------------------------------------


def _state_share(model: CostModel, slots: int) -> float:
    """Return the share of the state in the slot with most of it."""
    keyed = [cost.chain for cost in model.chains if cost.chain.keyed]
    return max((hot_share(model, chain, slots) for chain in keyed), default=1 / slots)


def _worker_bytes(model: CostModel, load: JobLoad) -> float:
    """Return the memory of a worker, without its state."""
    measurement = model.measurement
    if memory_phases(measurement, load) == measurement.paced_phases:
        return measurement.waiting_memory_bytes
    # The worker's memory in the sample has the buffers of exchanges at full load.
    sampled = load_at(model, measurement.most_slots, load.rate, None)
    buffers = max(0.0, _buffered_bytes(model, load) - _buffered_bytes(model, sampled))
    return measurement.worker_memory_bytes + buffers


def _held_bytes(model: CostModel, load: JobLoad, state: float) -> float:
    """Return the memory of the state in the slot with most of it."""
    measurement = model.measurement
    held = state * _state_share(model, load.slots) * measurement.memory_per_state_byte
    if measurement.state_on_disk:
        held = min(held, float(measurement.state_memory_bytes or USUAL_STATE_MEMORY_BYTES))
    return held


def _state_interval(
    measurement: Measurement, target: PlanTarget, state: float, error: float
) -> ExpectedRange:
    """Return the interval of the size of the state. The newest checkpoint may be as old as the time
    between two of them."""
    older_ms = max(0, target.after_ms - (measurement.checkpoint_interval_ms or 0))
    older = state_bytes(measurement, replace(target, after_ms=older_ms)) if older_ms else 0.0
    interval = around(state, error)
    return ExpectedRange(interval.low * (older / state if state else 1.0), interval.high)


def _buffered_bytes(model: CostModel, load: JobLoad) -> float:
    """Return the size of the rows that wait between a slot and all others, at most."""
    return sum(
        load.elements[cost.edge.id] * cost.bytes_per_row * load.slots * (1 + _WAITING_BATCHES)
        for cost in model.edges
        if cost.edge.remote
    )


def _smaller_batches(model: CostModel, load: JobLoad) -> float:
    """Return how many times smaller batches are than the smallest ones of the sample, on the edge
    where the ratio is largest."""
    ratios = [1.0]
    for cost in model.edges:
        measured = [
            each.rows / each.batches
            for phase in model.measurement.phases
            for each in phase.edges
            if each.edge == cost.edge.id and each.batches
        ]
        if measured:
            ratios.append(min(measured) / load.elements[cost.edge.id])
    return max(ratios)


def _limit(model: CostModel, load: JobLoad) -> str:
    """Return the chain that uses most time in the hottest slot, and the reason for its share."""
    id = load.limiting_chain
    if id is None:
        return "no operator"
    chain = next(cost.chain for cost in model.chains if cost.chain.id == id)
    part = load.chains[id] / (load.busy * 1e6) if load.busy else 0.0
    reason = "".join(f", {why}" for why in _reasons(model, load, id))
    return f"{chain.name} ({chain.site}): {part:.0%} of the busiest slot{reason}"


def _reasons(model: CostModel, load: JobLoad, id: int) -> Sequence[str]:
    chain = next(cost.chain for cost in model.chains if cost.chain.id == id)
    even = 1 / load.slots
    share = hot_share(model, chain, load.slots)
    if share <= even * 1.05:
        return []
    heaviest = model.measurement.heaviest_key_share or 0.0
    if chain.widest is not None and chain.widest < load.slots:
        return [f"which has rows in at most {chain.widest} slots"]
    if chain.splits and chain.splits < load.slots:
        return [f"which has only {chain.splits} splits"]
    if chain.keyed and heaviest + (1 - heaviest) * even >= share * 0.999:
        return [f"whose heaviest key has {heaviest:.0%} of the rows"]
    return ["whose key groups or splits do not divide evenly among the slots"]
