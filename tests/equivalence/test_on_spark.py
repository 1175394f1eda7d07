"""Programs of the corpus agree with their goldens on Spark: continuously, rescaled, and in batch.

With every change each program runs in one mode (`modes.py`); the other modes are slow.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.equivalence.checks import check, each_program
from tests.equivalence.corpus.program import Program
from tests.equivalence.modes import Mode, gap
from tests.equivalence.runs import Batches

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def batches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Mode], Batches]:
    tested: dict[Mode, list[Program]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path:
            mode, program = item.callspec.params["mode"], item.callspec.params["program"]
            if gap(program, mode) is None:
                tested.setdefault(mode, []).append(program)
    kept: dict[Mode, Batches] = {}

    def of(mode: Mode) -> Batches:
        if mode not in kept:
            folder = tmp_path_factory.mktemp(mode.name.lower())
            kept[mode] = Batches(mode, tested.get(mode, []), folder)
        return kept[mode]

    return of


@pytest.mark.parametrize(("program", "mode"), each_program("CONTINUOUS", "BATCH"))
def test_rows_equal_the_golden(
    program: Program, mode: Mode, batches: Callable[[Mode], Batches]
) -> None:
    check(program, mode, lambda: batches(mode).found(program))
