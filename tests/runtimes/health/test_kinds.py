"""Each kind of finding: a job that has it, and jobs that barely do not.

The table is exhaustive: a kind that is not in it, or has no silent twin, fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from rheos.core.metrics.health import FindingKind, HealthState, JobFinding, Severity
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.judge import Memory, health
from rheos.runtimes.health.kinds import KINDS
from rheos.runtimes.health.moment import HealthCheck, JobMoment, PastTotals
from rheos.runtimes.job import JobState, JobWait, OperatorStatus, WaitKind
from tests.runtimes.health.jobs import HELD, NOW_MS, NOW_US, SECOND_US, received, seen, shares, split


def found(job: JobMoment) -> list[JobFinding]:
    """Return the findings of a job that has been in this condition for longer than any kind
    requires."""
    wait_us = max(kind.shown_after_ms for kind in KINDS.values()) * 1000
    earlier = replace(job, now_us=job.now_us - wait_us)
    _, memory = health(earlier, Memory(), NOW_MS)
    # Metrics that state a start are computed for this moment.
    standing = {of: replace(each, since_us=job.now_us) for of, each in memory.standing.items()}
    return health(job, replace(memory, standing=standing), NOW_MS)[0].findings


def publishing(waits_ms: float, *commits_ms: float) -> JobMoment:
    at = ("map-1", "0")
    commits = Distribution()
    for each in commits_ms:
        commits.add(each)
    took = [Reading("commit_duration_ms", at, commits.value)] if commits_ms else []
    return seen(Reading("unpublished_ms", at, waits_ms), Reading("epochs_waiting", at, 12), *took)


def waiting(for_ms: float) -> JobMoment:
    return seen(Reading("server_wait_ms", ("the table 't' cannot be written", "1"), for_ms))


def waits(kind: WaitKind, for_ms: int) -> JobMoment:
    return seen(waits=(JobWait("it waits for the table 't'", NOW_MS - for_ms, kind),))


def late(in_a_minute: int, before: int, rows: int = 1000) -> JobMoment:
    """Return late rows of the last minute, and of the nine before; each minute has this number of
    rows."""

    def at(seconds_ago: int, late: int, rows: int) -> PastTotals:
        counted = OperatorStatus("map-1", "map", rows, 0, None, {"late": late})
        return PastTotals(NOW_US - seconds_ago * SECOND_US, (counted,))

    past = (at(600, 0, 0), at(60, before, 9 * rows))
    (now,) = at(0, before + in_a_minute, 10 * rows).operators
    return seen(past=past, operators=(now,))


def lost(now: int, before: int | None = None) -> JobMoment:
    """Return how often a sink's server had lost rows now, and ten minutes ago."""

    def counted(times: int) -> OperatorStatus:
        return OperatorStatus("map-1", "map", 100, 0, None, {"lost_data": times} if times else {})

    past = () if before is None else (PastTotals(NOW_US - 600 * SECOND_US, (counted(before),)),)
    return seen(past=past, operators=(counted(now),))


def memory(used: int, limit: int) -> JobMoment:
    return seen(
        Reading("memory_used_bytes", ("1",), used),
        Reading("memory_limit_bytes", ("1",), limit),
        Reading("memory_bytes", ("1",), 1 << 30),
    )


def quiet(for_ms: float, pause_ms: float, *more: Reading, open: int = 1) -> JobMoment:
    at = ("source-1", "0")
    return seen(
        Reading("since_record_ms", at, for_ms),
        Reading("longest_pause_ms", at, pause_ms),
        Reading("open_splits", at, open),
        *more,
    )


ADVANCES = split("topic-0", 200_000, 100)
ELSEWHERE = Reading("since_record_ms", ("source-1", "1"), 5)
CHECKPOINT_FAILED = {
    "checkpoint_failure": "subtask 1: OSError: [Errno 28] No space left on device",
    "checkpoints_failed": 2,
}


@dataclass(frozen=True)
class Case:
    """Kind of finding: a job that has it, and jobs that do not."""

    has: JobMoment
    what: str
    """A part of the sentence."""
    silent: Mapping[str, JobMoment] = field(default_factory=dict)
    severity: Severity = Severity.STUCK
    at: tuple[str | None, int | None] = (None, None)
    """The operator and the subtask that it names."""


CASES = {
    FindingKind.FAILED: Case(
        seen(state=JobState.FAILED, failure="job.py:7: no price\n  record: {'n': 3}"),
        "the job failed: job.py:7: no price",
        {"it has ended well": seen(state=JobState.FINISHED)},
        Severity.FAILING,
    ),
    FindingKind.NOT_RUNNING: Case(
        seen(
            state=JobState.RESTARTING,
            failure="1 of 2 slots are free",
            state_us=NOW_US - 61 * SECOND_US,
        ),
        "the job is not running, and is being restarted, for 61 s: 1 of 2 slots are free",
        {"it starts": seen(state=JobState.STARTING, state_us=NOW_US - 59 * SECOND_US)},
        Severity.FAILING,
    ),
    FindingKind.RESTARTS: Case(
        seen(
            Reading("restarts", ("UserCodeError",), 1.0),
            restarts_us=(NOW_US - 60 * SECOND_US,),
            failure="job.py:7: no price",
        ),
        "the job has restarted once in the last hour, the last time 60 s ago, "
        "and is running again. The last cause: job.py:7: no price (so far: "
        "UserCodeError 1 times)",
        {"none": seen(failure="an older one"), "none here": seen(earlier_cause="the driver was lost")},
        Severity.DEGRADED,
    ),
    FindingKind.DRIVER: Case(
        seen(
            Reading("driver_wait_ms", ("the table 't' cannot be written",), 3_000),
            stepped_us=NOW_US - 11 * SECOND_US,
        ),
        "the driver has been blocked for 11 s: it waits for a call, such as one to a "
        "server or to the checkpoint directory (the table 't' cannot be written)",
        {
            "it has just stepped": seen(stepped_us=NOW_US - 9 * SECOND_US),
            "the job is over": seen(state=JobState.FINISHED, stepped_us=0),
        },
    ),
    FindingKind.SERVER: Case(
        waiting(9_000),
        "a server does not answer subtask 1, for 9 s: the table 't' cannot be written",
        {
            "a short wait": seen(
                Reading("server_wait_ms", ("the table 't' cannot be written", "1"), 4_999)
            )
        },
        at=(None, 1),
    ),
    FindingKind.WAITING: Case(
        waits(WaitKind.RECOVERY, 6_000),
        "it waits for the table 't' (for 6 s)",
        {
            "a call, which is another kind": waits(WaitKind.CALL, 90_000),
            "missing workers, which are another kind": waits(WaitKind.WORKERS, 90_000),
            "not for long": waits(WaitKind.PUBLISHING, 4_000),
            "a savepoint that takes its time": waits(WaitKind.REQUEST, 29_000),
        },
    ),
    FindingKind.PUBLISHING: Case(
        publishing(90_000),
        "the sink 'map' has published nothing for 90 s: its target does not respond, or is slow. The "
        "output of 12 complete checkpoints is waiting",
        {"a short wait": publishing(4_999), "its commits take long": publishing(20_000, 9_000)},
        at=("map-1", None),
    ),
    FindingKind.SILENT: Case(
        seen(Reading("report_age_ms", ("1",), 15_000)),
        "subtask 1 has not reported for 15 s: it is blocked in a call, such as one of the program's",
        {"it has just reported": seen(Reading("report_age_ms", ("1",), 2_000))},
        at=(None, 1),
    ),
    FindingKind.CHECKPOINTS: Case(
        seen(Reading("since_checkpoint_ms", (), 20_000), **CHECKPOINT_FAILED),
        "the newest checkpoint failed: subtask 1: OSError: [Errno 28] No space left on device (2 "
        "have failed so far; 4 are complete)",
        {"another is complete": seen(Reading("since_checkpoint_ms", (), 20_000), checkpoints_failed=2)},
        Severity.DEGRADED,
    ),
    FindingKind.SLOW_CHECKPOINTS: Case(
        seen(Reading("since_checkpoint_ms", (), 31_000)),
        "no checkpoint has completed for 31 s, although the interval is 10 s",
        {
            "one has just completed": seen(Reading("since_checkpoint_ms", (), 29_000)),
            "it took as long as the interval": seen(last_checkpoint_ms=10_000),
        },
        Severity.DEGRADED,
    ),
    FindingKind.WATERMARK: Case(
        seen(*ADVANCES, *split("topic-1", 20_000, 180_000)),
        "split 'topic-1' of 'clicks' (subtask 0) has not advanced for 3 min, and "
        "holds back the watermark: no window downstream fires. The other splits "
        "of its source advance, and are up to 3 min ahead of it",
        {
            "it is idle": seen(*ADVANCES, *split("topic-1", None, 180_000, idle=1)),
            "all are quiet": seen(*split("topic-0", 5, 90_000), *split("topic-1", 9, 90_000)),
            "its rows have nowhere to go": seen(*ADVANCES, *split("topic-1", 20_000, 180_000), *HELD),
            "it is ahead": seen(*ADVANCES, *split("topic-1", 300_000, 180_000)),
        },
        at=("source-1", 0),
    ),
    FindingKind.NO_INPUT: Case(
        quiet(61_000, 2_000),
        "the source 'clicks' has received no row for 61 s; before that, its longest pause was 2 s",
        {
            "not for long": quiet(59_000, 2_000),
            "it pauses often": quiet(290_000, 100_000),
            "all of it is read": quiet(61_000, 2_000, open=0),
            "a chain is busy more than 80 % of the time without being": quiet(61_000, 2_000, *HELD),
            "another subtask has rows": quiet(
                61_000, 1, Reading("since_record_ms", ("source-1", "1"), 5)
            ),
        },
        Severity.DEGRADED,
        at=("source-1", None),
    ),
    FindingKind.BACKPRESSURE: Case(
        seen(*shares("1", "busy_ms", 0.97, 0.99), *HELD, *received(50, 50)),
        "'map' is busy 99% of the time and slows down upstream operators (98% of their time)",
        {
            "it is busy alone": seen(
                *shares("1", "busy_ms", 0.97, 0.95),
                *shares("0", "backpressured_ms", 0.0, 0.02),
                *received(50, 50),
            ),
            "it is held up itself": seen(
                *shares("1", "busy_ms", 0.9, 0.9),
                *shares("1", "backpressured_ms", 0.5, 0.6),
                *HELD,
                *received(50, 50),
            ),
            "its source is not behind": seen(*shares("0", "busy_ms", 0.99, 0.2)),
        },
        Severity.DEGRADED,
        at=("map-1", None),
    ),
    FindingKind.SKEW: Case(
        seen(*shares("1", "busy_ms", 0.1, 0.98), *HELD, *received(5, 95)),
        "subtask 1 of 'map' has 95% of the rows by n, although its even share is 50%, and is busy",
        {"it holds nobody up": seen(*shares("1", "busy_ms", 0.1, 0.98), *received(5, 95))},
        Severity.DEGRADED,
        at=("map-1", 1),
    ),
    FindingKind.LATE: Case(
        late(150, 90),
        "150 rows were late at 'map' in the last minute, 15.0% of all; before, it was 1.0%. They are",
        {
            "as many as before": late(150, 1350),
            "few rows": late(99, 0),
            "few of many": late(150, 0, rows=20_000),
        },
        Severity.DEGRADED,
        at=("map-1", None),
    ),
    FindingKind.LOST_DATA: Case(
        lost(2, before=1),
        "the server of 'map' was restarted without the last rows that the sink wrote",
        {"it is some time ago": lost(2, before=2), "it has all rows": lost(0)},
        Severity.DEGRADED,
        at=("map-1", None),
    ),
    FindingKind.MEMORY: Case(
        memory(15 << 30, 16 << 30),
        "the machine or container of subtask 1 uses 94% of its 16.0 GB of memory; the worker itself",
        {"there is room": memory(14 << 30, 16 << 30)},
        Severity.DEGRADED,
        at=(None, 1),
    ),
}


def test_every_kind_has_cases_with_and_without_it() -> None:
    assert set(CASES) == set(KINDS) == set(FindingKind)
    assert all(case.silent for case in CASES.values())


@pytest.mark.parametrize("kind", FindingKind)
def test_a_job_with_the_condition_has_the_finding(kind: FindingKind) -> None:
    case = CASES[kind]
    (one,) = found(case.has)
    assert (one.kind, one.severity) == (kind, case.severity)
    assert case.what in one.what
    assert (one.operator, one.subtask) == case.at
    assert one.what_to_do


@pytest.mark.parametrize(
    ("kind", "why"), [(kind, why) for kind, case in CASES.items() for why in case.silent]
)
def test_a_job_just_below_the_limit_has_no_finding(kind: FindingKind, why: str) -> None:
    assert found(CASES[kind].silent[why]) == []


def test_a_calm_job_is_healthy() -> None:
    assert found(seen()) == []
    judged, _ = health(seen(), Memory(), NOW_MS)
    assert (judged.state, judged.headline) == (HealthState.HEALTHY, "healthy")


def test_a_slow_source_chain_shows_its_lag() -> None:
    busy = shares("0", "busy_ms", 0.99, 0.2)
    (slow,) = found(seen(*busy, Reading("source_lag_rows", ("source-1", "0"), 12_000)))
    assert (slow.kind, slow.operator) == (FindingKind.BACKPRESSURE, "source-1")
    assert slow.what == "'clicks' is busy 99% of the time and has a lag of 12,000 records"


def test_uneven_rows_are_no_cause_if_all_subtasks_are_busy() -> None:
    (slow,) = found(seen(*shares("1", "busy_ms", 0.97, 0.98), *HELD, *received(20, 80)))
    assert slow.kind is FindingKind.BACKPRESSURE


def test_an_empty_split_also_delays_the_watermark() -> None:
    (empty,) = found(seen(*ADVANCES, *split("topic-1", None, 60_000)))
    assert "and holds back the watermark: no window downstream fires. The other splits" in empty.what


def test_a_restart_soon_becomes_a_note() -> None:
    (eleven,) = found(seen(restarts_us=(NOW_US - 660 * SECOND_US,), failure="lost"))
    assert eleven.severity is Severity.NOTE
    assert health(seen(restarts_us=(NOW_US - 660 * SECOND_US,)), Memory(), NOW_MS)[0].state is (
        HealthState.HEALTHY
    )


@pytest.mark.parametrize(
    ("ago_s", "severity"),
    [
        ((90, 50, 20), Severity.FAILING),
        ((300, 200, 100), Severity.DEGRADED),
        ((25, 23, 20), Severity.DEGRADED),
        ((300, 20), Severity.DEGRADED),
    ],
    ids=["read the cause; if it recurs, fix", "the last is some time ago", "a short outage", "two"],
)
def test_the_severity_of_restarts_depends_on_their_frequency(
    ago_s: tuple[int, ...], severity: Severity
) -> None:
    restarts_us = tuple(NOW_US - each * SECOND_US for each in ago_s)
    (often,) = found(seen(restarts_us=restarts_us, failure="lost"))
    assert often.severity is severity


def test_a_slow_checkpoint_shows_where_its_time_went() -> None:
    cost = [Reading("checkpoint_align_ms", ("0",), 9_000), Reading("checkpoint_async_ms", ("0",), 400)]
    (slow,) = found(seen(*cost, last_checkpoint_ms=10_100))
    assert slow.kind is FindingKind.SLOW_CHECKPOINTS
    assert "longer than the interval of 10 s" in slow.what
    assert "9.0 s, was spent aligning barriers" in slow.what_to_do


def test_no_checkpoint_for_minutes_is_stuck() -> None:
    for job in (
        seen(Reading("since_checkpoint_ms", (), 130_000)),
        seen(Reading("since_checkpoint_ms", (), 130_000), **CHECKPOINT_FAILED),
    ):
        (one,) = found(job)
        assert one.severity is Severity.STUCK


def test_several_waits_for_one_server_are_one_finding() -> None:
    call = "the topic 'out' cannot be written"
    waits = [Reading("server_wait_ms", (call, str(n)), 9_000 + n) for n in (10, 2)]
    (one,) = found(seen(*waits, Reading("driver_wait_ms", (call,), 5_000)))
    assert one.what == f"a server does not answer subtask 2, 10, for 9 s: {call}"
    assert (one.subtask, one.server) == (None, call)
    (driver,) = found(seen(Reading("driver_wait_ms", (call,), 5_000)))
    assert driver.what == f"a server does not answer the driver, for 5 s: {call}"


def test_each_kind_declares_meaning_cause_and_remedy() -> None:
    def texts(kind: HealthCheck) -> tuple[str, ...]:
        return kind.means, kind.cause, kind.remedy

    assert all(all(texts(kind)) for kind in KINDS.values())
    assert len({text for kind in KINDS.values() for text in texts(kind)}) == 3 * len(KINDS)
