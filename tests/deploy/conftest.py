"""Fixtures of the tests of deployment: a program in files, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import Standalone, Started


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    started = Started(tmp_path_factory.mktemp("output"))
    yield started
    started.end()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory, started: Started) -> Standalone:
    return Standalone(tmp_path_factory.mktemp("cluster"), started, cores=2)
