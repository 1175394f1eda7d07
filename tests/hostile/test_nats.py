"""A NATS server that announces a huge payload, or sends a line without an end, is not waited for."""

from __future__ import annotations

import asyncio

import pytest

from rheos.connectors.nats.bounded_parser import MAX_MESSAGE_BYTES, bound_parser

nats = pytest.importorskip("nats")


def receive(*data: bytes) -> int:
    """Let a client receive data. Return the number of bytes that it then buffers."""
    connection = nats.NATS()
    bound_parser(connection)

    async def received() -> None:
        for each in data:
            await connection._ps.parse(each)

    asyncio.run(received())
    return len(connection._ps.buf)


def test_a_message_of_the_largest_size_is_waited_for() -> None:
    assert receive(b"MSG a 1 %d\r\n" % MAX_MESSAGE_BYTES, b"x" * 1000) == 1000
    assert receive(b"MSG a 1 3\r\nabc\r\n", b"MSG a 1 3\r\nabc\r\n") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"MSG a 1 %d\r\n" % (MAX_MESSAGE_BYTES + 1),
        b"HMSG a 1 12 99999999999\r\nx",
        b"INFO " + b"x" * (2 << 20),
    ],
    ids=["payload", "headers", "line"],
)
def test_more_is_an_error(data: bytes) -> None:
    with pytest.raises(nats.errors.ProtocolError):
        receive(data)
