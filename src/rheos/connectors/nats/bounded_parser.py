"""Bound of what the client buffers. Its parser waits for a payload of any size that a server announces,
and for the end of a control line of any length."""

from __future__ import annotations

from typing import Any

from rheos.connectors.nats.client_options import client

MAX_MESSAGE_BYTES = (64 << 20) + (1 << 16)
"""Largest payload that a NATS server can be configured to allow, with headers."""
_MAX_LINE_BYTES = 1 << 20


def bound_parser(connection: Any) -> None:
    """Let a connection of the client end if the server announces or sends too much.

    The client has no option for it, so this wraps the method of its parser.

    Args:
        connection: A client of the library that is not connected yet.
    """
    waits_for_payload = client().protocol.parser.AWAITING_MSG_PAYLOAD
    parser = connection._ps
    parse = parser.parse

    async def bounded(data: bytes = b"") -> None:
        await parse(data)
        if parser.state == waits_for_payload:
            if parser.needed > MAX_MESSAGE_BYTES:
                raise client().errors.ProtocolError
        elif len(parser.buf) > _MAX_LINE_BYTES:
            raise client().errors.ProtocolError

    parser.parse = bounded
