"""Effect of each fault on a link, and that all data arrives once the link is repaired."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from rheos.ops.chaos import faulty_proxy
from rheos.ops.chaos.faulty_proxy import FaultyProxy, LinkFault

QUIET_S = 0.05


@contextmanager
def linked(proxy: FaultyProxy, server: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_connection(("127.0.0.1", proxy.port)) as near, server.accept()[0] as far:
        near.sendall(b"!")
        assert received(far, 1) == b"!"
        near.settimeout(30)
        yield near, far


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def arrives(at: socket.socket) -> bool:
    """Return whether any data arrives within a moment."""
    at.settimeout(QUIET_S)
    try:
        return bool(at.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        at.settimeout(30)


def received(at: socket.socket, count: int) -> bytes:
    at.settimeout(30)
    data = b""
    while len(data) < count:
        data += at.recv(count - len(data))
    return data


@pytest.mark.parametrize("fault", LinkFault)
def test_delayed_data_arrives_in_order_after_the_fault_is_healed(
    server: socket.socket, fault: LinkFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_proxy, "_SLOW_S", 0.0)
    monkeypatch.setattr(faulty_proxy, "_RESENT_AFTER_S", (0.0, 0.01))
    with FaultyProxy(server.getsockname()[1]) as proxy, linked(proxy, server) as (near, far):
        near.sendall(b"before")
        assert received(far, 6) == b"before"
        proxy.strike(fault)
        near.sendall(b"to the server")
        far.sendall(b"from the server")
        if fault in (LinkFault.CUT, LinkFault.CUT_TO_SERVER):
            assert not arrives(far)
        if fault in (LinkFault.CUT, LinkFault.CUT_FROM_SERVER):
            assert not arrives(near)
        if fault is LinkFault.CUT_TO_SERVER:
            assert received(near, 15) == b"from the server"
        if fault is LinkFault.CUT_FROM_SERVER:
            assert received(far, 13) == b"to the server"
        near.sendall(b", and more")
        proxy.heal()
        if fault is not LinkFault.CUT_FROM_SERVER:
            assert received(far, 23) == b"to the server, and more"
        if fault is not LinkFault.CUT_TO_SERVER:
            assert received(near, 15) == b"from the server"


def test_a_frozen_link_accepts_nothing_and_closing_closes_both_ends(server: socket.socket) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultyProxy(server.getsockname()[1]))
        proxy.freeze()
        near = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
        server.settimeout(QUIET_S)
        with contextlib.suppress(TimeoutError):
            server.accept()
            raise AssertionError("a connection has passed")
        proxy.thaw()
        server.settimeout(30)
        far, _ = server.accept()
        near.sendall(b"!")
        assert received(far, 1) == b"!"
        near.close()
        assert far.recv(1) == b""
        far.close()
    with FaultyProxy(server.getsockname()[1]) as proxy, linked(proxy, server) as (near, far):
        proxy.close_connections()
        assert near.recv(1) == b""
        assert far.recv(1) == b""
