"""The pytest plugin: its option, its fixtures, and no cost if it is not used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rheos.ops.control.registry import Registry
from rheos.testing.pytest_plugin import _seeds


def test_seeds_are_parsed_from_the_command_line() -> None:
    assert _seeds("17") == [17]
    assert _seeds("3,5") == [3, 5]
    assert _seeds("0-2,9") == [0, 1, 2, 9]
    for text in ("", "a", "1-", "-1", "1;2"):
        with pytest.raises(ValueError) as found:  # noqa: PT011 - pytest says of which option.
            _seeds(text)
        assert found.value.args == (text,)


def test_five_seeds_are_the_default(rheos_seeds: list[int]) -> None:
    assert rheos_seeds == [0, 1, 2, 3, 4]


def test_the_harness_fixture_runs_a_program(rheos_harness: Callable[..., Any]) -> None:
    harness = rheos_harness(lambda rows: rows, {"n": int})
    harness.give({"n": 1})
    assert harness.take() == [{"n": 1}]


def test_the_home_fixture_has_no_jobs(rheos_home: Path) -> None:
    assert list(Registry().records()) == []
    assert rheos_home.is_dir()


def test_a_real_server_is_started_once(rheos_server: Callable[[str], Any]) -> None:
    first = rheos_server("redis")
    assert first.running
    assert rheos_server("redis") is first


def test_the_plugin_imports_nothing_until_a_fixture_is_used() -> None:
    code = (
        "import sys, rheos.testing.pytest_plugin as _; "
        "print({'pyspark', 'pyarrow', 'polars'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
