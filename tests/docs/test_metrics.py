"""The page of figures has the table that the declarations make.

To write it anew: python -m tests.docs.test_metrics
"""

from __future__ import annotations

import re
from pathlib import Path

from rheos.core.metrics.figures import FIGURES, Figure, Kind

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TABLE = re.compile(r"(?<=<!-- figures: made by tests/docs/test_metrics.py -->\n).*?(?=<!-- end)", re.S)


def table() -> str:
    lines = ["| figure | unit | kind | labels | what it is | in Flink |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *map(line, FIGURES.values())]) + "\n"


def line(figure: Figure) -> str:
    merged = f", {figure.across.value}" if figure.kind is Kind.GAUGE and figure.scope.of_subtask else ""
    labels = ", ".join(figure.scope.labels) or "the job"
    flink = f"`{figure.flink}`" if figure.flink else ""
    cells = (f"`{figure.name}`", figure.unit.value, figure.kind.value + merged, labels, figure.meaning)
    return f"| {' | '.join(cells)} | {flink} |"


def test_the_page_lists_every_figure() -> None:
    assert TABLE.findall(PAGE.read_text()) == [table()], "write it: python -m tests.docs.test_metrics"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
