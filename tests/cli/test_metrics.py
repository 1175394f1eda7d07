"""`rheos metrics` of a stand-in job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rheos.core.metrics.history_files import Grain, HistorySegment, encode_segment, segment_path
from rheos.runtimes.host.stores import open_store
from tests.cli.test_jobs import Start, kept, rheos, start

__all__ = ["kept", "start"]


def row(out: str, first: str) -> list[str]:
    (found,) = [line for line in out.splitlines() if line.startswith(first)]
    return found.split()


@pytest.fixture(autouse=True)
def job(start: Start) -> None:
    start()


def test_operators_and_subtasks_are_listed() -> None:
    code, out, _ = rheos("metrics", "job")
    assert code == 0
    assert row(out, "map") == ["map", "80", "30", "50", "%", "1.5", "s"]
    assert row(out, "0 ") == ["0", "128.0", "MB"]


def test_one_metric_is_shown_per_subtask() -> None:
    code, out, _ = rheos("metrics", "job", "--metric", "rows_in")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["operator", "subtask", "rows_in", "/s"],
        ["map", "0", "30", "10"],
        ["map", "1", "50", "20"],
    ]
    assert "n 3, p50" in rheos("metrics", "job", "--metric", "accumulated")[1]


def test_an_unknown_metric_is_refused() -> None:
    code, _, err = rheos("metrics", "job", "--metric", "row_in")
    assert code == 2
    assert "unknown metric 'row_in'" in err
    assert "rows_in" in err


def test_metrics_are_available_as_json() -> None:
    shown = json.loads(rheos("metrics", "job", "--json")[1])
    assert (shown["job"], shown["attempt"]) == ("job", 2)
    assert shown["metrics"]["restarts"]["readings"] == [{"cause": "TransportError", "value": 1}]
    one = json.loads(rheos("metrics", "job", "--metric", "sent_bytes", "--json")[1])
    assert one["readings"] == [{"edge": "0", "subtask": "0", "value": 4096, "per_s": 512.0}]


def test_the_history_of_metrics_is_shown() -> None:
    code, out, _ = rheos("metrics", "job", "--history", "--metric", "rows_in")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["time", "of", "rows_in", "map-1"],
        ["2023-11-14T21:56:40Z", "10", "min", "0", "s", "7.5"],
        ["2023-11-14T22:13:20Z", "10.0", "s", "5.0"],
        ["2023-11-14T22:13:30Z", "10.0", "s"],
    ]
    shown = json.loads(rheos("metrics", "job", "--history", "--json")[1])
    assert shown["coarse"]["values"] == [[7.5]]


def test_the_history_of_an_ended_job_is_shown(tmp_path: Path, kept: str) -> None:
    code, _, err = rheos("metrics", "job", "--checkpoint-dir", str(tmp_path / "none"))
    assert code == 2
    assert "does not exist" in err
    segment = HistorySegment("daily-visits", "fine", 10_000, ["cpu_ms"], [1_700_000_000_000], [[5.0]])
    path = segment_path("daily-visits/figures", Grain.FINE, 1_700_000_000_000)
    open_store(kept).put(path, encode_segment(path, segment))
    code, out, _ = rheos("metrics", "Daily visits", "--checkpoint-dir", kept)
    assert (code, out.splitlines()[-1].split()[0]) == (0, "2023-11-14T22:13:20Z")
