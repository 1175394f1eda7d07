"""The page of tested servers and faults has what tests declare, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.proofs import PAGE, ROOT, SERVERS, Proof, page, proofs_of


class Marked:
    """Test with marks, as `proofs_of` sees it."""

    nodeid = "tests/test_one.py::test_one"

    def __init__(self, *marks: pytest.MarkDecorator) -> None:
        self._marks = [each.mark for each in marks]

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [each for each in self._marks if each.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


def declared(*marks: pytest.MarkDecorator) -> list[Proof]:
    item: Any = Marked(*marks)
    return list(proofs_of(item))


def test_the_page_is_what_the_tests_declare() -> None:
    command = [sys.executable, "-m", "tests.proofs", "--print"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr[-4000:]
    assert PAGE.read_text() == made.stdout, "run scripts/tested"


def test_an_unknown_server_and_a_slow_test_without_a_reason_are_refused() -> None:
    with pytest.raises(pytest.UsageError, match="'Kafak' is unknown"):
        declared(pytest.mark.proves("Kafak"))
    with pytest.raises(pytest.UsageError, match="states the reason"):
        declared(pytest.mark.proves("Kafka"), pytest.mark.slow)
    with pytest.raises(pytest.UsageError, match="is a list of strings"):
        declared(pytest.mark.proves("Kafka", faults="the broker is killed"))


def test_a_server_without_a_test_has_no_page() -> None:
    every = [Proof(name, (), "tests/test_one.py", "") for name in SERVERS]
    assert "tests/test_one.py" in page(every)
    with pytest.raises(LookupError, match="no test declares"):
        page(every[1:])


def test_the_reason_counts_only_if_the_test_is_slow() -> None:
    mark = pytest.mark.proves("Redis", faults=["killed"], slow_because="it takes a minute")
    assert declared(mark)[0].slow_because == ""
    assert declared(mark, pytest.mark.slow)[0].slow_because == "it takes a minute"
