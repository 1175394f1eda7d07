"""Fixtures shared by the tests on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Started
from tests.waiting import wait_for

__all__ = ["ROOT", "Started", "wait_for"]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    started.end()
