"""The table of buffer timeouts, and the processes that stay between runs."""

from __future__ import annotations

import sys

import pytest

from benchmarks.peers.buffer_timeouts import HEADER, Cell, Run, line
from benchmarks.peers.lasting import LastingSystem

ECHO = """
import json, sys
for number, line in enumerate(sys.stdin):
    print("a line of a log")
    print(json.dumps({"cell": line.strip(), "number": number}), flush=True)
"""


def run(cores: float, p50_ms: float) -> Run:
    return {"cores": cores, "latency_ms": {"p50": p50_ms, "p99": 2 * p50_ms}}


def test_a_rate_is_divided_among_slots() -> None:
    assert "--parallelism 2 --rate 5000 --buffer-timeout 0 " in Cell(10_000, "0", 2).command


def test_a_line_compares_pairs_of_the_same_round() -> None:
    one, two = Cell(10_000, "10ms", 1), Cell(10_000, "10ms", 2)
    runs = {
        (one, "Rheos"): [run(0.1 * k, 5) for k in range(1, 6)],
        (one, "Flink"): [run(0.2 * k, 4) for k in range(1, 6)],
        (two, "Rheos"): [run(0.2 * k, 6) for k in range(1, 6)],
        (two, "Flink"): [run(0.2 * k, 4) for k in range(1, 6)],
    }
    columns = line(one, runs).split(" | ")
    assert len(columns) == HEADER[0].count(" | ") + 1
    assert columns[3] == "0.30 (0.10 to 0.50)"
    assert columns[5:7] == ["0.50 (0.50 to 0.50)", "0.50 (0.50 to 0.50)"]
    assert line(two, runs).split(" | ")[6] == ""


def test_disturbed_runs_are_left_out() -> None:
    cell = Cell(1_000, "0", 2)
    runs = {(cell, name): [{**run(1, 1), "disturbed": ["naps"]}] for name in ("Rheos", "Flink")}
    assert line(cell, runs).count("none") == 6


def test_a_lasting_process_answers_each_cell() -> None:
    system = LastingSystem([sys.executable, "-c", ECHO])
    try:
        assert system.measure("grouping", 2) == {"cell": "grouping --seconds 2", "number": 0}
        assert system.measure("grep", 0.5) == {"cell": "grep --seconds 0.5", "number": 1}
    finally:
        system.close()


def test_a_process_that_has_ended_is_an_error() -> None:
    system = LastingSystem([sys.executable, "-c", "input()"])
    try:
        with pytest.raises(RuntimeError, match="no answer"):
            system.measure("grouping", 2)
    finally:
        system.close()
