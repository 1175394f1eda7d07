"""Metrics of a benchmark as JSON and as a table."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from rheos.cli.benchmarks.driver import BenchResult, BenchSettings
from rheos.cli.benchmarks.programs import PROGRAMS, Load
from rheos.cli.benchmarks.recorder import MeasuredWindow
from rheos.cli.benchmarks.report import as_json, as_table
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobState, JobStatus

STATUS = JobStatus(JobId("b"), "bench", JobState.RUNNING, 1, 9.0, 1e6, None, 3, 0, 41, 0, 1.0, 0.5)
SETTINGS = BenchSettings(2, seconds=10, warmup_s=3, checkpoint_interval="2s")
LOAD = Load(2, keys=1000, rate_per_core=None, batch_rows=16_384, folder="f")
OUTCOME = BenchResult(
    PROGRAMS["grouping"],
    SETTINGS,
    LOAD,
    MeasuredWindow(3_000_000.4, (4.21234, 8.5, 12.75), 180.2, 181.9, 0.97),
    STATUS,
    cores=1.5,
)


def test_the_json_has_the_figures_and_their_conditions() -> None:
    assert as_json(OUTCOME) == {
        "name": "grouping",
        "records_per_s": 3_000_000,
        "records_per_s_per_core": 1_500_000,
        "cpu_share": 0.97,
        "cores": 1.5,
        "processor_us_per_record": 0.5,
        "latency_ms": {"p50": 4.212, "p90": 8.5, "p99": 12.75},
        "parallelism": 2,
        "keys": 1000,
        "rate_per_s_per_core": None,
        "seconds": 10,
        "warmup_s": 3,
        "batch_rows": 16_384,
        "state_backend": "memory",
        "buffer_timeout_ms": 10,
        "objective": None,
        "checkpoint_interval_ms": 2000,
        "checkpoints_completed": 3,
        "checkpoints_failed": 0,
        "last_checkpoint_ms": 41,
        "restarts": 0,
        "rss_mib": {"start": 180, "end": 182},
    }


def test_missing_metrics_are_null() -> None:
    settings = replace(SETTINGS, checkpoint_interval=None, buffer_timeout="-1")
    load = replace(LOAD, keys=None)
    window = MeasuredWindow(1.0, (None, None, None), 1.0, 1.0, 1.0)
    figures = as_json(BenchResult(PROGRAMS["grep"], settings, load, window, STATUS, cores=0.1))
    assert figures["latency_ms"] == {"p50": None, "p90": None, "p99": None}
    assert [figures[name] for name in ("keys", "checkpoint_interval_ms", "buffer_timeout_ms")] == [
        None
    ] * 3


def rendered(outcome: BenchResult) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(as_table(outcome))
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_the_table_shows_the_conditions() -> None:
    text = rendered(OUTCOME)
    assert "1,500,000" in text
    assert "4.21 ms" in text
    assert "0.500 µs" in text
    for part in ("1,000 keys", "full load", "buffer timeout 10 ms", "every 2000 ms"):
        assert part in text
