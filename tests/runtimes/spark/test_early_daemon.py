"""A daemon of Python workers that starts before Spark requests one: it takes over from the daemon
that Spark starts, or does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from rheos.runtimes.spark import early_daemon
from rheos.runtimes.spark.daemon_handover import PLACE
from rheos.runtimes.spark.early_daemon import EarlyDaemon

AHEAD = """
import os, sys
from rheos.runtimes.spark.daemon_handover import stands_in
if stands_in(sys.argv[1], lambda: print("imports")):
    what = [os.environ["SECRET"], os.getcwd(), sys.path[-1], sys.argv[1:], sys.stdin.read()]
    print(__import__("json").dumps([os.getpid(), *what]))
"""
SPARKS = """
import os, sys
from rheos.runtimes.spark.daemon_handover import another_stands_in
sys.path.append("of Spark")
if not another_stands_in():
    print(os.getpid(), "does it itself")
"""


def python(program: str, *arguments: str, **others: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **others,  # type: ignore[call-overload]
    )


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "daemon")


@pytest.fixture
def ahead(place: str) -> Iterator[subprocess.Popen[str]]:
    with python(AHEAD, place) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "imports\n"  # The socket existed before.
        yield process
        process.kill()


def sparks(place: str, folder: Path) -> subprocess.Popen[str]:
    return python(
        SPARKS, "pyspark.worker", env={**os.environ, PLACE: place, "SECRET": "word \udce4"}, cwd=folder
    )


def test_the_early_daemon_receives_everything_from_spark(
    ahead: subprocess.Popen[str], place: str, tmp_path: Path
) -> None:
    with sparks(place, tmp_path) as of_spark:
        said, _ = of_spark.communicate("to the daemon")
    found = json.loads(said)
    assert found == [
        ahead.pid,
        "word \udce4",
        str(tmp_path),
        "of Spark",
        ["pyspark.worker"],
        "to the daemon",
    ]
    assert (of_spark.returncode, ahead.wait()) == (0, 0)


def test_only_the_first_request_finds_the_early_daemon(
    ahead: subprocess.Popen[str], place: str, tmp_path: Path
) -> None:
    with sparks(place, tmp_path) as first, sparks(place, tmp_path) as second:
        said = [each.communicate()[0] for each in (first, second)]
    itself = [f"{each.pid} does it itself\n" for each in (first, second)]
    assert sum(each in itself for each in said) == 1
    assert sum(each.startswith(f"[{ahead.pid}, ") for each in said) == 1


def test_without_an_early_daemon_sparks_own_is_used(place: str, tmp_path: Path) -> None:
    with sparks(place, tmp_path) as of_spark:
        said, _ = of_spark.communicate()
    assert said == f"{of_spark.pid} does it itself\n"


def test_the_early_daemon_ends_with_the_driver(ahead: subprocess.Popen[str]) -> None:
    assert ahead.communicate() == ("", None)
    assert ahead.returncode == 0


def test_an_unused_real_daemon_is_ended() -> None:
    daemon = EarlyDaemon()
    assert daemon.came_up()
    daemon.close()
    assert daemon._process.poll() == -signal.SIGTERM
    assert not os.path.exists(os.path.dirname(daemon.place))


def test_no_daemon_starts_if_python_cannot_import_rheos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the driver imports Rheos from a special path, Spark's daemon could not find it, either."""
    monkeypatch.setattr(early_daemon, "_MODULE", "rheos.runtimes.spark.nowhere")
    daemon = EarlyDaemon()
    assert not daemon.came_up()
    daemon.close()
