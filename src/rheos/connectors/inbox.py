"""Buffer for payloads that a sender sends only once: lines of a socket, bodies of requests.

The position of such a source contains the payloads that were received but not returned yet. So a job
that resumes from a checkpoint returns each of these rows once. If the process fails, payloads that it
received after the last checkpoint are lost, unless their sender sends them again.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from rheos.core.connectors.contract import Pending, Polled, ReaderContext
from rheos.core.connectors.rejected_records import (
    SKIPPED,
    BadRecord,
    bad_record,
    rejected_rows,
    rejected_schema,
)
from rheos.core.errors import RheosError
from rheos.core.formats.contract import Decoded, Format

REJECTED = rejected_schema(pa.field("address", pa.string(), nullable=False))
"""Schema of rejected records: the sender's address, and the record."""


class InboxPosition(msgspec.Struct, frozen=True, array_like=True):
    rows: int = 0
    """Number of rows of the first payload that were already returned."""
    payloads: list[bytes] = []
    """Received payloads whose rows were not all returned."""


@dataclass(slots=True)
class _ReceivedPayloads:
    """Payloads that were received together, with the number of rows already returned."""

    payloads: Sequence[bytes]
    decoded: Decoded
    size_bytes: int
    row: int = 0
    bad: int = 0

    def payload_of_next_row(self) -> int:
        origin = self.decoded.origin
        if self.row == self.decoded.rows.num_rows:
            return len(self.payloads)
        return self.row if origin is None else int(origin[self.row])

    def rows_given_of(self, payload: int) -> int:
        origin = self.decoded.origin
        if origin is None or self.row == self.decoded.rows.num_rows:
            return 0
        return self.row - int(np.searchsorted(origin, payload))


class Inbox:
    """A bounded queue of decoded payloads between the threads that receive and the mailbox.

    Args:
        address: where the payloads come from, for people.
        position: position that another inbox of the same source returned; None for an empty one.
        max_bytes: once this many bytes of payloads are buffered, the inbox accepts none until some are
        returned.
    """

    def __init__(
        self,
        format: Format,
        schema: pa.Schema,
        address: str,
        position: bytes | None,
        ctx: ReaderContext,
        max_bytes: int,
        *,
        skip_bad: bool = False,
    ) -> None:
        self._address = address
        self._ctx = ctx
        self._max_bytes = max_bytes
        self._skip_bad = skip_bad
        self._decoder = format.decoder(schema)
        self._decoding = threading.Lock()
        self.lock = threading.Condition()
        """Lock for the buffered payloads. It is reentrant."""
        # Attributes guarded by the lock:
        self._restored = msgspec.msgpack.decode(position, type=InboxPosition) if position else None
        """Position to restore; None once `begin` has decoded it."""
        self._pieces: deque[_ReceivedPayloads] = deque()
        self._waiting_bytes = 0
        self._counts: Counter[str] = Counter()
        self._failed: RheosError | None = None
        self.closing = False

    # --- calls from receiving threads
    # --------------------------------------------------------------------

    def begin(self) -> None:
        """Decode the restored payloads. Called once, before any payload is added; may block."""
        restored = self._restored
        if restored is None:
            return
        pieces = deque[_ReceivedPayloads]()
        if restored.payloads:
            piece = self._piece(restored.payloads, self.decode(restored.payloads))
            piece.row = min(restored.rows, _rows_of_first(piece.decoded))
            pieces.append(piece)
        with self.lock:
            self._pieces, self._restored = pieces, None
            self._waiting_bytes = sum(piece.size_bytes for piece in pieces)
        self._ctx.wake()

    def decode(self, payloads: Sequence[bytes]) -> Decoded:
        """Decode payloads, in any thread; may block. Raises the decoder's errors."""
        with self._decoding:
            return self._decoder.decode(pa.array(payloads, pa.binary()))

    def put(self, payloads: Sequence[bytes], decoded: Decoded) -> None:
        """Add payloads, once there is room; drop them if the inbox is closed. Raises InputError for a
        bad payload, unless these are skipped."""
        piece = self._piece(payloads, decoded)
        with self.lock:
            while not self.has_room and not self.closing:
                self.lock.wait()
            self._add(piece)

    def offer(self, payloads: Sequence[bytes], decoded: Decoded) -> bool:
        """Add payloads if there is room; return whether they were added."""
        piece = self._piece(payloads, decoded)
        with self.lock:
            if not self.has_room or self.closing:
                return False
            self._add(piece)
            return True

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes < self._max_bytes

    def count(self, name: str, by: int = 1) -> None:
        with self.lock:
            self._counts[name] += by
        self._ctx.wake()

    def fail(self, error: RheosError) -> None:
        """Let the next `poll` that finds no rows raise this error."""
        self._failed = error
        self._ctx.wake()

    def _piece(self, payloads: Sequence[bytes], decoded: Decoded) -> _ReceivedPayloads:
        if decoded.bad and not self._skip_bad:
            raise bad_record(self._address, BadRecord.of(decoded.bad[0]))
        return _ReceivedPayloads(payloads, decoded, sum(map(len, payloads)) + len(payloads))

    def _add(self, piece: _ReceivedPayloads) -> None:
        if not self.closing:
            self._pieces.append(piece)
            self._waiting_bytes += piece.size_bytes
            self._ctx.wake()

    # --- calls from the mailbox
    # --------------------------------------------------------------------------

    def poll(self, max_rows: int) -> Polled:
        """Return rows, or `Pending`. Once all rows are returned, raise the error of a thread that
        failed."""
        if self._counts:
            with self.lock:
                counted, self._counts = self._counts, Counter()
            for name, times in counted.items():
                self._ctx.count(name, times)
        with self.lock:
            if not self._pieces:
                if self._failed is not None:
                    raise self._failed
                return Pending()
            piece = self._pieces[0]
            begin, piece.row = piece.row, min(piece.row + max_rows, piece.decoded.rows.num_rows)
            if piece.row == piece.decoded.rows.num_rows:
                self._pieces.popleft()
                self._waiting_bytes -= piece.size_bytes
                self.lock.notify_all()
        self._reject(piece)
        return piece.decoded.rows.slice(begin, piece.row - begin)

    def _reject(self, piece: _ReceivedPayloads) -> None:
        """Emit the bad records among the rows that were returned."""
        before, bad = piece.payload_of_next_row(), piece.decoded.bad
        end = piece.bad
        while end < len(bad) and bad[end].at < before:
            end += 1
        found, piece.bad = bad[piece.bad : end], end
        if found:
            self._ctx.count(SKIPPED, len(found))
            place = [[self._address] * len(found)]
            self._ctx.reject(rejected_rows(REJECTED, place, [BadRecord.of(each) for each in found]))

    def position(self) -> bytes:
        with self.lock:
            if self._restored is not None:
                return msgspec.msgpack.encode(self._restored)
            rows = 0
            payloads: list[bytes] = []
            for number, piece in enumerate(self._pieces):
                first = piece.payload_of_next_row() if piece.row else 0
                if number == 0:
                    rows = piece.rows_given_of(first)
                payloads += piece.payloads[first:]
            return msgspec.msgpack.encode(InboxPosition(rows, payloads))

    def close(self) -> None:
        with self.lock:
            self.closing = True
            self.lock.notify_all()


def _rows_of_first(decoded: Decoded) -> int:
    """Return the number of rows of the first payload."""
    if decoded.origin is None:
        return 1 if decoded.rows.num_rows else 0
    return int(np.searchsorted(decoded.origin, 0, side="right"))
