"""The page of metrics has the table that the declarations generate. To update it: python -m
tests.docs.test_metrics"""

from __future__ import annotations

import re
from pathlib import Path

from rheos.core.metrics.declarations import METRICS, Kind, Metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TABLE = re.compile(r"(?<=<!-- metrics: made by tests/docs/test_metrics.py -->\n).*?(?=<!-- end)", re.S)


def table() -> str:
    lines = ["| metric | unit | kind | labels | what it is | in Flink |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *map(line, METRICS.values())]) + "\n"


def line(metric: Metric) -> str:
    merged = f", {metric.across.value}" if metric.kind is Kind.GAUGE and metric.scope.of_subtask else ""
    labels = ", ".join(metric.scope.labels) or "the job"
    flink = f"`{metric.flink}`" if metric.flink else ""
    cells = (f"`{metric.name}`", metric.unit.value, metric.kind.value + merged, labels, metric.meaning)
    return f"| {' | '.join(cells)} | {flink} |"


def test_the_page_lists_every_metric() -> None:
    assert TABLE.findall(PAGE.read_text()) == [table()], "write it: python -m tests.docs.test_metrics"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
