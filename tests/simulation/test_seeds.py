"""Random worlds: the rows committed under faults equal those of a plain oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.worlds import draw_world

SEEDS = range(8)


def corpus() -> list[int]:
    lines = (Path(__file__).parent / "corpus.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def check_seed(seed: int) -> None:
    try:
        draw_world(seed).run_and_check()
    except Exception as error:
        error.add_note(f"again: python -m tests.worlds {seed}")
        raise


@pytest.mark.parametrize("seed", corpus())
def test_seeds_that_failed_earlier(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("seed", sorted(set(SEEDS) - set(corpus())))
def test_random_worlds_agree_with_the_oracle(seed: int) -> None:
    check_seed(seed)
