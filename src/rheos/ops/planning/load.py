"""The predicted load of a job with a number of slots, at a rate. Pure.

The hottest slot limits a job. It is the slot with the most key groups, the heaviest key and the most
splits, as if these were always in the same slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf

from rheos.core.operators.form_choice import LARGE_BATCH
from rheos.core.operators.form_costs import MARGIN
from rheos.core.task.config import TaskConfig
from rheos.ops.planning.cost_model import (
    NO_PAUSES,
    ChainCost,
    ChainWork,
    CostModel,
    WakingWork,
    channel_rows,
    group_share,
    remote_share,
)
from rheos.ops.planning.measurement import CostedChain

_CORE_US = 1_000_000.0
"""Processor time of a core per second, in µs. A slot has one core."""
_STEPS = 60
"""Steps of the search for the highest rate; each halves the interval."""


@dataclass(frozen=True)
class JobLoad:
    """Prediction for a number of slots and a rate."""

    slots: int
    rate: float
    """Rows per second that all sources emit."""
    chains: Mapping[int, float]
    """Processor time in µs per second of each chain in the hottest slot, by its id."""
    total_us: float
    """Processor time in µs per second of all slots together."""
    timeout_us: int | None = None
    """Buffer timeout in µs; None: buffers are only sent when full."""
    elements: Mapping[int, float] = field(default_factory=dict)
    """Rows of an element on each edge, by its id."""
    network_bytes_per_s: float = 0.0
    """Bytes per second that leave a slot for another one, over all slots."""
    compiled: bool = False
    """Whether compiled functions run. Python runs small batches, and functions that it runs faster."""
    waking: WakingWork = NO_PAUSES
    """Pauses of the slots. A slot that works all the time has fewer."""
    waking_us: float = 0.0
    """Processor time in µs per second of each slot for its pauses; part of `total_us`."""

    @property
    def busy(self) -> float:
        """Return the share of a core that the hottest slot uses. Above 1, the rate is impossible."""
        return (sum(self.chains.values()) + self.waking_us) / _CORE_US

    @property
    def limiting_chain(self) -> int | None:
        """Return the id of the chain that uses most time in the hottest slot; None without chains."""
        return max(self.chains, key=lambda id: self.chains[id], default=None)


def load_at(model: CostModel, slots: int, rate: float, timeout_us: int | None) -> JobLoad:
    """Return the load of a job.

    Args:
        model: Costs of the job.
        slots: Its parallelism.
        rate: Rows per second that all sources emit.
        timeout_us: Buffer timeout in µs; None: buffers are only sent when full.
    """
    batch_rows = model.measurement.batch_rows
    elements: dict[int, float] = {}
    passed: dict[int, float] = {}
    network = 0.0
    for cost in model.edges:
        receivers = slots if cost.edge.remote and not cost.edge.broadcast else 1
        passed[cost.edge.id] = cost.rows_per_source_row * rate * (slots if cost.edge.broadcast else 1)
        senders = _slots_of(_chain(model, cost.edge.source), slots)
        # A full batch of an edge has the share `fill` of the permitted size, as in the sample.
        full = channel_rows(receivers, batch_rows, 0.0, None) * cost.fill
        waiting = channel_rows(receivers, batch_rows, passed[cost.edge.id] / senders, timeout_us)
        elements[cost.edge.id] = max(1.0, min(full, waiting))
        if cost.edge.remote:
            row_bytes = cost.bytes_per_row + cost.edge.frame_bytes / elements[cost.edge.id]
            network += passed[cost.edge.id] * row_bytes * remote_share(slots)
    hot: dict[int, float] = {}
    total, compiled = 0.0, False
    for chain in model.chains:
        work = _chain_work(model, chain, slots, rate, passed, elements, timeout_us)
        compiled |= chain.chain.compiled and work.rows > 0
        us = chain.us(work)
        total += us
        hot[chain.chain.id] = us * hot_share(model, chain.chain, slots)
    waking = _waking_work(model, slots, rate, passed, elements, timeout_us)
    # A slot pauses only while it is idle.
    idle = max(0.0, 1 - total / slots / _CORE_US)
    waking_us = min(model.waking.us(waking) / slots, _CORE_US) * idle
    total += waking_us * slots
    return JobLoad(slots, rate, hot, total, timeout_us, elements, network, compiled, waking, waking_us)


def max_rate(model: CostModel, slots: int) -> float:
    """Return the rate in rows per second at which the hottest slot uses a whole core. It is infinite if
    the job costs nothing. A slot without idle time sends full batches, whatever the buffer timeout."""
    low, high = 0.0, 1.0
    while load_at(model, slots, high, None).busy <= 1:
        low, high = high, high * 2
        if high > 1e15:
            return inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if load_at(model, slots, middle, None).busy <= 1:
            low = middle
        else:
            high = middle
    return low


def hot_share(model: CostModel, chain: CostedChain, slots: int) -> float:
    """Return the share of a chain's work that the hottest slot does."""
    share = 1 / _slots_of(chain, slots)
    if chain.splits:
        share = max(share, ceil(chain.splits / slots) / chain.splits)
    if chain.keyed:
        share = max(share, group_share(slots, model.measurement.max_parallelism))
        heaviest = model.measurement.heaviest_key_share or 0.0
        share = max(share, heaviest + (1 - heaviest) / slots)
    return min(share, 1.0)


# --- parts ------------------------------------------------------------------------------------------


def _chain(model: CostModel, id: int) -> CostedChain:
    return next(cost.chain for cost in model.chains if cost.chain.id == id)


def _slots_of(chain: CostedChain, slots: int) -> int:
    """Return the number of slots in which the chain has rows."""
    limits = [limit for limit in (chain.widest, chain.splits) if limit]
    return max(1, min([slots, *limits]))


def _chain_work(
    model: CostModel,
    cost: ChainCost,
    slots: int,
    rate: float,
    passed: Mapping[int, float],
    elements: Mapping[int, float],
    timeout_us: int | None,
) -> ChainWork:
    """Return the work of a chain in all slots, per second."""
    id = cost.chain.id
    inputs = [each.edge for each in model.edges if each.edge.target == id]
    outputs = [each.edge for each in model.edges if each.edge.source == id]
    remote = sum(passed[edge.id] for edge in (*inputs, *outputs) if edge.remote)
    rows = sum(passed[edge.id] for edge in inputs)
    batches = sum(passed[edge.id] / elements[edge.id] for edge in inputs)
    if not inputs:
        rows = cost.rows_per_source_row * rate
        per_slot = rows / _slots_of(cost.chain, slots)
        batches = rows / channel_rows(1, model.measurement.batch_rows, per_slot, timeout_us)
    sent = sum(passed[edge.id] / elements[edge.id] for edge in outputs)
    # Python runs small batches, and functions whose compiled form is slower.
    is_slower = 0 < MARGIN * cost.interpreted_us < cost.row_us
    by_python = cost.chain.compiled and (is_slower or rows < LARGE_BATCH * batches)
    interpreted = rows if by_python else 0.0
    return ChainWork(rows - interpreted, remote * remote_share(slots), batches, sent, interpreted)


def _waking_work(
    model: CostModel,
    slots: int,
    rate: float,
    passed: Mapping[int, float],
    elements: Mapping[int, float],
    timeout_us: int | None,
) -> WakingWork:
    """Return the pauses of all slots per second. Without a buffer timeout, slots do not pause."""
    if timeout_us is None:
        return NO_PAUSES
    interval_us = TaskConfig(buffer_timeout_us=timeout_us).poll_interval_us(bounded=False)
    targets = {cost.edge.target for cost in model.edges}
    polls = 0.0
    for cost in model.chains:
        if cost.chain.id not in targets:
            readers = _slots_of(cost.chain, slots)
            polls += min(cost.rows_per_source_row * rate, readers * 1e6 / interval_us)
    batches = sum(passed[id] / rows for id, rows in elements.items())
    return WakingWork(polls, batches, slots)
