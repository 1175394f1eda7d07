"""Text form of a job's status."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from rheos.cli.status import StatusDisplay, final_table, status_line, status_view, watermark_text
from rheos.core.protocol.durations import duration_text
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobState, JobStatus, OperatorStatus

NOON_MS = 1_741_953_600_000  # 2025-03-14T12:00:00Z

STATUS = JobStatus(
    job=JobId("visitors"),
    name="visitors per country",
    state=JobState.RUNNING,
    attempt=2,
    running_s=83.4,
    records_per_s=1_234_567.8,
    watermark_ms=NOON_MS,
    checkpoints_completed=8,
    checkpoints_failed=1,
    last_checkpoint_ms=123,
    restarts=1,
    busy_ratio=0.85,
    backpressure_ratio=0.031,
    operators=(
        OperatorStatus("a", "access log", 0, 1_000_000, NOON_MS),
        OperatorStatus("b", "[visits]", 1_000_000, 420, NOON_MS, {"late": 1_007, "dropped": 3}),
    ),
)


def rendered(what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (4_200, "4.2 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (35_600_000_000, "412 d 0 h"),
    ],
)
def test_a_duration_reads_in_two_units(ms: float, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("watermark_ms", "text"),
    [
        (None, "none"),
        (MIN_TIMESTAMP_MS, "none"),
        (MAX_TIMESTAMP_MS, "end of input"),
        (NOON_MS, "2025-03-14T12:00:00Z (2.0 s behind)"),
        (NOON_MS + 10_000, "2025-03-14T12:00:10Z (ahead)"),
        (-(10**17), "-100000000000000000 ms"),
    ],
)
def test_a_watermark_reads_as_a_time_and_its_lag(watermark_ms: int | None, text: str) -> None:
    assert watermark_text(watermark_ms, NOON_MS + 2_000) == text


def test_the_line_contains_everything() -> None:
    assert status_line(STATUS, NOON_MS + 1_500) == (
        "visitors per country: running for 1 min 23 s, 1,234,568 records/s, "
        "watermark 2025-03-14T12:00:00Z (1.5 s behind), "
        "checkpoints: 8 completed, 1 failed, the last took 123 ms, "
        "busy 85%, back-pressure 3%, restarts 1"
    )


def test_unauthenticated_peers_are_reported() -> None:
    assert status_line(replace(STATUS, strangers=3), NOON_MS).endswith(
        ", unauthenticated peers rejected 3"
    )


@pytest.mark.parametrize("state", list(JobState))
def test_a_restart_is_shown_with_its_reason(state: JobState) -> None:
    failed = replace(STATUS, state=state, failure="job.py:3: a slot was lost\n  what to do: wait")
    told = state is JobState.RESTARTING
    assert status_line(failed, NOON_MS).endswith("because of: job.py:3: a slot was lost") == told
    assert ("job.py:3: a slot was lost" in rendered(status_view(failed, NOON_MS))) == told
    assert "what to do" not in rendered(status_view(failed, NOON_MS))
    assert state.value in rendered(final_table(failed))


def test_the_view_contains_the_same() -> None:
    text = rendered(status_view(replace(STATUS, stage="ordinary stage: no barrier"), NOON_MS))
    assert "slots: tasks of one ordinary stage: no barrier" in text
    for part in (
        "visitors per country",
        "running",
        "1,234,568 records/s",
        "8 completed",
        "1 failed",
        "85%",
    ):
        assert part in text


def test_the_table_has_each_operator_with_what_it_counted() -> None:
    text = rendered(final_table(replace(STATUS, state=JobState.FINISHED)))
    assert "visitors per country finished after 1 min 23 s, restarts 1" in text
    assert "access log" in text
    (row,) = [line for line in text.splitlines() if "│ [visits]" in line]
    assert "1,007 rows were late at '[visits]'" in text
    assert "1,000,000" in row
    assert "dropped 3, late 1,007" in row


def test_without_a_terminal_lines_are_printed_at_intervals() -> None:
    out = io.StringIO()
    with StatusDisplay(Console(file=out)) as display:
        tell = display.listener(STATUS.name)
        tell(STATUS)
        tell(STATUS)
        tell(replace(STATUS, state=JobState.FINISHED))
    (line,) = out.getvalue().splitlines()
    assert "visitors per country: running" in line


def test_on_a_terminal_the_latest_status_is_shown_and_removed_at_the_end() -> None:
    out = io.StringIO()
    with StatusDisplay(Console(file=out, force_terminal=True, width=160)) as display:
        tell = display.listener(STATUS.name)
        tell(STATUS)
    shown = out.getvalue()
    assert "1,234,568 records/s" in shown
    assert shown.endswith("\x1b[2K")


def test_a_job_that_has_read_no_row_is_shown_as_such() -> None:
    began = replace(STATUS, records_per_s=0.0, operators=())
    assert ", no rows yet, " in status_line(began, 0)
