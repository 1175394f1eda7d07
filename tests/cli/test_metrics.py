"""`rheos metrics`, of a stand-in."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_jobs import Start, rheos, start

__all__ = ["start"]


def row(out: str, first: str) -> list[str]:
    (found,) = [line for line in out.splitlines() if line.startswith(first)]
    return found.split()


@pytest.fixture(autouse=True)
def job(start: Start) -> None:
    start()


def test_operators_and_subtasks() -> None:
    code, out, _ = rheos("metrics", "job")
    assert code == 0
    assert row(out, "map") == ["map", "80", "30", "50", "%", "1.5", "s"]
    assert row(out, "0 ") == ["0", "128.0", "MB"]


def test_one_figure_of_each_subtask() -> None:
    code, out, _ = rheos("metrics", "job", "--figure", "rows_in")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["operator", "subtask", "rows_in", "/s"],
        ["map", "0", "30", "10"],
        ["map", "1", "50", "20"],
    ]
    assert "n 3, p50" in rheos("metrics", "job", "--figure", "accumulated")[1]


def test_a_figure_that_is_none() -> None:
    code, _, err = rheos("metrics", "job", "--figure", "row_in")
    assert code == 2
    assert "there is no figure 'row_in'" in err
    assert "rows_in" in err


def test_as_json() -> None:
    shown = json.loads(rheos("metrics", "job", "--json")[1])
    assert (shown["job"], shown["attempt"]) == ("job", 2)
    assert shown["figures"]["restarts"]["readings"] == [{"cause": "TransportError", "value": 1}]
    one = json.loads(rheos("metrics", "job", "--figure", "sent_bytes", "--json")[1])
    assert one["readings"] == [{"edge": "0", "subtask": "0", "value": 4096, "per_s": 512.0}]
