"""The page about operating has the table of findings that the declarations generate. To update it:
python -m tests.docs.test_health"""

from __future__ import annotations

import re
from pathlib import Path

from rheos.core.metrics.health import HealthState
from rheos.runtimes.health.kinds import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "health.md"
TABLE = re.compile(r"(?<=<!-- findings: made by tests/docs/test_health.py -->\n).*?(?=<!-- end)", re.S)


def table() -> str:
    lines = ["| finding | when | cause | remedy |", "|---|---|---|---|"]
    for kind, check in KINDS.items():
        lines.append(f"| `{kind.value}` | {check.means} | {check.cause} | {check.remedy} |")
    return "\n".join(lines) + "\n"


def test_the_page_lists_every_finding() -> None:
    assert TABLE.findall(PAGE.read_text()) == [table()], "write it: python -m tests.docs.test_health"


def test_the_page_lists_every_state() -> None:
    for state in HealthState:
        assert f"| *{state.value}* |" in PAGE.read_text()


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
