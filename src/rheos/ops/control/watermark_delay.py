"""The reasons for the delay of an operator's watermark, from a job's metrics: the splits that hold it
back, since when they do, and the edges on which it waits for rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheos.core.errors import ConfigurationError
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.history import series_of
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import OutlinedOperator, PlanOutline
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.moment import SplitStanding, open_splits


@dataclass(frozen=True)
class DelayedEdge:
    """An edge whose receiver has a lower watermark than its sender: the watermark waits behind queued
    rows."""

    sender: str
    receiver: str
    sender_ms: int
    receiver_ms: int | None
    queued_batches: int
    busy: float
    """Share of its time in which the receiving chain worked, in its busiest subtask."""


@dataclass(frozen=True)
class WatermarkDelay:
    operator: OutlinedOperator
    watermark_ms: int | None
    """Lowest watermark of its subtasks; None before there is one."""
    subtask: int | None
    """Number of the subtask with the lowest watermark, if they differ."""
    since_ms: int | None
    """Wall-clock time when the watermark reached its value, as far as the history shows."""
    holding: tuple[SplitStanding, ...]
    """The slowest splits that are not idle; empty if splits are not reported."""
    idle: tuple[SplitStanding, ...]
    waiting_splits: int
    """Number of splits that still have to be read, and hold the watermark until then."""
    delayed: tuple[DelayedEdge, ...]
    late: int
    """Number of rows that were late at the operator in this attempt."""
    late_goes_to: str | None
    """Side output for late rows, if the program reads it; None: they are dropped."""


def held_back(
    outline: PlanOutline, metrics: MetricsReport, history: HistoryView, wanted: str
) -> WatermarkDelay:
    """Return the delay of the operator with that id, or of the only one with that name. Raise
    ConfigurationError if it is not found."""
    operator = _operator(outline, wanted)
    chains = _upstream(outline, operator.id)
    ahead = {each.id for chain in outline.chains if chain.id in chains for each in chain.operators}
    watermark_ms, subtask = _least(_of_operator(metrics, f.WATERMARK, operator.id))
    splits = [split for split in open_splits(metrics.operators, metrics.of) if split[0] in ahead]
    standing = [split for _, split in splits]
    behind = [split for split in standing if not split.idle]
    least = min((_rank(split.watermark_ms) for split in behind), default=None)
    late = (r.value for r in metrics.of(f.COUNTER) if r.at[:2] == (operator.id, "late"))
    return WatermarkDelay(
        operator,
        watermark_ms,
        subtask,
        _since_ms(history, operator.id, watermark_ms),
        tuple(split for split in behind if _rank(split.watermark_ms) == least),
        tuple(split for split in standing if split.idle),
        sum(_number(r) for r in metrics.of(f.WAITING_SPLITS) if r.at[0] in ahead),
        tuple(_delayed(outline, metrics, chains)),
        sum(int(value) for value in late if not isinstance(value, Accumulated)),
        "late" if "late" in operator.outputs else None,
    )


def _operator(outline: PlanOutline, wanted: str) -> OutlinedOperator:
    operators = [operator for chain in outline.chains for operator in chain.operators]
    found = [operator for operator in operators if operator.id == wanted]
    found = found or [operator for operator in operators if operator.name == wanted]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{operator.id} ({operator.name})" for operator in found or operators)
    raise ConfigurationError(
        f"{len(found)} operators are named {wanted!r}"
        if found
        else f"the job has no operator {wanted!r}",
        hint=f"pass the id of one: {known}",
    )


def _upstream(outline: PlanOutline, operator: str) -> set[str]:
    """Return the operator's chain, and all chains upstream of it."""
    found: set[str] = set()
    left = [chain.id for chain in outline.chains if operator in {each.id for each in chain.operators}]
    while left:
        chain = left.pop()
        if chain not in found:
            found.add(chain)
            left += [e.source for e in outline.edges if e.target == chain and not e.feedback]
    return found


def _delayed(outline: PlanOutline, metrics: MetricsReport, chains: set[str]) -> Iterator[DelayedEdge]:
    heads = {chain.id: chain.operators[0] for chain in outline.chains}
    for edge in outline.edges:
        if edge.target not in chains or edge.feedback:
            continue
        receiver = heads[edge.target]
        sent, _ = _least(_of_operator(metrics, f.WATERMARK, edge.sender))
        heard, _ = _least(_of_operator(metrics, f.WATERMARK, receiver.id))
        queued = sum(_number(r) for r in metrics.of(f.QUEUED_BATCHES) if r.at[0] == edge.id)
        # Subtasks do not report at the same moment. If nothing is queued, that explains the difference.
        if sent is None or not queued or (heard is not None and heard >= sent):
            continue
        busy = [r.per_s for r in metrics.of(f.BUSY) if r.at[0] == edge.target and r.per_s is not None]
        yield DelayedEdge(
            metrics.operators.get(edge.sender, edge.sender),
            receiver.name,
            sent,
            heard,
            queued,
            max(busy, default=0.0) / 1000,
        )


def _of_operator(metrics: MetricsReport, metric: Metric, operator: str) -> dict[int, int]:
    return {int(r.at[-1]): _number(r) for r in metrics.of(metric) if r.at[0] == operator}


def _least(by_subtask: dict[int, int]) -> tuple[int | None, int | None]:
    """Return the lowest value, and its subtask if the values differ."""
    if not by_subtask:
        return None, None
    subtask = min(by_subtask, key=lambda number: (by_subtask[number], number))
    differ = len(set(by_subtask.values())) > 1
    return by_subtask[subtask], subtask if differ else None


def _since_ms(history: HistoryView, operator: str, watermark_ms: int | None) -> int | None:
    """Return the first moment since which the history shows only that watermark."""
    name = series_of(Reading(f.WATERMARK.name, (operator,), 0))
    since = None
    for part in (history.fine, history.coarse):
        if watermark_ms is None or name not in part.series:
            return since
        at = part.series.index(name)
        for at_ms, row in zip(reversed(part.at_ms), reversed(part.values), strict=True):
            if since is not None and at_ms >= since:
                continue
            if row[at] != watermark_ms:
                return since
            since = at_ms
    return since


def _rank(watermark_ms: int | None) -> float:
    return float("-inf") if watermark_ms is None else watermark_ms


def _number(reading: Reading) -> int:
    assert not isinstance(reading.value, Accumulated), "no histogram is read here"
    return int(reading.value)
