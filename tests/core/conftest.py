"""Replays of operators' examples: each test has a sample of the ways, except with `--all-replays`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from rheos.testing import harness

SAMPLE = 3
"""Number of replays that are compared with the first one, of 12."""


@pytest.fixture
def all_replays() -> None:
    """Let a test replay its examples in all ways."""


@pytest.fixture(autouse=True)
def drawn_replays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw the ways by the name of the test, so that all tests together have each of them."""
    if request.config.getoption("--all-replays") or "all_replays" in request.fixturenames:
        yield
        return
    first, *others = harness.REPLAYS
    others.sort(key=lambda way: zlib.crc32(f"{way.name}: {request.node.nodeid}".encode()))
    with patch.object(harness, "REPLAYS", (first, *others[:SAMPLE])):
        yield
