"""Assertions about a program in a mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import polars as pl
import pytest

from tests.equivalence.compare import difference
from tests.equivalence.corpus import PROGRAMS
from tests.equivalence.corpus.program import Golden, Program
from tests.equivalence.modes import Mode, gap, is_slow
from tests.equivalence.runs import Found


@cache
def golden(program: Program) -> Mapping[str, Golden]:
    found = program.golden()
    return {
        sink: rows if isinstance(rows, pl.DataFrame) else list(rows) for sink, rows in found.items()
    }


def each_program(*kinds: str) -> list[Any]:
    """Parametrize with programs in modes whose names begin like this, except where the mode does not
    apply."""
    found = []
    for mode in Mode:
        if mode.name.startswith(kinds):
            for program in PROGRAMS:
                declared = gap(program, mode)
                if declared is None or declared.raises is not None:
                    marks = [pytest.mark.spark] if program.spark else []
                    if is_slow(program, mode):
                        marks.append(pytest.mark.slow)
                    name = f"{mode.value}: {program.name}"
                    found.append(pytest.param(program, mode, marks=marks, id=name))
    return found


def check(program: Program, mode: Mode, run: Callable[[], Found]) -> None:
    """Check that the rows of all sinks equal the golden; or that the gap is as declared."""
    declared = gap(program, mode)
    if declared is not None:
        assert declared.raises is not None
        with pytest.raises(declared.raises, match=declared.match):
            run()
        return
    found, wanted = run(), golden(program)
    assert set(found) == set(wanted)
    wrong = {
        sink: what
        for sink, rows in wanted.items()
        if (what := difference(found[sink], rows, program.views.get(sink))) is not None
    }
    assert not wrong, "\n".join(f"{sink}: {what}" for sink, what in wrong.items())
