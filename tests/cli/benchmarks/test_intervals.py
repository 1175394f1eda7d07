"""Intervals contain the median as often as they promise, and too few rounds show no difference."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.disturbance import QuietRuns, disturbances, summary
from benchmarks.paper.experiment import extended
from benchmarks.paper.page import PAGE, TOO_FEW, block
from benchmarks.paper.tables import are_enough, pairs, spread
from rheos.cli.benchmarks.intervals import (
    CONFIDENCE,
    MIN_ROUNDS,
    Interval,
    cell,
    change,
    change_text,
    median_interval,
    ratio,
    ratio_cell,
)

NEXMARK = PAGE.with_name("nexmark.md")
FEW_ROUNDS = re.compile(
    r"\b(one|two|three|four|[1-4]) rounds?\b|--rounds [1-4]\b(?! --more)", re.IGNORECASE
)
BLOCKS = re.compile(r"<!-- results: [\w-]+ -->\n(.*?)<!-- end -->", re.DOTALL)


@pytest.mark.parametrize("count", [5, 6, 9, 15, 40])
def test_an_interval_contains_the_median_as_often_as_promised(count: int) -> None:
    random = Random(count)
    inside = 0
    for _ in range(3_000):
        # A skewed distribution whose median is 1.
        found = median_interval([2 ** random.gauss(0, 1) for _ in range(count)])
        assert found is not None
        inside += found.contains(1)
    assert inside / 3_000 > CONFIDENCE - 0.02


def test_fewer_than_five_rounds_have_no_interval() -> None:
    assert median_interval([1.0] * (MIN_ROUNDS - 1)) is None
    assert ratio([(2.0, 1.0)] * (MIN_ROUNDS - 1)) is None
    assert change([(2.0, 1.0)] * (MIN_ROUNDS - 1)) is None
    assert ratio_cell([(2.0, 1.0)] * (MIN_ROUNDS - 1)) == change_text(None) == ""
    assert cell([12.34] * (MIN_ROUNDS - 1), "{:.2f}".format) == "~12"
    assert cell([12.34] * MIN_ROUNDS, "{:.2f}".format) == "12.34 (12.34 to 12.34)"


def test_a_difference_whose_interval_contains_zero_is_not_seen() -> None:
    noise = [(1.3, 1.0), (0.7, 1.0), (1.1, 1.0), (1.2, 1.0), (1.0, 1.0)]
    assert change_text(change(noise)) == "no difference seen (-30.0 % to 30.0 %)"
    assert change_text(change([(ours + 0.4, theirs) for ours, theirs in noise])) == (
        "50.0 % (10.0 % to 70.0 %)"
    )
    assert Interval(0.5, 0.2, 0.6).map(lambda value: -value) == Interval(-0.5, -0.6, -0.2)


def test_pairs_are_of_one_round_in_which_both_were_quiet() -> None:
    ours = [{"round": number, "rate": 10 + number} for number in (1, 2, 3)]
    theirs: list[dict[str, Any]] = [
        {"round": 3, "rate": 1},
        {"round": 2, "rate": 2, "disturbed": ["naps"]},
    ]
    assert pairs(ours, theirs, "rate") == [(13, 1)]


def test_disturbed_runs_are_left_out_of_cells_and_sentences() -> None:
    runs: list[dict[str, Any]] = [
        {"round": number, "rate": number} for number in range(1, MIN_ROUNDS + 1)
    ]
    assert are_enough(runs)
    assert spread(runs, "rate") == "3.00 (1.00 to 5.00)"
    runs[0]["disturbed"] = ["naps took 9.0 ms"]
    assert not are_enough(runs)
    assert spread(runs, "rate") == "~3.5"


@pytest.mark.parametrize(
    ("run", "naps", "found"),
    [
        ({}, [0.1] * 999 + [9.0], []),
        ({}, [0.1] * 990 + [9.0] * 10, ["naps took 9.0 ms"]),
        ({"cpu_share": 0.71, "parallelism": 2, "rate_per_s_per_core": None}, [], ["71%"]),
        ({"cpu_share": 0.71, "parallelism": 2, "rate_per_s_per_core": 30_000}, [], []),
        ({"cpu_share": 0.24, "parallelism": 8, "rate_per_s_per_core": None}, [], []),
        ({"cpu_share": 0.1, "parallelism": 8, "rate_per_s_per_core": None}, [], ["40%"]),
    ],
)
def test_signs_of_other_load(run: dict[str, float], naps: list[float], found: list[str]) -> None:
    signs = disturbances(run, naps, cores=2)
    assert len(signs) == len(found)
    assert all(part in sign for part, sign in zip(found, signs, strict=True))


def test_a_disturbed_run_is_repeated_a_bounded_number_of_times() -> None:
    naps = iter([[0.1], [9.0], [0.1], [0.1], *[[9.0]] * 4])
    numbers = iter(range(10))
    quiet = QuietRuns(2, repeats=2, naps=lambda _: next(naps))

    def measure() -> dict[str, float]:
        return {"number": next(numbers)}

    # The naps before the second run are those after the first one, so its third run is the quiet one.
    assert quiet(measure)["number"] == 2
    last = quiet(measure)
    assert (last["repeats"], last["disturbed"]) == (2, ["naps took 9.0 ms"])
    assert summary([{"rate": 1}]) == ""
    assert "1 of 2 runs were repeated, and 1 left out" in summary([last, {"rate": 1}])


def test_rounds_of_several_sittings_are_added() -> None:
    first = {
        "machine": {"cores": 2},
        "options": {"seconds": 5, "rounds": 2, "quick": False},
        "took_s": 10,
        "results": {"keys": 1, "runs": [{"round": 1}, {"round": 2}]},
    }
    more = {**first, "options": {"seconds": 5, "rounds": 1, "quick": False}}
    more["results"] = {"keys": 1, "runs": [{"round": 1}]}
    both = extended(first, more)
    assert [run["round"] for run in both["results"]["runs"]] == [1, 2, 3]
    assert both["options"]["rounds"] == 3
    with pytest.raises(ValueError, match="cores 2, and these 4"):
        extended(first, {**more, "machine": {"cores": 4}})


def test_a_block_with_a_value_of_too_few_rounds_says_so() -> None:
    result: dict[str, Any] = {"results": {"runs": []}}
    assert block("| ~14 |", result, "note").startswith(TOO_FEW)
    assert TOO_FEW not in block("| 14 (13 to 15) |", result, "note")


@pytest.mark.parametrize("page", [PAGE, NEXMARK], ids=lambda page: page.stem)
def test_no_page_compares_fewer_than_five_rounds(page: Path) -> None:
    text = page.read_text()
    for shown in BLOCKS.findall(text):
        if "| | |" in shown:
            continue  # One long run, whose records are its samples.
        rounds = re.search(r"(\d+) rounds?[,`]|--rounds (\d+)", shown)
        assert rounds is not None, shown[-300:]
        is_enough = int(rounds[1] or rounds[2]) >= MIN_ROUNDS
        assert is_enough or TOO_FEW in shown, shown[:300]
    for paragraph in re.split(r"\n\n|\n(?=\|)", BLOCKS.sub("", text)):
        if FEW_ROUNDS.search(paragraph) and not paragraph.startswith("```"):
            assert "ot enough rounds" in paragraph, paragraph
