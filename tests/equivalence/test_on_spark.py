"""Every program of the corpus agrees with its golden on Spark: continuously, rescaled, and in batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.equivalence.checks import check, each_program
from tests.equivalence.corpus.program import Program
from tests.equivalence.modes import Mode, runs
from tests.equivalence.runs import Batches

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mode], Batches]:
    kept: dict[Mode, Batches] = {}

    def of(mode: Mode) -> Batches:
        if mode not in kept:
            kept[mode] = Batches(mode, runs(mode), tmp_path_factory.mktemp(mode.name.lower()))
        return kept[mode]

    return of


@pytest.mark.parametrize(("program", "mode"), each_program("CONTINUOUS", "BATCH"))
def test_rows_equal_the_golden(
    program: Program, mode: Mode, batches: Callable[[Mode], Batches]
) -> None:
    check(program, mode, lambda: batches(mode).found(program))
