"""The programs of docs/testing.md, and the tests in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rheos.testing import servers
from rheos.testing.servers import HadoopCluster
from tests.docs.walks import program_of, sections

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
HADOOP = "Hadoop"
"""Section whose program starts servers."""
NAMES: dict[str, Any] = {"__name__": "__main__"}
for section in sections(PAGE):
    if section != HADOOP:
        program_of(PAGE, section=section, names=NAMES)
TESTS = {name: of for name, of in NAMES.items() if name.startswith("test_")}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_each_test_of_the_page_passes(
    test: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    given: dict[str, Any] = {
        name: request.getfixturevalue(name) for name in inspect.signature(test).parameters
    }
    if "rheos_seeds" in given:
        given["rheos_seeds"] = [0, 1]  # Further ones prove the same again.
    test(**given)


def test_the_program_of_hadoop_kills_a_daemon_and_starts_it_again(
    hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs with the cluster of all tests, which stays."""
    given: list[dict[str, Any]] = []

    def shared(**settings: Any) -> nullcontext[HadoopCluster]:
        given.append(settings)
        return nullcontext(hdfs)

    before = hdfs.name_node._processes()
    monkeypatch.setattr(servers, "HadoopCluster", shared)
    program_of(PAGE, section=HADOOP)
    assert given == [{"yarn": False}]
    assert hdfs.running
    assert hdfs.name_node._processes() != before
