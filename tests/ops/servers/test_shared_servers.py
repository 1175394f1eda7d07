"""A shared server that a test has left stopped is started again, or ends later tests at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from tests import shared_servers
from tests.ops.servers.test_server import EchoServer


class FailingServer(EchoServer):
    """A server of which every start after the first one fails."""

    starts = 0

    def command(self, folder: Path, port: int) -> Sequence[str]:
        self.starts += 1
        if self.starts == 1:
            return super().command(folder, port)
        return [sys.executable, "-c", "print('the disk is full')"]


def test_a_stopped_server_is_started_again() -> None:
    with EchoServer() as server:
        address = server.address
        server.kill()
        shared_servers.ensure_running(server)
        assert server.running
        assert server.address == address


def test_tests_of_a_server_that_cannot_be_started_fail_at_once_with_one_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_servers, "_lost", {})
    with FailingServer() as server:
        server.kill()
        reasons = []
        for _ in range(3):
            with pytest.raises(pytest.fail.Exception, match="the disk is full") as raised:
                shared_servers.ensure_running(server)
            reasons.append(str(raised.value))
        assert len(set(reasons)) == 1
        assert server.starts == 2


def test_a_late_server_names_the_processor_time_that_it_got() -> None:
    class Late(EchoServer):
        ready_within_s = 0.0

        def command(self, folder: Path, port: int) -> Sequence[str]:
            return [sys.executable, "-c", "import signal; signal.pause()"]

    server = Late()
    with pytest.raises(ConfigurationError, match=r"not ready after 0 s, with \d+\.\d s of processor"):
        server.start()
    server.close()
