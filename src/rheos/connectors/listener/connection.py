"""One connection: the head of its request, the body, and the answer, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Sequence
from http.client import responses
from typing import Any

from rheos.connectors.listener.bounds import HEAD_BYTES, Bounds
from rheos.connectors.listener.head import HttpError, RequestHead, parse_head

_PIECE_BYTES = 1 << 16
_LINGER_BYTES = 1 << 20
_OWN = {"Connection": "close", "X-Content-Type-Options": "nosniff"}


class HttpConnection:
    """Connection of the listener's event loop. Methods that wait raise TimeoutError after their
    deadline, and OSError if the peer has disconnected."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str, bounds: Bounds
    ) -> None:
        self.peer = peer
        """Address of the peer, without its port."""
        self.bounds = bounds
        self.trusted = False
        """Whether the peer has shown a valid token."""
        self.begun = False
        """Whether the answer was begun."""
        self.settles: Callable[[], None] | None = None
        """Function that is called before a whole answer is sent, so that a slow reader does not occupy
        an admitted place."""
        self._reader = reader
        self._writer = writer
        self._unread = 0
        """Bytes of the announced body that were not read yet."""
        self._is_head = False

    @staticmethod
    async def accepted(
        connected: socket.socket, tls: ssl.SSLContext | None, bounds: Bounds
    ) -> HttpConnection:
        """Wrap an accepted socket, and perform the TLS handshake."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(HEAD_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        peer = str(connected.getpeername()[0])
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connected,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else bounds.head_s,
            ssl_shutdown_timeout=None if tls is None else bounds.linger_s,
        )
        # Buffer at most one piece: a peer that does not read must not use our memory.
        transport.set_write_buffer_limits(high=1, low=0)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return HttpConnection(reader, writer, peer, bounds)

    # --- the request ------------------------------------------------------------------------------

    async def head(self) -> RequestHead | None:
        """Return the head of the request; None if the peer has disconnected. Raises HttpError."""
        try:
            data = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            self._unread = 1
            raise HttpError(431, f"the request head exceeds {HEAD_BYTES} bytes") from None
        self._unread = 1  # The length is unknown until the head is parsed.
        head = parse_head(data)
        self._unread = head.content_length
        self._is_head = head.method == "HEAD"
        return head

    async def body(self, head: RequestHead) -> bytes:
        """Return the whole body. Raises HttpError."""
        if head.content_length > self.bounds.max_body_bytes:
            raise HttpError(413, f"the body exceeds {self.bounds.max_body_bytes} bytes")
        parts = []
        async with asyncio.timeout(self.bounds.body_s):
            if self._unread and head.headers.get("expect", "").lower() == "100-continue":
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await self._writer.drain()
            while self._unread:
                part = await self._reader.read(min(self._unread, _PIECE_BYTES))
                if not part:
                    raise HttpError(400, "the body is shorter than its Content-Length")
                parts.append(part)
                self._unread -= len(part)
        return b"".join(parts)

    @property
    def is_gone(self) -> bool:
        """Return whether the peer has closed its side or was lost. Any thread may call it."""
        reader = self._reader
        return reader.at_eof() or reader.exception() is not None or self._writer.is_closing()

    async def gone(self) -> None:
        """Wait until the peer has disconnected. Bytes that it still sends are dropped."""
        with contextlib.suppress(OSError):
            while await self._reader.read(_PIECE_BYTES):
                pass

    # --- the answer -------------------------------------------------------------------------------

    async def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Send the head of an answer."""
        await self._write(self._head(status, headers))

    def _head(self, status: int, headers: Sequence[tuple[str, str]]) -> bytes:
        self.begun = True
        own = [(name, value) for name, value in _OWN.items() if name not in dict(headers)]
        lines = [f"HTTP/1.1 {status} {responses.get(status, '')}"]
        for name, value in (*headers, *own):
            if any(character in value or character in name for character in "\r\n\0"):
                raise ValueError(f"a header field must not contain a line end: {name}")
            lines.append(f"{name}: {value}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def send(self, content: bytes) -> None:
        """Send a part of an answer, or all of it."""
        if not self._is_head:
            await self._write(content)

    async def answer(self, status: int, content: bytes, kind: str, **headers: str) -> None:
        """Send a whole answer. `headers` have `_` for `-`."""
        if self.settles is not None:
            self.settles()
        named = {"Content-Type": kind, "Cache-Control": "no-store", "Content-Length": str(len(content))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with asyncio.timeout(None if self.trusted else self.bounds.untrusted_answer_s):
            await self._write(
                self._head(status, list(named.items())) + (b"" if self._is_head else content)
            )

    async def answer_json(self, status: int, content: Any, **headers: str) -> None:
        """Send a whole answer of JSON."""
        data = json.dumps(content).encode() + b"\n"
        await self.answer(status, data, "application/json", **headers)

    async def _write(self, data: bytes) -> None:
        for begin in range(0, len(data), _PIECE_BYTES):
            async with asyncio.timeout(self.bounds.answer_piece_s):
                self._writer.write(data[begin : begin + _PIECE_BYTES])
                await self._writer.drain()

    # --- the end ----------------------------------------------------------------------------------

    async def linger(self) -> None:
        """Read the rest of the request, so that its sender receives the answer before the connection
        ends."""
        if not self._unread or self._writer.is_closing():
            return
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(self.bounds.linger_s):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                left = _LINGER_BYTES
                while left > 0 and (part := await self._reader.read(_PIECE_BYTES)):
                    left -= len(part)

    async def close(self) -> None:
        """Close the connection once the system has accepted all sent bytes."""
        self._writer.close()
        async with asyncio.timeout(self.bounds.answer_piece_s):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._writer.transport.abort()
