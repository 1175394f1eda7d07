"""Measurements of a phase, computed from two reports of the job's metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.ops.planning.key_counts import COUNTED, HEAVIEST
from rheos.ops.planning.measurement import ChainLoad, EdgeLoad, OperatorState, Phase
from rheos.ops.planning.sampled_plan import counted_edge

_LEAST_GROWTH = 0.02
"""Growth of state in the second half of the sample, relative to its size, that is not by chance."""

Values = Mapping[tuple[str, ...], float]


def values_of(report: MetricsReport, metric: Metric) -> dict[tuple[str, ...], float]:
    """Return the readings of a metric by their labels, without histograms."""
    return {r.at: r.value for r in report.of(metric) if not isinstance(r.value, Accumulated)}


def growth(
    before: MetricsReport | None, after: MetricsReport, metric: Metric
) -> dict[tuple[str, ...], float]:
    """Return the growth of a counter by its labels. `before` is None for the start of the attempt."""
    earlier = {} if before is None else values_of(before, metric)
    return {at: value - earlier.get(at, 0.0) for at, value in values_of(after, metric).items()}


def phase_of(
    before: MetricsReport | None,
    after: MetricsReport,
    parallelism: int,
    batch_rows: int,
    seconds: float,
) -> Phase:
    """Return the work between two reports of one attempt.

    The processor time of a worker is divided among its chains in proportion to their busy times. So it
    includes the threads that read, send and receive.
    """
    cpu = growth(before, after, f.CPU)
    busy = growth(before, after, f.BUSY)
    spent_us: dict[str, float] = dict.fromkeys(after.chains, 0.0)
    for (slot,), cpu_ms in cpu.items():
        in_slot = {chain: ms for (chain, subtask), ms in busy.items() if subtask == slot}
        total = fsum(in_slot.values())
        for chain, ms in in_slot.items():
            spent_us[chain] += cpu_ms * 1000 * ms / total if total else 0.0
    rows_in = _by_first(growth(before, after, f.ROWS_IN))
    rows_out = _by_first(growth(before, after, f.ROWS_OUT))
    sources = {operators[0] for chain, operators in after.chains.items() if _is_source(after, chain)}
    sent = [_by_first(growth(before, after, m)) for m in (f.SENT_ROWS, f.SENT_BATCHES, f.SENT_BYTES)]
    return Phase(
        parallelism=parallelism,
        batch_rows=batch_rows,
        seconds=seconds,
        source_rows=fsum(rows_out.get(source, 0.0) for source in sources),
        chains=tuple(
            ChainLoad(
                int(chain),
                (rows_out if operators[0] in sources else rows_in).get(operators[0], 0.0),
                spent_us[chain],
            )
            for chain, operators in after.chains.items()
        ),
        edges=tuple(
            EdgeLoad(int(edge), *(each.get(edge, 0.0) for each in sent)) for edge in after.edges
        ),
    )


def busy_share(before: MetricsReport | None, after: MetricsReport, seconds: float) -> float:
    """Return the share of the time in which the busiest slot worked."""
    return max(growth(before, after, f.SLOT_BUSY).values(), default=0.0) / 1000 / seconds


def heaviest_share(report: MetricsReport) -> float | None:
    """Return the largest share of the rows of an edge that have the same key; None without a keyed
    edge. Each slot counts alone, so that the sum of their heaviest keys is an upper bound."""
    counts: dict[tuple[int, str], float] = {}
    for reading in report.of(f.COUNTER):
        operator, name, _ = reading.at
        edge = counted_edge(operator)
        if edge is not None and not isinstance(reading.value, Accumulated):
            counts[edge, name] = counts.get((edge, name), 0.0) + reading.value
    shares = [
        counts.get((edge, HEAVIEST), 0.0) / rows
        for (edge, name), rows in counts.items()
        if name == COUNTED and rows
    ]
    return max(shares, default=None)


def states_of(
    early: MetricsReport | None, late: MetricsReport, lifetimes: Mapping[str, int]
) -> tuple[OperatorState, ...]:
    """Return the state of each operator, and its growth between two reports.

    Args:
        early: Report after an early checkpoint; None if there was only one.
        late: Report after the last checkpoint.
        lifetimes: Times in ms after which operators drop state, by the id of the operator.
    """
    size = _by_first(values_of(late, f.STATE_BYTES))
    keys = _by_first(values_of(late, f.KEYS))
    before = {} if early is None else _by_first(values_of(early, f.STATE_BYTES))
    rows = source_rows(late) - (0.0 if early is None else source_rows(early))
    return tuple(
        OperatorState(
            operator=late.operators[id],
            size_bytes=size_bytes,
            keys=keys.get(id),
            growth_bytes_per_row=_growth_per_row(before.get(id), size_bytes, rows),
            lifetime_ms=lifetimes.get(id),
        )
        for id, size_bytes in size.items()
        if size_bytes and not _is_head_of_source(late, id) and counted_edge(id) is None
    )


def _growth_per_row(before: float | None, size_bytes: float, rows: float) -> float:
    """Return the growth of state per row; 0 if it is unknown, or too small to be more than chance."""
    if before is None or rows <= 0 or size_bytes - before < size_bytes * _LEAST_GROWTH:
        return 0.0
    return (size_bytes - before) / rows


def source_rows(report: MetricsReport) -> float:
    """Return the rows that all sources have emitted."""
    out = _by_first(values_of(report, f.ROWS_OUT))
    heads = (ops[0] for chain, ops in report.chains.items() if _is_source(report, chain))
    return fsum(out.get(head, 0.0) for head in heads)


def total(report: MetricsReport, metric: Metric) -> float:
    """Return the sum of a metric's readings."""
    return fsum(values_of(report, metric).values())


def _is_source(report: MetricsReport, chain: str) -> bool:
    return all(target != chain for _, target in report.edges.values())


def _is_head_of_source(report: MetricsReport, operator: str) -> bool:
    return any(
        operators[0] == operator and _is_source(report, chain)
        for chain, operators in report.chains.items()
    )


def _by_first(values: Values) -> dict[str, float]:
    """Return the sums of all slots, by the first label."""
    sums: dict[str, float] = {}
    for at, value in values.items():
        sums[at[0]] = sums.get(at[0], 0.0) + value
    return sums
