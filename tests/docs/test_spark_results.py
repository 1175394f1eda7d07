"""The results of each version of Spark are of whole runs, and what was skipped has a reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rheos.connectors.spark.versions import installed
from tests import spark_results

VERSION = ".".join(installed().split(".")[:2])


class Run:
    """Run of some tests with the plugin, without the tests."""

    def __init__(self, part: str | None = None) -> None:
        self._recorder = spark_results.Recorder(part)

    def report(self, test: str, outcome: Any, when: Any = "call", why: Any = None) -> None:
        report = pytest.TestReport(test, ("", 0, ""), {}, outcome, why, when)
        self._recorder.pytest_runtest_logreport(report)

    def end(self, code: int = pytest.ExitCode.TESTS_FAILED) -> dict[str, Any]:
        self._recorder.pytest_sessionfinish(code)
        return spark_results.read().get(VERSION, {})


@pytest.fixture
def no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_results, "FILE", tmp_path / "results.json")


@pytest.mark.usefixtures("no_results")
def test_a_whole_run_replaces_the_results_of_its_version() -> None:
    run = Run("whole")
    run.report("setup fails", "failed", when="setup")
    run.report("passes", "passed", when="setup")
    run.report("passes", "passed")
    run.report("teardown fails", "passed")
    run.report("teardown fails", "failed", when="teardown")
    run.report("is skipped", "skipped", when="setup", why=("a.py", 1, "Skipped: x: since Spark 4.0"))
    found = run.end()
    assert (found["spark"], found["passed"]) == (installed(), 1)
    assert found["failed"] == ["setup fails", "teardown fails"]
    assert found["skipped"] == {"x: since Spark 4.0": 1}
    assert next(spark_results.rows())[3:] == ["1", "0", "2", "1: x: since Spark 4.0"]
    Run("whole").end()
    assert next(spark_results.rows())[3:] == ["0", "0", "0", "—"]


@pytest.mark.usefixtures("no_results")
def test_a_failed_test_that_passes_when_repeated_is_counted() -> None:
    run = Run("whole")
    run.report("first", "failed")
    run.report("second", "failed")
    run.report("third", "failed")
    run.end()
    run = Run()
    run.report("first", "passed")
    run.report("second", "failed")
    run.report("third", "skipped", why=("a.py", 1, "Skipped: x: since Spark 4.0"))
    run.report("another", "passed")
    found = run.end()
    assert (found["passed"], found["repeated"], found["failed"]) == (1, ["first"], ["second"])
    assert found["skipped"] == {"x: since Spark 4.0": 1}


@pytest.mark.usefixtures("no_results")
@pytest.mark.parametrize("part", [None, "whole"])
def test_a_run_that_is_interrupted_or_has_no_whole_one_before_it_changes_nothing(
    part: str | None,
) -> None:
    run = Run(part)
    run.report("first", "passed")
    assert run.end(pytest.ExitCode.INTERRUPTED if part else pytest.ExitCode.OK) == {}


@pytest.mark.usefixtures("no_results")
def test_a_smaller_part_does_not_replace_a_whole_run() -> None:
    for part, parts in (("smallest", "smallest"), ("whole", "whole"), ("smallest", "whole")):
        assert Run(part).end()["part"] == parts


def test_results_of_the_tree_have_a_reason_for_each_skipped_test() -> None:
    results = spark_results.read()
    assert results
    for version, result in results.items():
        assert result["failed"] == [], f"Spark {version}"
        later = [
            why
            for why in result["skipped"]
            if (since := re.search(r": since Spark ([\d.]+)$", why)) is None or since[1] <= version
        ]
        assert later == [], f"Spark {version} has this feature, or the reason names none"
