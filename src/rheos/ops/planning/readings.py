"""Measurements of a phase, computed from two reports of the job's metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from statistics import fmean

from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.accumulators import Accumulated
from rheos.ops.planning.key_counts import COUNTED, DISTINCT, HEAVIEST
from rheos.ops.planning.measurement import ChainLoad, EdgeLoad, KeyCurve, OperatorState, Phase
from rheos.ops.planning.sampled_plan import counted_edge
from rheos.ops.planning.state_growth import StateSize, fitted_growth, total_keys

Values = Mapping[tuple[str, ...], float]

COMPILED_ROWS = "compiled_rows"
"""Counter of the rows for which an operator has called its compiled function."""
_ROWS_OF_KEY = 3.0
"""Rows of each key from which a checkpoint of state on disk is expected to change nearly all keys."""
_FEWER = 0.75
"""Ratio of rows in a state to arrived rows, up to which the state does not have each of these."""
_WHOLE = 0.98
"""Share of the state in a checkpoint from which the checkpoint wrote all of it."""
EXACT = 1.05
"""Relative error of a number of keys."""


@dataclass(frozen=True)
class StateLifetime:
    """Times of the windows of an operator, in ms."""

    lifetime_ms: int
    """Time from the start of a window until its state is deleted."""
    pane_ms: int | None = None
    """Time in which all rows of a key share one row of the state; None: each input row has its own."""


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
        busy_ms = fsum(in_slot.values())
        for chain, ms in in_slot.items():
            spent_us[chain] += cpu_ms * 1000 * ms / busy_ms if busy_ms else 0.0
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
        memory_bytes=max(values_of(after, f.MEMORY).values(), default=0.0),
        total_rows=source_rows(after),
        cpu_us=fsum(cpu.values()) * 1000,
        core_wait=core_wait_share(before, after),
        latency_ms=latency_ms(before, after),
    )


def latency_ms(before: MetricsReport | None, after: MetricsReport) -> float | None:
    """Return the latency that 99 % of the markers between two reports stayed below, on the slowest path
    from a source to a sink; None without markers."""
    earlier, later = ({} if each is None else _latencies(each) for each in (before, after))
    found = [
        taken.since(earlier.get(path, Accumulated())).quantile(0.99) for path, taken in later.items()
    ]
    return max((each for each in found if each is not None), default=None)


def compiled_chains(report: MetricsReport) -> set[int]:
    """Return the chains with an operator that has called compiled functions."""
    operators = {reading.at[0] for reading in report.of(f.COUNTER) if reading.at[1] == COMPILED_ROWS}
    return {int(chain) for chain, names in report.chains.items() if operators.intersection(names)}


def elapsed_s(before: MetricsReport, after: MetricsReport) -> float:
    """Return the time in s between the reports of slots that two reports of the job contain, on
    average. These are up to one interval older than the job's reports."""
    newest, oldest = (
        report.at_ms - fmean(values_of(report, f.REPORT_AGE).values() or [0.0])
        for report in (after, before)
    )
    return (newest - oldest) / 1000


def busy_share(before: MetricsReport | None, after: MetricsReport, seconds: float) -> float:
    """Return the share of the time in which the busiest slot worked."""
    return max(growth(before, after, f.SLOT_BUSY).values(), default=0.0) / 1000 / seconds


def core_wait_share(before: MetricsReport | None, after: MetricsReport) -> float:
    """Return the share of the slots' working time in which they waited for a core."""
    busy_ms = fsum(growth(before, after, f.SLOT_BUSY).values())
    waited_ms = fsum(growth(before, after, f.CORE_WAIT).values())
    return min(1.0, waited_ms / busy_ms) if busy_ms else 0.0


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


def key_curves(report: MetricsReport, earlier: Sequence[MetricsReport] = ()) -> tuple[KeyCurve, ...]:
    """Return the numbers of different keys that the counters of the sample found, for each keyed edge.

    Each slot counts the keys of its own rows, so the numbers of all slots are averaged. Operators that
    know their number of keys add later points.

    Args:
        report: Last report of the sample.
        earlier: Earlier reports, in order.
    """
    found: dict[int, dict[int, list[float]]] = {}
    for reading in report.of(f.COUNTER):
        operator, name, _ = reading.at
        edge = counted_edge(operator)
        if edge is None or isinstance(reading.value, Accumulated) or not name.startswith(DISTINCT):
            continue
        level = int(name.removeprefix(DISTINCT))
        found.setdefault(edge, {}).setdefault(level, []).append(reading.value)
    sent = _by_first(values_of(report, f.SENT_ROWS))
    rows = source_rows(report)
    curves = []
    for edge, levels in found.items():
        per_source_row = sent.get(str(edge), 0.0) / rows if rows else 0.0
        if per_source_row:
            in_order = sorted(levels)
            points = [(2.0**level / per_source_row, fmean(levels[level])) for level in in_order]
            for each in (*earlier, report):
                at, keys = source_rows(each), _keys_after(each, edge)
                if keys and at > points[-1][0] * 1.5:
                    points.append((at, keys))
            curves.append(
                KeyCurve(
                    edge, tuple(at for at, _ in points), tuple(accumulate((k for _, k in points), max))
                )
            )
    return tuple(curves)


def _keys_after(report: MetricsReport, edge: int) -> float:
    """Return the largest number of keys that an operator of the edge's target holds, if no other edge
    leads there; 0 if none knows it."""
    target = report.edges[str(edge)][1]
    if sum(each == target for _, each in report.edges.values()) > 1:
        return 0.0
    keys = _by_first(values_of(report, f.KEYS))
    return max((keys.get(operator, 0.0) for operator in report.chains[target]), default=0.0)


def states_of(
    early: MetricsReport | None,
    late: MetricsReport,
    lifetimes: Mapping[str, StateLifetime],
    curves: Sequence[KeyCurve] = (),
) -> tuple[OperatorState, ...]:
    """Return the state of each operator, and its growth between two reports.

    Args:
        early: Report after an early checkpoint; None if there was only one.
        late: Report after the last checkpoint.
        lifetimes: Lifetimes of state, by the id of the operator.
        curves: Numbers of keys of the keyed edges.
    """
    size = _by_first(values_of(late, f.STATE_BYTES))
    entries = _by_first(values_of(late, f.STATE_ROWS))
    keys = _by_first(values_of(late, f.KEYS))
    states = []
    for id, size_bytes in size.items():
        if not size_bytes or _is_head_of_source(late, id) or counted_edge(id) is not None:
            continue
        chain = next(chain for chain, operators in late.chains.items() if id in operators)
        arriving = [curve for curve in curves if late.edges[str(curve.edge)][1] == chain]
        lifetime = lifetimes.get(id)
        # The state of windows does not grow with all keys, but with those of their lifetime.
        growing = arriving if lifetime is None else []
        before = None if early is None else _state_size(early, id, growing)
        if before is not None and not before.size_bytes:
            before = None
        after = _state_size(late, id, growing)
        per_key, per_row = fitted_growth(before, after)
        if lifetime is None and (of_key := _of_one_row(late, id, after)) is not None:
            per_key, per_row = of_key, 0.0
        states.append(
            OperatorState(
                operator=late.operators[id],
                size_bytes=size_bytes,
                keys=keys.get(id),
                growth_bytes_per_row=per_row,
                lifetime_ms=None if lifetime is None else lifetime.lifetime_ms,
                chain=int(chain),
                bytes_per_key=per_key,
                entry_bytes=size_bytes / entries[id] if entries.get(id) else 0.0,
                pane_ms=None if lifetime is None else lifetime.pane_ms,
            )
        )
    return tuple(states)


def _of_one_row(report: MetricsReport, id: str, state: StateSize) -> float | None:
    """Return the bytes of a key's state if each key has one row, as far as its checkpoint shows it.

    The rows in a checkpoint are those of its moment, while the numbers of rows and keys are a little
    newer. Return None if the state may have several rows for each key, or if keys had few rows so far.
    """
    if not state.keys:
        return None
    entries = _by_first(values_of(report, f.STATE_ROWS)).get(id, 0.0)
    total_bytes = total(report, f.STATE_BYTES)
    written = total(report, f.WRITTEN)
    if not entries:
        # State on disk: the newest checkpoint wrote a row for each key that changed.
        share = state.size_bytes / total_bytes if total_bytes else 0.0
        of_key = min(written * share, state.size_bytes) / state.keys
        return of_key if of_key and state.rows >= _ROWS_OF_KEY * state.keys else None
    # A delta repeats at most as many rows as the full part has.
    repeated = 1 if written >= _WHOLE * total_bytes else 2
    most = min(repeated * state.keys * EXACT, state.rows * _FEWER)
    return state.size_bytes / entries if entries <= most else None


def _state_size(report: MetricsReport, id: str, curves: Sequence[KeyCurve]) -> StateSize:
    rows = source_rows(report)
    size_bytes = _by_first(values_of(report, f.STATE_BYTES)).get(id, 0.0)
    return StateSize(size_bytes, rows, total_keys(curves, rows))


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


def _latencies(report: MetricsReport) -> dict[tuple[str, ...], Accumulated]:
    """Return the latencies of each path over all slots, by source and sink."""
    found: dict[tuple[str, ...], Accumulated] = {}
    for reading in report.of(f.LATENCY):
        if isinstance(reading.value, Accumulated):
            path = reading.at[:2]
            found[path] = found.get(path, Accumulated()).plus(reading.value)
    return found


def _by_first(values: Values) -> dict[str, float]:
    """Return the sums of all slots, by the first label."""
    sums: dict[str, float] = {}
    for at, value in values.items():
        sums[at[0]] = sums.get(at[0], 0.0) + value
    return sums
