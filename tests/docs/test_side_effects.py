"""The program of docs/side-effects.md: what it prints, and which runs refuse it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program, run_file
from rheos.core.errors import ConfigurationError
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.ops.planning.sampled_plan import sampled_plan

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "side-effects.md"
PROGRAM = ROOT / "examples" / "charges.py"


def test_the_program_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text()
    (line,) = [line for line in PROGRAM.read_text().splitlines() if ".call_once(" in line]
    assert f"    {line}\n" in page
    run_file(PROGRAM, [])
    shown = re.search(r'^```text title="Output"\n(.*?)^```$', page, re.M | re.S)
    assert shown is not None
    assert capsys.readouterr().out == shown[1]


def test_runs_that_must_change_nothing_are_refused() -> None:
    plan = planned_program(PROGRAM, [], Overrides())
    with pytest.raises(ConfigurationError, match="a sample must change nothing") as raised:
        sampled_plan(plan)
    assert raised.value.site is not None
    assert Path(raised.value.site.file).name == "charges.py"
    with pytest.raises(ConfigurationError, match="a fork must change nothing"):
        refuse_outside_effects(plan, "a fork")
