"""The predicted latency of a job's rows, and how it follows from a load. Pure.

A row waits in its source, which is polled in intervals, and for other rows in each later slot that
sends it. It waits for the elements before it in a queue, and a checkpoint pauses its slot. Threads that
wake late, and the collection of garbage, add a delay that cannot be computed. The phases of the sample
with slow sources measure it with latency markers, and it varies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from statistics import median

from rheos.core.task.config import TaskConfig
from rheos.ops.planning.cost_model import ChainWork, CostModel, EdgeCost, remote_share
from rheos.ops.planning.intervals import LARGEST, ExpectedRange, log_interval
from rheos.ops.planning.load import JobLoad, load_at
from rheos.ops.planning.measurement import Phase

_MB = 1_000_000.0
_DELAYED_SHARE = 0.01
"""Share of the rows that may exceed the predicted latency."""
_LEAST_MS = 0.5
"""Half of the resolution of latency markers."""


@dataclass(frozen=True)
class Latency:
    """Time from source to sink that 99 % of the rows stay below, in ms. For an impossible rate, it is
    infinite."""

    source_ms: float
    """Wait in the source until it is polled, which latency markers do not include."""
    path_ms: float
    """Time from the source's poll to the sink, as latency markers measure it."""
    path: ExpectedRange
    """Values between which `path_ms` is expected."""

    @property
    def total_ms(self) -> float:
        return self.source_ms + self.path_ms

    @property
    def total(self) -> ExpectedRange:
        """Return the values between which the whole latency is expected. Some rows do not wait in the
        source, but 1 % of them wait for nearly the whole time."""
        return ExpectedRange(self.source_ms + self.path.low, self.source_ms + self.path.high)


def latency_of(model: CostModel, load: JobLoad, state_bytes: float) -> Latency:
    """Return the latency of 99 % of the rows.

    Args:
        model: Costs of the job.
        load: Its load.
        state_bytes: Size of all its state.
    """
    source_ms = _source_wait_ms(load)
    if load.busy >= 1:
        return Latency(source_ms, inf, ExpectedRange(inf, inf))
    waits_ms, pause_ms = _waits_ms(model, load), _pause_ms(model, load, state_bytes)
    service_ms = _service_ms(model, load)
    middle, delay = _delay_ms(model, load)
    low, path, high = (
        waits_ms + (service_ms + each) / (1 - load.busy) for each in (delay.low, middle, delay.high)
    )
    # The longest pause of the sample is the measured one, and others may be shorter.
    return Latency(source_ms, path + pause_ms, ExpectedRange(low, high + pause_ms))


def exchanges(model: CostModel) -> int:
    """Return the largest number of exchanges between slots on a way from a source to a sink."""
    depth: dict[int, int] = {}
    # Edges lead to later chains, except those back to the head of a loop, which count once.
    for edge in sorted((cost.edge for cost in model.edges), key=lambda edge: edge.source):
        if edge.target > edge.source:
            found = depth.get(edge.source, 0) + edge.remote
            depth[edge.target] = max(depth.get(edge.target, 0), found)
    return max(depth.values(), default=0)


# --- parts ------------------------------------------------------------------------------------------


def _source_wait_ms(load: JobLoad) -> float:
    if load.timeout_us is None:
        return 0.0
    return TaskConfig(buffer_timeout_us=load.timeout_us).poll_interval_us(bounded=False) / 1000


def _waits_ms(model: CostModel, load: JobLoad) -> float:
    """Return the time in which a row waits for others on its way, after the source has returned it."""
    if load.timeout_us is None:
        return sum(_fill_ms(model, load, cost) for cost in model.edges if cost.edge.remote)
    hops = max(1, exchanges(model))
    # The rows of a source have already waited there.
    return max(0.0, hops * load.timeout_us / 1000 - _source_wait_ms(load))


def _service_ms(model: CostModel, load: JobLoad) -> float:
    return sum(_element_us(model, load, cost) for cost in model.edges) / 1000


def _pause_ms(model: CostModel, load: JobLoad, state_bytes: float) -> float:
    """Return the time in which a checkpoint delays 99 % of the rows. Of a pause, the rows of the last
    hundredth of the interval may be later."""
    measurement = model.measurement
    if measurement.checkpoint_interval_ms is None:
        return 0.0
    pause_ms = measurement.sync_us_per_mb * state_bytes / load.slots / _MB / 1000
    return max(0.0, pause_ms - _DELAYED_SHARE * measurement.checkpoint_interval_ms)


def _delay_ms(model: CostModel, load: JobLoad) -> tuple[float, ExpectedRange]:
    """Return the delay that nothing else explains, and the values between which it is expected.

    The delay is that of the phases with the closest rate and, of these, the closest number of slots.
    The others show how much delays differ between runs.
    """
    measured = [phase for phase in model.measurement.paced_phases if phase.latency_ms is not None]
    if not measured:
        return 0.0, ExpectedRange(0.0, LARGEST)
    rates = [_distance(phase.source_rows / phase.seconds, load.rate) for phase in measured]
    # Rates of phases are measured, and so not exactly equal.
    near = [phase for phase, each in zip(measured, rates, strict=True) if each < min(rates) + log(2)]
    slots = min((phase.parallelism for phase in near), key=lambda count: _distance(count, load.slots))
    delays = [_measured_delay_ms(model, part) for phase in measured for part in phase.parts or (phase,)]
    middle = median(_measured_delay_ms(model, phase) for phase in near if phase.parallelism == slots)
    return middle, log_interval(middle, delays)


def _measured_delay_ms(model: CostModel, phase: Phase) -> float:
    rate = phase.source_rows / phase.seconds
    load = load_at(model, phase.parallelism, rate, model.measurement.buffer_timeout_us)
    late_ms = (phase.latency_ms or 0.0) - _waits_ms(model, load)
    return max(late_ms * (1 - min(load.busy, 1.0)) - _service_ms(model, load), _LEAST_MS)


def _distance(one: float, other: float) -> float:
    return abs(log(max(one, 1e-9) / max(other, 1e-9)))


def _element_us(model: CostModel, load: JobLoad, cost: EdgeCost) -> float:
    """Return the time in which the receiver of an edge processes one element."""
    receiver = next(each for each in model.chains if each.chain.id == cost.edge.target)
    rows = load.elements[cost.edge.id]
    remote = rows * remote_share(load.slots) if cost.edge.remote else 0.0
    return receiver.us(ChainWork(rows, remote, 1.0, 0.0))


def _fill_ms(model: CostModel, load: JobLoad, cost: EdgeCost) -> float:
    """Return the time in which a buffer becomes full, if nothing else sends it."""
    per_channel = cost.rows_per_source_row * load.rate / load.slots**2
    return load.elements[cost.edge.id] / per_channel * 1000 if per_channel > 0 else 0.0
