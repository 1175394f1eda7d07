"""The experiments' page says what their results say, and every experiment has its place there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.paper.experiment import RESULTS, Options, in_turns, where
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.page import PAGE, rewrite


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return Path(shutil.copy(PAGE, tmp_path))


def test_the_page_is_what_the_results_say(page: Path) -> None:
    rewrite(EXPERIMENTS, RESULTS, page)
    assert page.read_text() == PAGE.read_text(), "run: python -m benchmarks.paper page"


def test_every_experiment_has_its_place_on_the_page() -> None:
    text = PAGE.read_text()
    assert [e.name for e in EXPERIMENTS if f"<!-- results: {e.name} -->\n" not in text] == []


def test_runs_are_made_in_turns_and_every_second_round_backwards() -> None:
    cells = [{"engine": "a"}, {"engine": "b"}]
    made = in_turns(Options(1, 2, quick=True), cells, lambda cell: {"rate": ord(cell["engine"])})
    assert [(run["round"], run["engine"]) for run in made] == [(1, "a"), (1, "b"), (2, "b"), (2, "a")]
    assert where(made, engine="b") == [
        {"engine": "b", "round": 1, "rate": 98},
        {"engine": "b", "round": 2, "rate": 98},
    ]
