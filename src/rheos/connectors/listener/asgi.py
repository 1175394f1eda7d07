"""A request and its answer for the ASGI application of the dashboard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from rheos.connectors.listener.connection import HttpConnection
from rheos.connectors.listener.head import RequestHead
from rheos.connectors.listener.server import LOGGER

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class AsgiService:
    """Service that passes each request to an ASGI application, in the listener's event loop. The
    application decides which requests need a token. The body of a request without a token is not read.
    """

    uses_tokens = True

    def __init__(
        self,
        application: Application,
        knows: Callable[[str], bool],
        health: Container[str],
        scheme: str,
    ) -> None:
        """Create the service.

        Args:
            application: answers requests.
            knows: returns whether a token is valid.
            health: paths of health requests.
            scheme: "http" or "https".
        """
        self._application = application
        self._knows = knows
        self._health = health
        self._scheme = scheme

    def knows(self, head: RequestHead) -> bool:
        return head.bearer is not None and self._knows(head.bearer)

    def is_open(self, head: RequestHead) -> bool:
        return True

    def is_health(self, head: RequestHead) -> bool:
        return head.path in self._health and head.method in ("GET", "HEAD")

    async def serve(self, connection: HttpConnection, head: RequestHead, body: bytes) -> None:
        exchange = _AsgiExchange(connection, body)
        try:
            await self._application(self._scope(connection, head), exchange.receive, exchange.send)
        except OSError:
            raise
        except Exception:
            LOGGER.exception("a request could not be answered")
            if not connection.begun:
                await connection.answer_json(500, {"error": "see the log of the dashboard's process"})

    def _scope(self, connection: HttpConnection, head: RequestHead) -> Message:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": head.method,
            "scheme": self._scheme,
            "path": unquote(head.path),
            "raw_path": head.path.encode(),
            "query_string": head.query_string.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in head.fields],
            "client": (connection.peer, 0),
            "server": None,
        }


class _AsgiExchange:
    def __init__(self, connection: HttpConnection, body: bytes) -> None:
        self._connection = connection
        self._body: bytes | None = body
        self._start: Message = {}

    async def receive(self) -> Message:
        """Return the body; then, once the peer has disconnected, the message `http.disconnect`."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._connection.gone()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        content = bytes(message.get("body", b""))
        if not self._connection.begun:
            pairs = self._start.get("headers", ())
            headers = [(_text(name), _text(value)) for name, value in pairs]
            sized = any(name.lower() == "content-length" for name, _ in headers)
            if not sized and not message.get("more_body", False):
                headers.append(("content-length", str(len(content))))
            await self._connection.begin(self._start["status"], headers)
        if content:
            await self._connection.send(content)


def _text(value: bytes) -> str:
    return value.decode("latin-1")
