"""What stands out in a job, from its status and figures alone: causes of the drill, and calm jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from rheos.control.findings import FindingKind, JobFinding, findings
from rheos.job import JobState, JobStatus
from rheos.observe.model import JobFigures
from rheos.plan.outline import PlanOutline
from rheos.protocol.readings import Reading
from tests.cli.stand_ins import FIGURES, STATUS, outline

CALM = replace(STATUS, failure=None, restarts=0, checkpoints_failed=0)


def found(*readings: Reading, plan: PlanOutline | None = None, **status: Any) -> list[JobFinding]:
    """Of the stand-in: the source "clicks", and a map behind a shuffle by n."""
    figures: JobFigures = msgspec.structs.replace(FIGURES, readings=list(readings))
    shown: JobStatus = replace(CALM, **status)
    return findings(shown, plan or outline(), figures)


def shares(chain: str, figure: str, *parts: float) -> list[Reading]:
    """Of their time, by subtask."""
    return [Reading(figure, (chain, str(n)), 1.0, part * 1000) for n, part in enumerate(parts)]


def received(*rates: float) -> list[Reading]:
    return [Reading("received_rows", ("0", str(n)), 1, rate) for n, rate in enumerate(rates)]


def split(name: str, mark: int | None, stands_ms: int, idle: int = 0) -> list[Reading]:
    at = ("source-1", name, "0")
    said = [Reading("split_stands_ms", at, stands_ms), Reading("split_idle", at, idle)]
    return said if mark is None else [*said, Reading("split_watermark_ms", at, mark)]


def test_of_a_calm_job_nothing_stands_out() -> None:
    assert found() == []
    busy_alone = [*shares("1", "busy_ms", 0.97, 0.95), *shares("0", "backpressured_ms", 0.0, 0.02)]
    assert found(*busy_alone, *received(50, 50)) == []


def test_a_sink_whose_target_is_away_is_named_with_what_waits() -> None:
    def failing(ms: float) -> list[Reading]:
        at = ("map-1", "0")
        return [Reading("unpublished_ms", at, ms), Reading("epochs_waiting", at, 12)]

    assert found(*failing(4_999)) == []
    (away,) = found(*failing(90_000))
    assert (away.kind, away.operator) == (FindingKind.PUBLISHING, "map-1")
    assert away.what == (
        "the sink 'map' has published nothing for 90 s: its target does not answer, or is slow. The "
        "output of 12 complete checkpoints waits"
    )


def test_a_call_that_does_not_return_is_named() -> None:
    def calling(ms: float) -> Reading:
        return Reading("server_wait_ms", ("the table 't' cannot be written", "1"), ms)

    assert found(calling(4_999)) == []
    (waits,) = found(calling(9_000))
    assert (waits.kind, waits.subtask) == (FindingKind.WAITING, 1)
    assert waits.what == ("subtask 1 has waited for a server for 9 s: the table 't' cannot be written")


def test_a_subtask_that_reports_nothing_is_named() -> None:
    assert found(Reading("report_age_ms", ("1",), 2_000)) == []
    (silent,) = found(Reading("report_age_ms", ("1",), 15_000))
    assert (silent.kind, silent.subtask) == (FindingKind.SILENT, 1)
    assert "subtask 1 has reported nothing for 15 s" in silent.what


def test_a_slow_sink_is_named_with_what_it_holds_up() -> None:
    (slow,) = found(
        *shares("1", "busy_ms", 0.97, 0.99),
        *shares("0", "busy_ms", 0.01, 0.01),
        *shares("0", "backpressured_ms", 0.98, 0.9),
        *received(50, 50),
    )
    assert (slow.kind, slow.operator, slow.subtask) == (FindingKind.SLOW, "map-1", 1)
    assert slow.what == "'map' works 99% of its time and holds up what is before it (98% of its time)"
    assert "profile subtask 1" in slow.look


def test_what_is_itself_held_up_is_not_the_cause() -> None:
    middle = [*shares("1", "busy_ms", 0.9, 0.9), *shares("1", "backpressured_ms", 0.5, 0.6)]
    assert found(*middle, *shares("0", "backpressured_ms", 0.9, 0.9), *received(50, 50)) == []


def test_a_source_whose_own_chain_is_slow_says_how_far_it_is_behind() -> None:
    busy = shares("0", "busy_ms", 0.99, 0.2)
    assert found(*busy) == []
    (slow,) = found(*busy, Reading("source_lag_rows", ("source-1", "0"), 12_000))
    assert (slow.kind, slow.operator) == (FindingKind.SLOW, "source-1")
    assert slow.what == "'clicks' works 99% of its time and is 12,000 records behind"


def test_a_hot_key_shows_in_the_part_of_one_subtask() -> None:
    held = shares("0", "backpressured_ms", 0.9, 0.9)
    (hot,) = found(*shares("1", "busy_ms", 0.1, 0.98), *held, *received(5, 95))
    assert (hot.kind, hot.operator, hot.subtask) == (FindingKind.UNEVEN, "map-1", 1)
    assert hot.what.startswith(
        "subtask 1 of 'map' has 95% of the rows by n, where 50% is its part, and works 98% of its time"
    )
    (slow,) = found(*shares("1", "busy_ms", 0.97, 0.98), *held, *received(20, 80))
    assert slow.kind is FindingKind.SLOW


def test_a_split_that_stands_while_others_go_on() -> None:
    goes_on = split("topic-0", 200_000, 100)
    (stands,) = found(*goes_on, *split("topic-1", 20_000, 180_000))
    assert (stands.kind, stands.operator, stands.subtask) == (FindingKind.STANDS, "source-1", 0)
    assert stands.what == (
        "split 'topic-1' of 'clicks' (subtask 0) has not gone on for 3 min, and holds the watermark: "
        "no window behind it fires. The others of its source go on, and are up to 3 min ahead of it"
    )
    assert found(*goes_on, *split("topic-1", None, 180_000, idle=1)) == []
    assert found(*split("topic-0", 5, 90_000), *split("topic-1", 9, 90_000)) == [], "all are quiet"
    held_up = shares("0", "backpressured_ms", 0.9)
    assert found(*goes_on, *split("topic-1", 20_000, 180_000), *held_up) == []
    assert found(*goes_on, *split("topic-1", 300_000, 180_000)) == [], "it is ahead, and holds nothing"
    (empty,) = found(*goes_on, *split("topic-1", None, 60_000))
    assert "The others of its source go on" in empty.what


def test_a_poisoned_record_and_a_lost_machine_are_why_it_restarts() -> None:
    poison = "job.py:7: operator 'map': ValueError: no price\n  record: {'n': 3}"
    causes = [Reading("restarts", ("UserCodeError",), 3.0)]
    (again,) = found(*causes, failure=poison, restarts=3)
    assert (again.kind, again.what) == (
        FindingKind.RESTARTS,
        "the job has restarted 3 times and runs again. The last cause: job.py:7: operator 'map': "
        "ValueError: no price (UserCodeError 3 times)",
    )
    (waits,) = found(failure="1 of 2 slots are free", restarts=1, state=JobState.RESTARTING)
    assert waits.what == "the job does not run, and is to be tried again: 1 of 2 slots are free"
    (failed,) = found(failure=poison, state=JobState.FAILED)
    assert failed.what.startswith("the job has failed: job.py:7")
    assert found(failure="an older one", restarts=0) == []


def test_a_full_disk_is_why_checkpoints_fail() -> None:
    (full,) = found(
        checkpoint_failure="subtask 1: OSError: [Errno 28] No space left on device",
        checkpoints_failed=2,
    )
    assert (full.kind, full.operator) == (FindingKind.CHECKPOINTS, None)
    assert full.what == (
        "the newest checkpoint has failed: subtask 1: OSError: [Errno 28] No space left on device "
        "(2 of them so far; 4 completed)"
    )
