"""The report at the end of a run: late rows, rejected records, and timers that were not due."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

import rheos as rh
from rheos.cli.status import final_table
from rheos.core.metrics.counters import ENGINE_COUNTERS
from rheos.runtimes.dropped_rows import CAUSES, dropped_rows
from rheos.runtimes.job import OperatorStatus


def test_the_report_names_operators_counts_and_what_to_do() -> None:
    clicks = OperatorStatus("a", "clicks", counters={"skipped": 1, "duplicates": 8})
    windows = OperatorStatus("b", "windows", counters={"late": 1_007, "late_purged": 3})
    assert dropped_rows([clicks, windows]) == (
        "1,007 rows were late at 'windows', 1 record was rejected at 'clicks' "
        '(late rows are in .side_output("late"), and a larger bound of the watermark leaves fewer; '
        'rejected records are in .side_output("rejected"))'
    )
    assert dropped_rows([OperatorStatus("a", "clicks", counters={"late": 0})]) is None
    assert CAUSES.keys() <= ENGINE_COUNTERS


def test_a_run_reports_what_it_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = ['{"user": "a", "at": 90000}', "no JSON", '{"user": "b", "at": 1000}']
    (tmp_path / "clicks.jsonl").write_text("\n".join(lines))
    env = rh.Environment(1, runtime="simulated")
    clicks = env.from_source(
        rh.files.source(
            tmp_path / "clicks.jsonl", format="jsonl", schema={"user": str, "at": int}, on_error="skip"
        ),
        watermark=rh.Watermark.monotonic(on="at"),
        name="clicks",
    )
    counts = clicks.key_by("user").window(rh.Tumbling("10s")).aggregate(rows=rh.agg.count())
    counts.name("counts").collect("counts")
    by_clock = clicks.key_by("user").window(rh.Tumbling("1h", time="processing_time"))
    by_clock.aggregate(rows=rh.agg.count()).name("by the clock").collect("by the clock")
    with caplog.at_level(logging.WARNING, logger="rheos"):
        result = env.execute("visits")
    assert result.dropped is not None
    for part in (
        "1 row was late at 'counts'",
        "1 record was rejected at 'clicks'",
        "were not due at 'by the clock'",
    ):
        assert part in result.dropped
    assert [each.getMessage() for each in caplog.records] == [f"job 'visits': {result.dropped}"]
    console = Console(file=io.StringIO(), width=1_000)
    console.print(final_table(result.status))
    assert isinstance(console.file, io.StringIO)
    assert result.dropped in console.file.getvalue()


def test_a_run_that_drops_nothing_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    env = rh.Environment(1, runtime="simulated")
    env.from_source(rh.collection([{"id": 1}])).collect("rows")
    assert env.execute("rows").dropped is None
    assert not caplog.records
