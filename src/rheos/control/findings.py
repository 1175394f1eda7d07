"""What stands out in a job, for who was woken by it: causes in sentences, from its figures. Pure.

Each kind of finding is one function, which says what it has seen and where to look next. None of them
guesses: a job of which nothing stands out has no findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

from rheos.control.held_back import SplitStanding, open_splits
from rheos.control.rates import rates, shares
from rheos.job import JobState, JobStatus
from rheos.observe import figures as f
from rheos.observe.model import JobFigures
from rheos.plan.outline import OutlinedChain, PlanOutline
from rheos.protocol.accumulated import Accumulated

BUSY = 0.8
"""Share of its time in which a subtask works that does hardly anything else."""
HELD_UP = 0.2
UNEVEN = 2.0
"""How many times its fair part of the rows one subtask has."""
UNPUBLISHED_MS = 5_000
"""Time after which a finding shows that complete output of a sink waits."""
WAITS_MS = 5_000
SILENT_MS = 8_000
"""Subtasks report about once a second."""
STANDS_MS = 10_000
GOES_ON_MS = 5_000
_MOST = 20


class FindingKind(Enum):
    RESTARTS = "restarts"
    PUBLISHING = "publishing"
    WAITING = "waiting"
    SILENT = "silent"
    CHECKPOINTS = "checkpoints"
    SLOW = "slow"
    UNEVEN = "uneven"
    STANDS = "stands"


class JobFinding(msgspec.Struct, frozen=True, kw_only=True):
    kind: FindingKind
    what: str
    """A sentence with the numbers that it comes from."""
    look: str
    """What to look at next, or what to do."""
    operator: str | None = None
    """The id of the operator that it is about."""
    subtask: int | None = None


def findings(
    status: JobStatus, outline: PlanOutline | None, figures: JobFigures | None
) -> list[JobFinding]:
    """The gravest kind first. The plan and the figures are those of a job that runs."""
    found = [*_restarts(status, figures), *_checkpoints(status)]
    if outline is not None and figures is not None and status.state is JobState.RUNNING:
        found += [*_publishing(outline, figures), *_waiting(figures)]
        found += [*_busy(outline, figures), *_stands(outline, figures)]
    return found[:_MOST]


def _restarts(status: JobStatus, figures: JobFigures | None) -> Iterator[JobFinding]:
    if not status.failure or (status.restarts == 0 and status.state is not JobState.FAILED):
        return
    last = status.failure.splitlines()[0]
    causes = {} if figures is None else {r.at[0]: _number(r.value) for r in figures.of(f.RESTARTS)}
    counted = ", ".join(f"{cause} {count:,.0f} times" for cause, count in sorted(causes.items()))
    if status.state is JobState.FAILED:
        what = f"the job has failed: {last}"
    elif status.state is JobState.RESTARTING:
        what = f"the job does not run, and is to be tried again: {last}"
    else:
        what = f"the job has restarted {_times(status.restarts)} and runs again. The last cause: {last}"
    yield JobFinding(
        kind=FindingKind.RESTARTS,
        what=f"{what} ({counted})" if counted else what,
        look="the whole error with the line, the record and what to do is below",
    )


def _checkpoints(status: JobStatus) -> Iterator[JobFinding]:
    if status.checkpoint_failure is None:
        return
    yield JobFinding(
        kind=FindingKind.CHECKPOINTS,
        what=f"the newest checkpoint has failed: {status.checkpoint_failure} "
        f"({status.checkpoints_failed:,} of them so far; {status.checkpoints_completed:,} completed)",
        look="the job goes on, and starts again from the newest that is complete; what sinks commit "
        "with checkpoints waits meanwhile",
    )


def _publishing(outline: PlanOutline, figures: JobFigures) -> Iterator[JobFinding]:
    """Return the sinks whose complete output waits: since when, and how much."""
    for operator in (each for chain in outline.chains for each in chain.operators):
        waits_ms = _most(figures, f.UNPUBLISHED, operator.id)
        if waits_ms < UNPUBLISHED_MS:
            continue
        epochs = _most(figures, f.EPOCHS_WAITING, operator.id)
        yield JobFinding(
            kind=FindingKind.PUBLISHING,
            what=f"the sink {operator.name!r} has published nothing for {_span(waits_ms)}: its target "
            f"does not answer, or is slow. The output of {epochs:,.0f} complete checkpoints waits",
            look="start the target or repair the way to it: the sink tries again every second, and "
            "publishes what waits, each row once. `rheos logs` has its last error",
            operator=operator.id,
        )


def _waiting(figures: JobFigures) -> Iterator[JobFinding]:
    """Calls to servers that have not returned, and subtasks that report nothing as they are in one."""
    for reading in figures.of(f.SERVER_WAIT):
        call, subtask = reading.at
        waits_ms = _number(reading.value)
        if waits_ms >= WAITS_MS:
            yield JobFinding(
                kind=FindingKind.WAITING,
                what=f"subtask {subtask} has waited for a server for {_span(waits_ms)}: {call}",
                look="is the server up and reachable? The call is abandoned and made again",
                subtask=int(subtask),
            )
    for reading in figures.of(f.REPORT_AGE):
        age_ms = _number(reading.value)
        if age_ms >= SILENT_MS:
            yield JobFinding(
                kind=FindingKind.SILENT,
                what=f"subtask {reading.at[0]} has reported nothing for {_span(age_ms)}: it is in a "
                "call that does not return, such as one to a server, or its process is frozen",
                look=f"profile subtask {reading.at[0]}, which shows where it is; look at the servers "
                "that its sinks and lookups use",
                subtask=int(reading.at[0]),
            )


def _most(figures: JobFigures, figure: f.Figure, operator: str) -> float:
    return max((_number(r.value) for r in figures.of(figure) if r.at[0] == operator), default=0.0)


def _busy(outline: PlanOutline, figures: JobFigures) -> Iterator[JobFinding]:
    """Chains that work nearly all of their time and hold others up; of one that is held up itself what
    is behind it is the cause."""
    for chain in outline.chains:
        busy = shares(figures, f.BUSY, chain.id)
        if not busy or max(busy.values()) < BUSY or _held(figures, chain.id) >= HELD_UP:
            continue
        subtask = max(busy, key=lambda each: busy[each])
        senders = {e.source for e in outline.edges if e.target == chain.id and not e.feedback}
        held = max((_held(figures, sender) for sender in senders), default=0.0)
        if senders and held < HELD_UP:
            continue
        behind = _behind(figures, chain)
        if not senders and behind is None:
            continue
        uneven = _uneven(outline, figures, chain, busy, subtask)
        if uneven is not None:
            yield uneven
            continue
        after = f"holds up what is before it ({held:.0%} of its time)" if senders else str(behind)
        yield JobFinding(
            kind=FindingKind.SLOW,
            what=f"{_name(chain)} works {busy[subtask]:.0%} of its time and {after}",
            look=f"profile subtask {subtask}: the widest frame is the function that takes the time. "
            "Where that is a system outside, it is slow; else more subtasks have less each",
            operator=chain.operators[-1].id,
            subtask=subtask,
        )


def _uneven(
    outline: PlanOutline,
    figures: JobFigures,
    chain: OutlinedChain,
    busy: dict[int, float],
    subtask: int,
) -> JobFinding | None:
    """Where the busiest subtask has far more rows by a key than is its part, and others have time."""
    edges = [e for e in outline.edges if e.target == chain.id and e.exchange == "hash"]
    for edge in edges:
        received = rates(figures, f.RECEIVED_ROWS, edge.id)
        total, width = sum(received.values()), len(received)
        if width < 2 or not total:
            continue
        part, fair = received.get(subtask, 0.0) / total, 1 / width
        least = min(UNEVEN * fair, (1 + fair) / 2)
        if part < least or min(busy.values()) >= BUSY:
            continue
        keys = ", ".join(edge.keys)
        return JobFinding(
            kind=FindingKind.UNEVEN,
            what=f"subtask {subtask} of {_name(chain)} has {part:.0%} of the rows by {keys}, where "
            f"{fair:.0%} is its part, and works {busy[subtask]:.0%} of its time: one value of {keys}, "
            "or a few, have most rows",
            look="more subtasks do not help. Aggregate by a finer key first, leave out a value that "
            "means nothing (empty, unknown), or use a window's built-in aggregates",
            operator=chain.operators[0].id,
            subtask=subtask,
        )
    return None


def _stands(outline: PlanOutline, figures: JobFigures) -> Iterator[JobFinding]:
    """Splits whose event time has stood while others of their source went on."""
    splits: dict[str, list[SplitStanding]] = {}
    chains = {operator.id: chain.id for chain in outline.chains for operator in chain.operators}
    for source, split in open_splits(figures):
        # One whose rows have nowhere to go stands for that reason.
        held = shares(figures, f.BLOCKED, chains.get(source, "")).get(split.subtask, 0.0)
        if not split.idle and held < HELD_UP:
            splits.setdefault(source, []).append(split)
    for source, of_source in splits.items():
        onward = [split for split in of_source if split.stands_ms < GOES_ON_MS]
        marks = [each.watermark_ms for each in onward if each.watermark_ms is not None]
        if not marks:
            continue
        for split in of_source:
            at = split.watermark_ms
            if split.stands_ms < STANDS_MS or (at is not None and at >= min(marks)):
                continue
            ahead = "" if at is None else f", and are up to {_span(max(marks) - at)} ahead of it"
            yield JobFinding(
                kind=FindingKind.STANDS,
                what=f"split {split.split!r} of {split.source!r} (subtask {split.subtask}) has not "
                f"gone on for {_span(split.stands_ms)}, and holds the watermark: no window behind it "
                f"fires. The others of its source go on{ahead}",
                look="look at what writes into the split. Where it may be quiet for long, give the "
                "watermark an idle timeout (idle_after)",
                operator=source,
                subtask=split.subtask,
            )


def _behind(figures: JobFigures, chain: OutlinedChain) -> str | None:
    """How far a source that is chained to all of its work is behind what it reads."""
    rows = sum(
        _number(r.value) for r in figures.of(f.SOURCE_LAG_ROWS) if r.at[0] == chain.operators[0].id
    )
    return f"is {rows:,.0f} records behind" if rows else None


def _held(figures: JobFigures, chain: str) -> float:
    return max(shares(figures, f.BLOCKED, chain).values(), default=0.0)


def _number(value: float | Accumulated) -> float:
    assert not isinstance(value, Accumulated), "no histogram is read here"
    return value


def _name(chain: OutlinedChain) -> str:
    return repr(" > ".join(operator.name for operator in chain.operators))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _span(ms: float) -> str:
    seconds = ms / 1000
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
