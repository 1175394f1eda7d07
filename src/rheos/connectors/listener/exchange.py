"""A request and its answer, for handlers that run in threads: those of the webhook source, the event
sink and the metrics port."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeAlias

from rheos.connectors.listener.connection import HttpConnection
from rheos.connectors.listener.head import HttpError, RequestHead
from rheos.connectors.listener.server import LOGGER
from rheos.connectors.listener.threads import in_thread

HEALTH = "/healthz"
"""Path that is answered without a token, to show that the listener works."""


@dataclass(frozen=True)
class _CompleteResponse:
    status: int
    content: bytes
    kind: str
    headers: Mapping[str, str]


class HttpExchange:
    """One request and its answer. Its methods are called in the handler's thread. `begin` and `send`
    raise OSError if the reader has disconnected, or does not read."""

    def __init__(
        self,
        connection: HttpConnection,
        head: RequestHead,
        body: bytes,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.method = head.method
        self.path = head.path
        self.query: Mapping[str, list[str]] = head.query()
        self.headers: Mapping[str, str] = head.headers
        self.body = body
        self.whole: _CompleteResponse | None = None
        """Answer to send when the handler has returned."""
        self._connection = connection
        self._loop = loop

    def sender_is_gone(self) -> bool:
        """Return whether the sender has disconnected. A sender that closes only its sending side counts
        as disconnected, too: HTTP clients that wait for an answer keep both sides open."""
        return self._connection.is_gone

    def answer(self, status: int, content: bytes, kind: str, **headers: str) -> None:
        """Set the whole answer, to send when the handler has returned. `headers` have `_` for `-`."""
        self.whole = _CompleteResponse(status, content, kind, headers)

    def answer_json(self, status: int, content: Any, **headers: str) -> None:
        """Set a whole answer of JSON, which is sent when the handler has returned."""
        self.answer(status, json.dumps(content).encode() + b"\n", "application/json", **headers)

    def begin(self, status: int, kind: str, **headers: str) -> None:
        """Send the head of an answer whose content follows by calls of `send`."""
        named = {"Content-Type": kind, "Cache-Control": "no-store"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._do(self._connection.begin(status, list(named.items())))

    def send(self, content: bytes) -> None:
        """Send a part of an answer."""
        self._do(self._connection.send(content))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (RuntimeError, CancelledError) as error:
            work.close()
            raise ConnectionAbortedError("the listener was closed") from error


Handle: TypeAlias = Callable[[HttpExchange], None]
"""Function that answers one request, in a separate thread. It may raise HttpError."""


class ThreadedService:
    """Service that handles each request in a separate thread."""

    def __init__(self, handle: Handle, token: str | None, *, token_in_query: bool = False) -> None:
        """Create the service. Without a `token`, all requests are served. With `token_in_query`, GET
        requests may also pass it as `?token=`."""
        self.uses_tokens = token is not None
        self._handle = handle
        self._token = b"" if token is None else token.encode()
        self._token_in_query = token_in_query

    def knows(self, head: RequestHead) -> bool:
        if not self.uses_tokens:
            return False
        given = [] if head.bearer is None else [head.bearer]
        if self._token_in_query and head.method == "GET":
            given += head.query().get("token", [])
        return any(hmac.compare_digest(each.encode(), self._token) for each in given)

    def is_open(self, head: RequestHead) -> bool:
        return self.is_health(head)

    def is_health(self, head: RequestHead) -> bool:
        return head.path == HEALTH and head.method in ("GET", "HEAD")

    async def serve(self, connection: HttpConnection, head: RequestHead, body: bytes) -> None:
        if self.is_health(head):
            await connection.answer_json(200, {"healthy": True})
            return
        exchange = HttpExchange(connection, head, body, asyncio.get_running_loop())
        try:
            await in_thread(lambda: self._handle(exchange))
        except (HttpError, OSError):
            raise
        except Exception:
            LOGGER.exception("a request could not be answered")
            if connection.begun:
                raise ConnectionAbortedError("a response is already being sent") from None
            await connection.answer_json(500, {"error": "see the log of the job's process"})
            return
        if (whole := exchange.whole) is not None:
            await connection.answer(whole.status, whole.content, whole.kind, **whole.headers)
