"""The experiments' page is generated from their results, and contains every experiment."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.paper.experiment import RESULTS, Options, in_turns, where
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.page import PAGE, rewrite

SAMPLES = Path(__file__).with_name("paper_results")
"""Results of an earlier run, made smaller. Their figures mean nothing."""

IMAGE = re.compile(r"!\[[^\]]+\]\((benchmarks/[\w-]+\.svg)\)")
NO_FIGURE = re.compile(r"\b(nan|None|inf)\b")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return Path(shutil.copy(PAGE, tmp_path))


def block(page: Path, name: str) -> str:
    """Return the part of the page about an experiment."""
    return page.read_text().partition(f"<!-- results: {name} -->\n")[2].partition("<!-- end -->")[0]


def test_results_are_shown_as_figure_table_and_sentences(page: Path) -> None:
    names = [e.name for e in EXPERIMENTS if (SAMPLES / f"{e.name}.json").exists()]
    assert rewrite(EXPERIMENTS, SAMPLES, page) == names
    for name in names:
        shown = block(page, name)
        images = [(page.parent / image).read_text() for image in IMAGE.findall(shown)]
        # Lost throughput is drawn only with its interval, for which the samples have too few rounds.
        assert images or name == "checkpoints"
        assert all(image.startswith("<svg") and "scheme: dark" in image for image in images)
        assert "|---|---:|" in shown
        assert f"`python -m benchmarks.paper {name} --quick`: " in shown
        assert NO_FIGURE.findall(shown) == []


def test_regenerating_a_page_changes_nothing(page: Path) -> None:
    rewrite(EXPERIMENTS[:1], SAMPLES, page)
    once = page.read_text()
    rewrite(EXPERIMENTS[:1], SAMPLES, page)
    assert page.read_text() == once


def test_the_page_matches_the_results(page: Path) -> None:
    rewrite(EXPERIMENTS, RESULTS, page)
    assert page.read_text() == PAGE.read_text(), "run: python -m benchmarks.paper page"


def test_results_without_a_place_on_the_page_are_an_error(page: Path) -> None:
    page.write_text("# Nothing here\n")
    with pytest.raises(ValueError, match="has no place for throughput"):
        rewrite(EXPERIMENTS[:1], SAMPLES, page)


def test_a_value_named_like_a_part_of_the_cell_does_not_replace_it() -> None:
    made = in_turns(Options(1, 1, quick=True), [{"cores": 2}], lambda _: {"cores": 1.93, "rate": 5})
    assert made == [{"cores": 2, "rate": 5, "round": 1}]


def test_runs_alternate_and_every_second_round_is_reversed() -> None:
    cells = [{"engine": "a"}, {"engine": "b"}]
    made = in_turns(Options(1, 2, quick=True), cells, lambda cell: {"rate": ord(cell["engine"])})
    assert [(run["round"], run["engine"]) for run in made] == [(1, "a"), (1, "b"), (2, "b"), (2, "a")]
    assert where(made, engine="b") == [
        {"engine": "b", "round": 1, "rate": 98},
        {"engine": "b", "round": 2, "rate": 98},
    ]
