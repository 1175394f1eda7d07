"""Names that a request may use for this machine."""

from __future__ import annotations

import socket

import pytest

from rheos.connectors.listener.place import HostNames


@pytest.mark.parametrize(
    ("at", "host", "allowed"),
    [
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "[::1]:9", True),
        ("127.0.0.1", "LOCALHOST.", True),
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", "named.example", True),
        ("0.0.0.0", "10.0.0.1:9249", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "evil.example", False),
        ("worker.example", "worker.example:1", True),
    ],
)
def test_only_host_names_of_this_machine_are_allowed(at: str, host: str, allowed: bool) -> None:
    assert HostNames.of(at, ["Named.example"]).allow(host) is allowed
