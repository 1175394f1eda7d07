"""Sink that shows rows in browsers, as server-sent events. For display only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.connectors.http.events import EventWriter
from rheos.connectors.http.listener import ListenAddress
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.errors import ProgramError
from rheos.core.site import located_at_call
from rheos.formats import json

_MAX_CONNECTIONS = 64
_MOST_KEPT = 100_000


@located_at_call
def sink(
    port: int,
    *,
    path: str = "/events",
    keep: int = 1000,
    host: str = "127.0.0.1",
    token: str | None = None,
    cors: str | None = None,
) -> EventSink:
    """Create a sink that shows rows in browsers: as server-sent events of JSON, and on a page.

    ```python
    counts.sink_to(rh.http.sink(port=8081))
    ```

    The sink's only subtask listens on its machine: with a local master, this one. The logger
    `rheos.http` prints the address. `http://localhost:8081/` is a page that shows the rows. Use it for
    display only: after a failure some rows are sent again, and a client that reads too slowly misses
    some.

    Args:
        port: Port to listen on; 0 takes a free one.
        path: Path of the events, for an EventSource. The events begin with the kept rows, or after the
            row that `Last-Event-ID` names.
        keep: Number of latest rows that a client which connects later receives.
        host: Address to listen on. An address that other machines can reach needs a token.
        token: Token that clients must send: `Authorization: Bearer ...`, or `?token=...` because an
            EventSource has no headers. It is shown nowhere.
        cors: Origin of other sites' pages that may read the events, such as "https://app.example.com",
            or "*" for all; None for none.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, or `host` needs a token.
    """
    if not (isinstance(path, str) and path.startswith("/") and path.isascii() and "?" not in path):
        raise ProgramError(f"path={path!r} is not a path", hint='write path="/events"')
    if path == "/":
        raise ProgramError("the path / is reserved for the page", hint='write path="/events"')
    if not isinstance(keep, int) or not 0 <= keep <= _MOST_KEPT:
        raise ProgramError(f"keep={keep!r} is not between 0 and {_MOST_KEPT} rows")
    if cors is not None and not (isinstance(cors, str) and cors.isascii() and cors.isprintable()):
        raise ProgramError(
            f"cors={cors!r} is not an origin", hint='write cors="https://app.example.com"'
        )
    return EventSink(ListenAddress(host, port, token, _MAX_CONNECTIONS), path, keep, cors)


@dataclass(frozen=True)
class EventSink(Sink):
    """Sink that `http.sink` creates."""

    max_parallelism: ClassVar[int | None] = 1

    at: ListenAddress
    path: str
    keep: int
    cors: str | None

    def validate(self, schema: pa.Schema) -> None:
        json().check_encodes(schema)

    def open(self, ctx: SinkContext) -> SinkWriter:
        return EventWriter(self.at, self.path, self.keep, self.cors, ctx)

    def describe(self) -> str:
        return f"events at {self.at.host}:{self.at.port}{self.path}"
