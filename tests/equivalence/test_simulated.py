"""Every program of the corpus agrees with its golden in simulation: in one run, resumed, rescaled, and
with state on disk.

Programs that need a Spark session even there are pytest.mark.spark (`checks.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.checks import check, each_program
from tests.equivalence.corpus.program import Program
from tests.equivalence.modes import Mode
from tests.equivalence.runs import simulated


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("program", "mode"), each_program("SIMULATED"))
def test_rows_equal_the_golden(
    program: Program, mode: Mode, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if program.spark:
        request.getfixturevalue("spark")
    check(program, mode, lambda: simulated(program, mode, tmp_path))
