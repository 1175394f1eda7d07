"""A job at one moment, with its recent past: the input of the kinds of findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.health import FindingKind, Severity
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import OutlinedChain, OutlinedOperator, PlanOutline
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.runtimes.job import JobState, JobStatus, OperatorStatus


def rates(readings: Iterable[Reading], place: str) -> dict[int, float]:
    """Return the growth per second of a counter at an operator, chain or edge, by subtask. Subtasks
    whose rate is not known yet are omitted."""
    return {int(r.at[-1]): r.per_s for r in readings if r.at[0] == place and r.per_s is not None}


def shares(readings: Iterable[Reading], chain: str) -> dict[int, float]:
    """Return the share of its time that each subtask spent, from a counter of milliseconds."""
    return {subtask: rate / 1000 for subtask, rate in rates(readings, chain).items()}


FOR = "{for}"
"""Placeholder in a sentence for the time for which the finding has held. The judge replaces it."""


@dataclass(frozen=True)
class PastTotals:
    """Totals of the operators at an earlier moment."""

    at_us: int
    """Monotonic time."""
    operators: tuple[OperatorStatus, ...]


@dataclass(frozen=True)
class JobMoment:
    """A job at one moment. Times with `_us` are from the driver's monotonic clock."""

    status: JobStatus
    outline: PlanOutline
    metrics: MetricsReport
    now_us: int
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    past: Sequence[PastTotals] = ()
    """Earlier moments of the last ten minutes, the oldest first."""
    restarts_us: Sequence[int] = ()
    """Times of the restarts within the last hour, including those under earlier drivers, and of
    takeovers; the oldest first."""
    earlier_cause: str | None = None
    """Cause of the last restart under an earlier driver, or of the takeover."""
    state_us: int = 0
    """Time when the job entered its state (`status.state`)."""
    stepped_us: int | None = None
    """Time of the last step of the driver; None if steps are not watched."""

    @property
    def runs(self) -> bool:
        """Whether the job runs, so that its metrics are those of this moment."""
        return self.status.state is JobState.RUNNING

    @cached_property
    def _by_metric(self) -> dict[str, list[Reading]]:
        found: dict[str, list[Reading]] = {}
        for reading in self.metrics.readings:
            found.setdefault(reading.metric, []).append(reading)
        return found

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[Reading]]:
        found: dict[tuple[str, str], list[Reading]] = {}
        for reading in self.metrics.readings:
            if reading.at:
                found.setdefault((reading.metric, reading.at[0]), []).append(reading)
        return found

    def of_place(self, metric: Metric, place: str) -> Sequence[Reading]:
        """Return the readings of a metric at an operator, chain or edge."""
        return self._by_place.get((metric.name, place), ())

    def of(self, metric: Metric) -> Sequence[Reading]:
        """Return the readings of a metric."""
        return self._by_metric.get(metric.name, ())

    def most(self, metric: Metric, operator: str) -> float | None:
        """Return the largest reading of a metric over the subtasks of an operator, or None."""
        found = [number(r) for r in self.of_place(metric, operator)]
        return max(found, default=None)

    def least(self, metric: Metric, operator: str) -> float | None:
        """Return the smallest reading of a metric over the subtasks of an operator, or None."""
        found = [number(r) for r in self.of_place(metric, operator)]
        return min(found, default=None)

    def rates(self, metric: Metric, place: str) -> dict[int, float]:
        """Return the growth per second of a counter at an operator, chain or edge, by subtask."""
        return rates(self.of_place(metric, place), place)

    def shares(self, metric: Metric, chain: str) -> dict[int, float]:
        """Return the share of its time that each subtask spent, from a counter of milliseconds."""
        return shares(self.of_place(metric, chain), chain)

    def operators(self) -> Iterator[tuple[OutlinedChain, OutlinedOperator]]:
        """Yield the operators of the plan, each with its chain."""
        for chain in self.outline.chains:
            for operator in chain.operators:
                yield chain, operator


@dataclass(frozen=True, kw_only=True)
class DetectedFinding:
    """Result of the detection of a kind, from which the judge makes a finding."""

    severity: Severity
    what: str
    what_to_do: str
    for_ms: float | None = None
    """Time for which the finding has held, if a metric shows it; None: since it was first found."""
    operator: str | None = None
    subtask: int | None = None
    server: str | None = None
    about: str = ""
    """Distinction of findings with equal kind, operator, subtask and server, such as a split."""

    def identity(self, kind: FindingKind) -> tuple[object, ...]:
        """Return the identity by which the finding is recognised at later moments."""
        return kind, self.operator, self.subtask, self.server, self.about


def number(reading: Reading) -> float:
    """Return the value of a reading of a counter or gauge."""
    assert not isinstance(reading.value, Accumulated), "no histogram is read here"
    return reading.value


def span(ms: float) -> str:
    """Return a duration for a sentence: "90 s", "3 min", "5 h", "2 days"."""
    seconds = ms / 1000
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def times(count: int) -> str:
    """Return "once", "2 times", "3 times"."""
    return "once" if count == 1 else f"{count:,} times"


def chain_name(chain: OutlinedChain) -> str:
    """Return the names of a chain's operators, quoted."""
    return repr(" > ".join(operator.name for operator in chain.operators))


# --- open splits of sources ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitStanding:
    """An open split of a source upstream of the operator."""

    source: str
    """The source's name."""
    split: str
    subtask: int
    watermark_ms: int | None
    """Watermark in ms; None before the split's first row, and while it is idle."""
    stands_ms: int
    """Time for which its event time has not advanced."""
    idle: bool


def open_splits(
    names: Mapping[str, str], of: Callable[[Metric], Iterable[Reading]]
) -> Iterator[tuple[str, SplitStanding]]:
    """Yield all splits that are being read, each with the id of its source.

    Args:
        names: the names of operators, by id.
        of: returns the readings of a metric.
    """
    marks = {reading.at: reading for reading in of(f.SPLIT_WATERMARK)}
    idle = {reading.at: reading for reading in of(f.SPLIT_IDLE)}
    for stands in of(f.SPLIT_STANDS):
        source, split, subtask = stands.at
        mark, is_idle = marks.get(stands.at), idle.get(stands.at)
        yield (
            source,
            SplitStanding(
                names.get(source, source),
                split,
                int(subtask),
                None if mark is None else int(number(mark)),
                int(number(stands)),
                is_idle is not None and bool(number(is_idle)),
            ),
        )


# --- how a kind of finding is declared ----------------------------------------------------------------


Find: TypeAlias = Callable[[JobMoment], Iterable[DetectedFinding]]
"""Function that detects one kind of finding. Pure; it yields nothing if the job has no such finding."""


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """The detection of a kind of finding. The documentation contains `means`, `cause` and `remedy`."""

    find: Find
    means: str
    """Condition for the finding, with its threshold."""
    cause: str
    remedy: str
    shown_after_ms: int = 0
    """Time for which it must hold before it is shown. More than 0 if its metrics fluctuate."""


CHECKS: dict[FindingKind, HealthCheck] = {}
"""Declarations by kind. Each module in `kinds` adds its own when it is imported."""


def health_check(
    kind: FindingKind, *, means: str, cause: str, remedy: str, shown_after_ms: int = 0
) -> Callable[[Find], Find]:
    """Register the decorated function as the detection of `kind`: see `HealthCheck`."""

    def register(find: Find) -> Find:
        CHECKS[kind] = HealthCheck(
            find=find, means=means, cause=cause, remedy=remedy, shown_after_ms=shown_after_ms
        )
        return find

    return register
