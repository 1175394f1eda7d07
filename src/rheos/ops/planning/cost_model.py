"""Costs of a job's chains, fitted to the phases of a sample. Pure.

The processor time of a chain is the sum of several parts:

    row_us * rows + remote_us * rows from or to other slots
        + batch_us * batches that it processes + send_us * batches that it sends

The fixed cost of a batch is the reason why a row costs more in small batches. A function that is
compiled for large batches has another cost per row in small ones (`interpreted_us`). The fit minimises
the squared relative error over all phases, with no cost below zero.

A slot that waits for rows has a cost in addition (`WakingCost`). `fitting` fits both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from rheos.core.task.config import TaskConfig
from rheos.ops.planning.measurement import CostedChain, ExchangedEdge, Measurement, Phase


@dataclass(frozen=True)
class ChainWork:
    """Quantities that the processor time of a chain depends on."""

    rows: float
    remote_rows: float
    """Rows that come from other slots, or go to them."""
    batches: float
    sent_batches: float
    interpreted_rows: float = 0.0
    """Rows of a compiled chain for which its functions are interpreted; not part of `rows`."""


@dataclass(frozen=True)
class ChainCost:
    """Processor time of a chain in µs, and its number of rows."""

    chain: CostedChain
    row_us: float
    remote_us: float
    """Additional cost of a row that comes from another slot, or goes to one."""
    batch_us: float
    """Fixed cost of a batch that the chain receives or, for a source, reads."""
    send_us: float
    """Fixed cost of a batch that the chain sends to another one."""
    rows_per_source_row: float
    interpreted_us: float = 0.0
    """Cost of a row for which the functions of a compiled chain are interpreted."""

    def us(self, work: ChainWork) -> float:
        return (
            self.row_us * work.rows
            + self.remote_us * work.remote_rows
            + self.batch_us * work.batches
            + self.send_us * work.sent_batches
            + self.interpreted_us * work.interpreted_rows
        )


@dataclass(frozen=True)
class EdgeCost:
    """Traffic of an edge, per row of the sources."""

    edge: ExchangedEdge
    rows_per_source_row: float
    """Rows that one receiver or, without broadcast, all receivers get."""
    bytes_per_row: float
    fill: float
    """Size of the edge's batches at full load, relative to the size that the settings permit."""


@dataclass(frozen=True)
class WakingWork:
    """Quantities that the cost of waiting and waking depends on, per second over all slots."""

    polls: float
    """Times at which a source is asked for rows after a pause."""
    batches: float
    """Batches that are sent. Each wakes its receiver."""
    slots: float


NO_PAUSES = WakingWork(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class WakingCost:
    """Processor time in µs of slots that wait for rows most of the time, in addition to the costs of
    chains. After a pause, code and data are no longer in the caches of the processor."""

    poll_us: float = 0.0
    batch_us: float = 0.0
    slot_us: float = 0.0
    """Cost of a slot per second, also without any row, such as for reports of metrics."""

    def us(self, work: WakingWork) -> float:
        return self.poll_us * work.polls + self.batch_us * work.batches + self.slot_us * work.slots


@dataclass(frozen=True)
class CostModel:
    """The fitted costs of a job."""

    measurement: Measurement
    chains: tuple[ChainCost, ...]
    edges: tuple[EdgeCost, ...]
    error: float
    """Relative error of the fit: the root mean square, over all phases, of the job's whole cost."""
    waking: WakingCost = WakingCost()


def fit_full_load(measurement: Measurement) -> CostModel:
    """Return the costs that fit the phases of a measurement at full load best, without `waking`."""
    phases = measurement.phases
    edges = tuple(_edge_cost(edge, phases) for edge in measurement.edges)
    chains = tuple(_chain_cost(chain, measurement) for chain in measurement.chains)
    errors = [phase_error(phase, chains, measurement.edges) for phase in phases]
    return CostModel(measurement, chains, edges, sqrt(sum(e * e for e in errors) / len(errors)))


def channel_rows(receivers: int, batch_rows: int, rows_per_s: float, timeout_us: int | None) -> float:
    """Return the rows of an element on a channel.

    Args:
        receivers: Number of slots among which the sender distributes each batch.
        batch_rows: Maximum rows of a batch.
        rows_per_s: Rows per second that one slot sends on the edge.
        timeout_us: Buffer timeout in µs; None: buffers are only sent when full.
    """
    full = max(batch_rows / receivers, TaskConfig(batch_rows=batch_rows).full_rows(receivers))
    if timeout_us is None:
        return float(full)
    return max(1.0, min(full, rows_per_s * timeout_us / 1e6 / receivers))


def group_share(parallelism: int, groups: int) -> float:
    """Return the share of all key groups that the slot with the most groups owns."""
    return ceil(groups / parallelism) / groups


def remote_share(parallelism: int) -> float:
    """Return the share of exchanged rows that leave their slot."""
    return (parallelism - 1) / parallelism


def nonnegative_costs(shares: npt.NDArray[np.float64]) -> list[float]:
    """Return the costs, none below zero, whose parts of each phase's time sum up to nearly 1.

    `shares` has a row for each phase, and a column for each kind of cost. Of two sets of costs that fit
    equally well, the one with fewer kinds of cost is chosen.
    """
    count = shares.shape[1]
    best, best_error = [0.0] * count, float("inf")
    for size in range(1, min(count, len(shares)) + 1):
        for columns in map(list, combinations(range(count), size)):
            costs = np.linalg.lstsq(shares[:, columns], np.ones(len(shares)))[0]
            error = float(np.square(shares[:, columns] @ costs - 1).sum())
            if costs.min() >= 0 and error < best_error - 1e-12:
                best, best_error = [0.0] * count, error
                for column, cost in zip(columns, costs.tolist(), strict=True):
                    best[column] = cost
    return best


def phase_error(phase: Phase, chains: Sequence[ChainCost], edges: Sequence[ExchangedEdge]) -> float:
    """Return the relative error of a job's whole cost in a phase."""
    measured_us = sum(load.cpu_us for load in phase.chains)
    fitted_us = sum(cost.us(_work(phase, cost.chain, edges)) for cost in chains)
    return fitted_us / measured_us - 1 if measured_us else 0.0


# --- the fit ----------------------------------------------------------------------------------------


def _edge_cost(edge: ExchangedEdge, phases: Sequence[Phase]) -> EdgeCost:
    rows = size_bytes = source_rows = 0.0
    fills = []
    for phase in phases:
        load = next(load for load in phase.edges if load.edge == edge.id)
        copies = phase.parallelism if edge.broadcast else 1
        rows += load.rows / copies
        size_bytes += load.size_bytes / copies
        source_rows += phase.source_rows
        if load.batches:
            receivers = phase.parallelism if edge.remote and not edge.broadcast else 1
            full = channel_rows(receivers, phase.batch_rows, 0.0, None)
            fills.append(load.rows / load.batches / full)
    fill = min(1.0, sum(fills) / len(fills)) if fills else 1.0
    return EdgeCost(edge, rows / source_rows, size_bytes / rows if rows else 0.0, fill)


def _chain_cost(chain: CostedChain, measurement: Measurement) -> ChainCost:
    features, spent_us, rows = [], [], 0.0
    for phase in measurement.phases:
        load = next(load for load in phase.chains if load.chain == chain.id)
        rows += load.rows
        if load.cpu_us > 0:
            features.append(astuple(_work(phase, chain, measurement.edges)))
            spent_us.append(load.cpu_us)
    costs = [0.0] * 5
    if spent_us:
        costs = nonnegative_costs(np.array(features) / np.array(spent_us)[:, None])
    source_rows = sum(phase.source_rows for phase in measurement.phases)
    row_us, remote_us, batch_us, send_us, interpreted_us = costs
    return ChainCost(chain, row_us, remote_us, batch_us, send_us, rows / source_rows, interpreted_us)


def _work(phase: Phase, chain: CostedChain, edges: Sequence[ExchangedEdge]) -> ChainWork:
    """Return the work of a chain in a phase."""
    rows = next(load.rows for load in phase.chains if load.chain == chain.id)
    traffic = {load.edge: load for load in phase.edges}
    inputs = [edge for edge in edges if edge.target == chain.id]
    outputs = [edge for edge in edges if edge.source == chain.id]
    exchanged = sum(traffic[edge.id].rows for edge in (*inputs, *outputs) if edge.remote)
    batches = sum(traffic[edge.id].batches for edge in inputs)
    interpreted = rows if chain.compiled and phase.interpreted else 0.0
    return ChainWork(
        rows - interpreted,
        exchanged * remote_share(phase.parallelism),
        batches if inputs else rows / phase.batch_rows,
        sum(traffic[edge.id].batches for edge in outputs),
        interpreted,
    )
