"""Sends rows to browsers as server-sent events.

The writer keeps the last rows, and each reader has its own position among them. The writer never waits
for a reader. If the writer no longer has a reader's next row, the reader continues with the oldest row,
and an event reports how many rows it missed. A reader that accepts nothing for ten seconds is
disconnected.

    id: 7f3a-12                    the run of the writer, and the row's number in it
    data: {"page":"a","n":3}
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.http.listener import HttpEndpoint, ListenAddress
from rheos.connectors.listener.exchange import HttpExchange
from rheos.connectors.listener.head import HttpError
from rheos.connectors.listener.server import LOGGER
from rheos.core.connectors.contract import SinkContext, SinkWriter
from rheos.core.errors import RheosError, unexpected
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.formats import json

_KEEP_BYTES = 1 << 24
_SEND_ROWS = 1000
_HEARTBEAT_S = 15.0
_RETRY_MS = 1000
_END_WITHIN_S = 5.0
_PAGE = Path(__file__).with_name("page.html")
_PAGE_MAY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
)


class UnsentRows:
    """Last rows, encoded, with their numbers. Written by one thread, read by many."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._rows: deque[bytes] = deque()
        self._size_bytes = 0
        self._lock = threading.Condition()
        self.end = 0
        """Number of the next row."""
        self.closed = False

    def add(self, rows: list[bytes], skipped: int = 0) -> None:
        """Append rows, after `skipped` rows that are not kept."""
        with self._lock:
            if skipped:
                self._rows.clear()
                self._size_bytes = 0
            self._rows.extend(rows)
            self._size_bytes += sum(map(len, rows))
            self.end += skipped + len(rows)
            while len(self._rows) > self._keep or self._size_bytes > _KEEP_BYTES:
                self._size_bytes -= len(self._rows.popleft())
            self._lock.notify_all()

    def after(self, number: int, at_most: int, wait_s: float) -> tuple[int, list[bytes]]:
        """Return up to `at_most` rows from `number` on, and the number of the first. If rows from
        `number` on were dropped, return rows from the oldest kept one on. Return no rows if none arrive
        within `wait_s`."""
        with self._lock:
            self._lock.wait_for(lambda: self.end > number or self.closed, wait_s)
            first = max(number, self.end - len(self._rows))
            begin = first - (self.end - len(self._rows))
            return first, [self._rows[i] for i in range(begin, min(begin + at_most, len(self._rows)))]

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._lock.notify_all()


class EventWriter(SinkWriter):
    def __init__(
        self, at: ListenAddress, path: str, keep: int, cors: str | None, ctx: SinkContext
    ) -> None:
        self._path = path
        self._keep = keep
        self._cors = cors
        self._name = ctx.name
        self._columns = ctx.schema.names
        self._run = uuid4().hex[:8]
        self._rows = UnsentRows(keep)
        self._encoder = json().encoder(ctx.schema)
        self._failed: RheosError | None = None
        self._count = ctx.count
        self._listener = HttpEndpoint("events", at, self._serve, token_in_query=True)
        self._thread: threading.Thread | None = None
        if ctx.subtask == 0:  # The other subtasks have no rows.
            self._thread = thread(self._start, "rheos-events")
            self._thread.start()

    def write(self, batch: Batch) -> None:
        if self._failed is not None:
            raise self._failed
        kept = batch.slice(max(0, batch.num_rows - self._keep))
        payloads: pa.Array = self._encoder.encode(kept)
        self._rows.add(payloads.to_pylist(), skipped=batch.num_rows - kept.num_rows)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if self._failed is not None:
            raise self._failed
        self._listener.count(self._count)
        return []

    def close(self) -> None:
        self._rows.close()
        self._listener.close()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    def _start(self) -> None:
        try:
            self._listener.start()
            if not self._rows.closed:
                LOGGER.warning("open http://%s/ to see the rows", self._listener.address)
        except RheosError as error:
            self._failed = error
        except Exception as error:
            self._failed = unexpected(error)

    # --- threads of readers --------------------------------------------------------------------------

    def _serve(self, exchange: HttpExchange) -> None:
        if exchange.path not in ("/", self._path):
            raise HttpError(404, f"a page is at /, and events are at {self._path}")
        if exchange.method != "GET":
            raise HttpError(405, "only GET is served", Allow="GET")
        if exchange.path == "/":
            page = _PAGE.read_text().replace("{{path}}", self._path)
            exchange.answer(
                200, page.encode(), "text/html; charset=utf-8", Content_Security_Policy=_PAGE_MAY
            )
            return
        allowed = (
            {} if self._cors is None else {"Access_Control_Allow_Origin": self._cors, "Vary": "Origin"}
        )
        exchange.begin(200, "text/event-stream", **allowed)
        exchange.send(b"retry: %d\n\n" % _RETRY_MS)
        self._send_rows(exchange, self._place(exchange.headers.get("Last-Event-ID", "")))

    def _place(self, last: str) -> int:
        """Return the number after the reader's last event; 0 if that event is of another run."""
        run, _, number = last.partition("-")
        known = run == self._run and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) + 1 if known else 0

    def _send_rows(self, exchange: HttpExchange, number: int) -> None:
        has_begun = number > 0
        number = min(number, self._rows.end)
        while not self._rows.closed:
            first, rows = self._rows.after(number, _SEND_ROWS, _HEARTBEAT_S)
            events = [b": still here\n\n"] if not rows else []
            if rows and has_begun and first > number:
                events.append(b'event: missed\ndata: {"rows": %d}\n\n' % (first - number))
            for place, row in enumerate(rows, first):
                events.append(b"id: %s-%d\ndata: %s\n\n" % (self._run.encode(), place, row))
            exchange.send(b"".join(events))
            number, has_begun = first + len(rows), True
