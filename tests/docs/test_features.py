"""The walk of docs/features.md: its commands write its files and run them, on a real local Spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell, steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
MOMENT = datetime(2026, 1, 1, 13, 22, tzinfo=UTC)


def is_served() -> bool:
    """Return whether a checkpoint contains the features of all purchases."""
    try:
        row = rh.query("shop").features("user_spend").get("ada", at=MOMENT)
    except RheosError:
        return False
    return bool(row["user_spend_at"] == datetime(2026, 1, 1, 13, 19, 59, 999_000, UTC))


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_the_walk_of_the_page_runs(shell: Shell) -> None:
    printed: dict[str, str] = {}
    for step in steps(PAGE):
        printed[step.code.split("\n")[0]] = shell.run(step.code)
        if step.code.endswith("&\n"):
            wait_for(is_served, WITHIN_S)
    assert Registry().records() == []
    trained = printed["python train.py"]
    shown = re.search(r"```text\n┌.*?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    rows = [line for line in shown[1].splitlines() if re.match("│ (ada|bo)", line)]
    assert len(rows) == 3
    assert [line for line in rows if line not in trained] == []
    looks = printed["python look.py"]
    assert "'total': 6.0, 'n': 1" in looks
    assert re.search(r"^bo +0\.0 +0 .* stale ", looks, re.MULTILINE)
    assert re.search(r"^eve +0\.0 +0 .* missing ", looks, re.MULTILINE)
    assert "3 of 3 answers are equal (100.00%)" in printed["python expected.py"]
