"""Accepts rows of requests, and answers when their rows are in a checkpoint, or at once.

    a request's thread                                  mailbox
    decodes the body, refuses it if a record is bad
    puts it into the inbox, with the next number ──>    returns its rows
    waits                                               position(): last number, and rows in the inbox
    answers  <── completed(position) ── once that position is in a complete checkpoint

A request is *in* a checkpoint if its rows were returned before the barrier, or are in the inbox, which
is part of the position. Its number shows which. So numbers, keys and the inbox share one lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec
import pyarrow as pa

from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.http.listener import HttpEndpoint, ListenAddress
from rheos.connectors.http.request_payloads import payloads_of
from rheos.connectors.inbox import Inbox
from rheos.connectors.listener.exchange import HttpExchange
from rheos.connectors.listener.head import HttpError
from rheos.connectors.listener.server import LOGGER
from rheos.core.connectors.contract import Polled, ReaderContext, SourceClient, SplitReader
from rheos.core.errors import RheosError, unexpected
from rheos.core.formats.contract import Decoded, Format

REMEMBERED_KEYS = 10_000
_KEY_BYTES = 16
_MAX_KEY_LENGTH = 256
_HELD_BYTES = 1 << 22
"""Maximum bytes of buffered bodies; the last one may exceed it."""
_ANSWER_WITHIN_S = 60.0
"""Seconds to wait for a checkpoint; after that, the sender is asked to send again."""
_LOOK_EVERY_S = 1.0
"""Interval at which to check that waiting senders are still connected."""
_END_WITHIN_S = 5.0


class WebhookPosition(msgspec.Struct, frozen=True, array_like=True):
    taken: int
    """Number of requests accepted so far."""
    keys: bytes
    """Digests of the last idempotency keys, the oldest first."""
    waiting: bytes
    """Position of the inbox: rows that were accepted but not returned."""


class Webhook(SourceClient):
    """Endpoint of the one subtask that has the split."""

    def __init__(
        self,
        at: ListenAddress,
        path: str,
        format: Format,
        schema: pa.Schema,
        *,
        waits: bool,
        max_body_bytes: int,
        ctx: ReaderContext,
    ) -> None:
        self._path = path
        self._format = format
        self._schema = schema
        self._waits = waits
        self._ctx = ctx
        self._listener = HttpEndpoint("webhook", at, self._serve, max_body_bytes=max_body_bytes)
        self._inbox: Inbox
        """Buffer of accepted rows, created when the split is opened."""
        self._thread: threading.Thread | None = None
        # Attributes guarded by the inbox's lock:
        self._taken = 0
        self._completed = 0
        """Number of the last request that is in a complete checkpoint."""
        self._keys: dict[bytes, int] = {}
        """Numbers of the last requests that had keys, by digest of the key."""

    def open(self, position: bytes | None) -> SplitReader:
        """Return the reader of the only split, and start to listen."""
        at = self._listener.at
        waiting = None
        if position is not None:
            known = msgspec.msgpack.decode(position, type=WebhookPosition)
            self._taken = self._completed = known.taken
            self._keys = dict.fromkeys(_digests(known.keys), 0)
            waiting = known.waiting
        place = f"{at.host}:{at.port}{self._path}"
        self._inbox = Inbox(self._format, self._schema, place, waiting, self._ctx, _HELD_BYTES)
        self._thread = thread(self._start, "rheos-webhook")
        self._thread.start()
        return _WebhookReader(self)

    def _start(self) -> None:
        try:
            self._inbox.begin()
            self._listener.start()
            if not self._inbox.closing:
                LOGGER.warning("accepting rows at http://%s%s", self._listener.address, self._path)
        except RheosError as error:
            self._inbox.fail(error)
        except Exception as error:
            self._inbox.fail(unexpected(error))

    # --- the mailbox and its notifications -----------------------------------------------------------

    def poll(self, max_rows: int) -> Polled:
        self._listener.count(self._ctx.count)
        return self._inbox.poll(max_rows)

    def position(self) -> bytes:
        self._listener.count(self._ctx.count)
        with self._inbox.lock:
            keys = b"".join(self._keys)
            return msgspec.msgpack.encode(WebhookPosition(self._taken, keys, self._inbox.position()))

    def completed(self, positions: Mapping[str, bytes]) -> None:
        for position in positions.values():
            known = msgspec.msgpack.decode(position, type=WebhookPosition)
            with self._inbox.lock:
                self._completed = max(self._completed, known.taken)
                self._inbox.lock.notify_all()

    def close(self) -> None:
        self._inbox.close()  # Waiting requests are answered now.
        self._listener.close()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    # --- threads of requests -------------------------------------------------------------------------

    def _serve(self, exchange: HttpExchange) -> None:
        if exchange.path != self._path:
            raise HttpError(404, f"send rows to {self._path}")
        if exchange.method != "POST":
            raise HttpError(405, "send rows with POST", Allow="POST")
        if "Origin" in exchange.headers and self._listener.at.token is None:
            raise HttpError(403, "a browser page may send rows only with a token")
        payloads = payloads_of(exchange.body, self._format)
        if not payloads:
            raise HttpError(400, "the body contains no record")
        decoded = self._decoded(payloads)
        key = _digest(exchange.headers.get("Idempotency-Key"))
        number, is_new = self._take(payloads, decoded, key)
        if self._waits and not self._is_in_checkpoint(number, exchange):
            raise HttpError(
                503, "no checkpoint contains the rows yet: send them again", Retry_After="1"
            )
        answer = {"rows": decoded.rows.num_rows, "duplicate": not is_new}
        exchange.answer_json(200 if self._waits else 202, answer)

    def _decoded(self, payloads: Sequence[bytes]) -> Decoded:
        try:
            decoded = self._inbox.decode(payloads)
        except RheosError as error:
            LOGGER.warning("a request could not be decoded: %s", error.what)
            raise HttpError(503, "records cannot be decoded at the moment", Retry_After="5") from None
        if decoded.bad:
            bad = decoded.bad[0]
            self._inbox.count("refused")
            raise HttpError(400, f"record {bad.at + 1} of {len(payloads)}: {bad.error}")
        return decoded

    def _take(self, payloads: Sequence[bytes], decoded: Decoded, key: bytes | None) -> tuple[int, bool]:
        """Return the request's number, and whether it is new. Raises HttpError if the inbox is full."""
        with self._inbox.lock:
            if key is not None and key in self._keys:
                self._inbox.count("duplicates")
                return self._keys[key], False
            if not self._inbox.offer(payloads, decoded):
                self._inbox.count("held_off")
                raise HttpError(429, "the job is overloaded: send again later", Retry_After="1")
            self._taken += 1
            if key is not None:
                self._keys[key] = self._taken
                if len(self._keys) > REMEMBERED_KEYS:
                    del self._keys[next(iter(self._keys))]
            return self._taken, True

    def _is_in_checkpoint(self, number: int, exchange: HttpExchange) -> bool:
        """Wait until the request is in a checkpoint, and return whether it is. If the sender
        disconnects, its connection becomes free for others, but its rows remain accepted."""
        deadline_s = time.monotonic() + _ANSWER_WITHIN_S
        with self._inbox.lock:
            while self._completed < number and not self._inbox.closing:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                self._inbox.lock.wait(min(left_s, _LOOK_EVERY_S))
                if self._completed < number and exchange.sender_is_gone():
                    self._inbox.count("senders_gone")
                    raise ConnectionAbortedError("the client has disconnected")
            return self._completed >= number


class _WebhookReader(SplitReader):
    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook

    def poll(self, max_rows: int) -> Polled:
        return self._webhook.poll(max_rows)

    def position(self) -> bytes:
        return self._webhook.position()


def _digest(key: str | None) -> bytes | None:
    if key is None:
        return None
    if not 0 < len(key) <= _MAX_KEY_LENGTH:
        raise HttpError(400, f"an Idempotency-Key must have 1 to {_MAX_KEY_LENGTH} characters")
    return blake2b(key.encode(), digest_size=_KEY_BYTES).digest()


def _digests(keys: bytes) -> list[bytes]:
    return [keys[at : at + _KEY_BYTES] for at in range(0, len(keys), _KEY_BYTES)]
