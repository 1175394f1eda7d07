"""Evaluation of the soak's minutes, and counting of the published windows."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from rheos.cli.benchmarks.soak import (
    ROWS_PER_MS,
    WINDOW_MS,
    Minute,
    PublishedWindows,
    count_published,
    problems,
)
from rheos.cli.soak import line

RIGHT = PublishedWindows(3, 3, 0, 0)
MINUTE = Minute(1, 5e6, 0.5, 200.0, 90.0, 10 << 20, 1 << 20, 40, 3.0, 30 << 20, 12, 0, 0, 300, 120)


def minutes(**last: float) -> list[Minute]:
    """Return nine minutes, of which the last three differ from the others."""
    steady = [msgspec.structs.replace(MINUTE, number=n, checkpoints=n * 12) for n in range(1, 8)]
    changed = [msgspec.structs.replace(MINUTE, number=n, **last) for n in range(8, 11)]
    return steady + changed


def test_a_steady_run_has_no_problems() -> None:
    assert problems(minutes(), RIGHT) == []


def test_the_first_minute_is_warm_up() -> None:
    slow_start = [msgspec.structs.replace(MINUTE, records_per_s=9e9), *minutes()[1:]]
    assert problems(slow_start, RIGHT) == []


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ({"records_per_s": 4e6}, "the rate fell from 10,000,000 to 8,000,000 records per CPU second"),
        ({"worker_mib": 260.0}, "the memory of a worker grew from 200 to 260 MiB"),
        ({"driver_mib": 150.0}, "the memory of the driver grew from 90 to 150 MiB"),
        ({"checkpoint_bytes": 90 << 20}, "a checkpoint grew from 10 to 90 MiB"),
        ({"directory_bytes": 90 << 20}, "the checkpoint directory grew from 30 to 90 MiB"),
        ({"handles": 400}, "the number of open file handles grew from 300 to 400"),
        ({"threads": 140}, "the number of threads grew from 120 to 140"),
        ({"failed": 2}, "2 checkpoints failed"),
        ({"restarts": 1}, "the job was restarted 1 times"),
    ],
)
def test_failed_expectations_are_reported(last: dict[str, float], said: str) -> None:
    assert problems(minutes(**last), RIGHT) == [said]


def test_other_load_on_the_machine_is_no_problem() -> None:
    assert problems(minutes(records_per_s=1e6, cpu_share=0.1), RIGHT) == []


def test_wrong_windows_are_reported() -> None:
    (said,) = problems(minutes(), PublishedWindows(3, 3, 1, 2))
    assert said == "1 of 3 windows have other rows than were generated, and 2 keys were published twice"


def test_published_windows_are_counted(tmp_path: Path) -> None:
    whole = ROWS_PER_MS * WINDOW_MS
    frame = pl.DataFrame(
        {
            "k": [1, 2, 1, 1, 1],
            "window_start": [0, 0, 1, 2, 2],
            "rows": [whole, whole, 2 * whole - 1, whole, whole],
        }
    )
    frame.write_parquet(tmp_path / "part.parquet")
    counted = count_published(tmp_path, rows_per_ms=2 * ROWS_PER_MS)
    assert counted == PublishedWindows(3, 6 * whole - 1, wrong=1, doubled=1)
    assert count_published(tmp_path / "nothing", rows_per_ms=1) == PublishedWindows(0, 0, 0, 0)


def test_a_line_has_a_cell_for_each_column() -> None:
    cells = "1 5,000,000 50% 200 90 10.0 1.0 40 3.0 30.0 12 0 0 300 120"
    assert " ".join(line(MINUTE).split()) == cells
