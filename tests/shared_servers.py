"""Servers that all tests of a session share, each with its own topics, tables or keys.

A test may kill such a server and start it again. If that start fails, each later test would wait for
answers in vain, for a minute or more. So a stopped server is started again before the next test that
uses it. If that fails too, this and all later tests of the server fail at once, with the first reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rheos.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rheos.testing.servers import Server

_lost: dict[Server, str] = {}
"""Servers that could not be started again, with the reason."""


def running(server: Server) -> Iterator[Server]:
    """Run the server while tests need it. If it is not available, they are skipped."""
    from rheos.testing.pytest_plugin import installed

    installed(server)
    with server:
        yield server


def ensure_running(server: Server) -> None:
    """Start the server if a test has left it stopped. Fail the test if that failed, now or earlier."""
    if server.running:
        return
    if server not in _lost:
        try:
            server.start()
        except ConfigurationError as error:
            _lost[server] = str(error)
        else:
            return
    pytest.fail(f"an earlier test has stopped the shared server: {_lost[server]}", pytrace=False)
