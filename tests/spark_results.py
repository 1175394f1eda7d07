"""Results of the tests on each version of Spark, which `scripts/test --spark` writes into a file.

A run with `--part` replaces the results of its version. A run of a smaller part does not replace a
whole one. A test that failed can be repeated: if it passes then, the results count it.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("spark_results.json")
PARTS = {"whole": "all that start Spark", "smallest": "the fewest that prove that jobs run"}
HEAD = [
    "Spark",
    "Python",
    "tests",
    "passed",
    "of these only when repeated",
    "failed",
    "skipped, and why",
]


def read() -> dict[str, dict[str, Any]]:
    """Return the results by version of Spark, such as 3.5, oldest first."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def rows() -> Iterator[list[str]]:
    """Yield the results of each version as cells below `HEAD`."""
    for result in read().values():
        yield [
            result["spark"],
            result["python"],
            PARTS[result["part"]],
            str(result["passed"]),
            str(len(result["repeated"])),
            str(len(result["failed"])),
            "; ".join(f"{count}: {why}" for why, count in result["skipped"].items()) or "—",
        ]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=PARTS, help="the tests of this run")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config.getoption("--part")))


class Recorder:
    """Recorder of the outcome of each test, which updates the file when the run ends."""

    def __init__(self, part: str | None) -> None:
        self._part = part
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped:
            self._skipped[report.nodeid] = _reason(report)
        elif report.when == "call":
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return  # Interrupted.
        results = read()
        spark = version("pyspark")
        line = ".".join(spark.split(".")[:2])
        passed = self._passed - self._failed
        if self._part:
            if self._part != "whole" and results.get(line, {}).get("part") == "whole":
                return
            results[line] = {
                "part": self._part,
                "spark": spark,
                "python": platform.python_version(),
                "passed": len(passed),
                "repeated": [],
                "failed": sorted(self._failed),
                "skipped": dict(sorted(Counter(self._skipped.values()).items())),
            }
        elif line in results:
            result = results[line]
            for test in result["failed"].copy():
                if test in passed:
                    result["passed"] += 1
                    result["repeated"].append(test)
                elif reason := self._skipped.get(test):
                    result["skipped"][reason] = result["skipped"].get(reason, 0) + 1
                else:
                    continue
                result["failed"].remove(test)
        FILE.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def _reason(report: pytest.TestReport) -> str:
    """Return the reason for which a test was skipped, without its place."""
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")
