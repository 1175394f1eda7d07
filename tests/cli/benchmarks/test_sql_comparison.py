"""Comparison of pairs of programs: their order, and the ratios."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.sql_comparison import SQL, ProgramPair, comparison_object, run_pairs


def test_the_programs_of_a_pair_alternate() -> None:
    asked: list[str] = []

    def measure(name: str) -> dict[str, Any]:
        asked.append(name)
        return {"records_per_s": 1, "processor_us_per_record": 1.0}

    run_pairs([ProgramPair("a", "b", 0.9), ProgramPair("c", "d", 0.9)], measure, rounds=2)
    assert asked == ["a", "b", "c", "d", "b", "a", "d", "c"]


@pytest.mark.parametrize(("target", "held"), [(0.7, True), (0.9, False)])
def test_ratios_are_medians_over_the_rounds(target: float, held: bool) -> None:
    figures = {
        "a": iter([(50, 2.5), (90, 2.0), (10, 4.0)]),
        "b": iter([(100, 2.0), (100, 2.0), (5, 2.0)]),
    }

    def measure(name: str) -> dict[str, Any]:
        rate, us = next(figures[name])
        return {"records_per_s": rate, "processor_us_per_record": us}

    [found] = run_pairs([ProgramPair("a", "b", target)], measure, rounds=3)
    assert (found.rate_ratio, found.processor_time_ratio, found.reached_target) == (0.9, 0.8, held)
    assert comparison_object(found)["processor_time_ratio"] == 0.8


def test_compared_programs_are_benchmarks() -> None:
    assert {name for each in SQL for name in (each.name, each.baseline)} <= set(PROGRAMS)
