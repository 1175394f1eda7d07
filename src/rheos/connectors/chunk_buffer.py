"""Buffer of chunks that a thread reads before they are polled, and the reader that returns them.

mailbox                                    thread
poll the reader  <── chunks ──────────     gives chunks, wakes the mailbox
a chunk taken  ── its bytes ─────────>     continues if it had stopped at the limit
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rheos.core.connectors.contract import EndOfSplit, Pending, Polled, ReaderContext, SplitReader
from rheos.core.errors import RheosError
from rheos.core.protocol.elements import Batch

AHEAD_BYTES = 1 << 25
"""Number of buffered bytes above which the thread reads no further."""
_ROW_BYTES = 64
_WAIT_S = 0.1


class EncodedPosition(Protocol):
    """Position of a reader."""

    def encode(self) -> bytes:
        """Return it as bytes, for a checkpoint."""


@dataclass(frozen=True)
class BufferedChunk:
    """Rows with the positions between them."""

    rows: Batch
    at: Callable[[int], EncodedPosition]
    """Position after this number of rows, which is more than 0 and less than all."""
    after: EncodedPosition
    """Position after all rows."""

    @property
    def size_bytes(self) -> int:
        """Size in the buffer."""
        held: int = self.rows.nbytes
        count: int = self.rows.num_rows
        return held + _ROW_BYTES * count


class ChunkBuffer:
    """Bounded buffer of chunks between one thread and one reader."""

    def __init__(self, ctx: ReaderContext) -> None:
        self._ctx = ctx
        self._lock = threading.Condition()
        # Attributes guarded by the lock:
        self._is_closing = False
        self._chunks: deque[BufferedChunk] = deque()
        self._ahead_bytes = 0
        self._counts: Counter[str] = Counter()
        self._failed: RheosError | None = None
        self._is_finished = False
        self._stop_reason: str | None = None

    # --- calls from the mailbox
    # ------------------------------------------------------------------------

    def next_chunk(self) -> BufferedChunk | EndOfSplit | None:
        """Return the next chunk; None if none is available now. After the last chunk, raise the error
        that ended the thread, if any."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            for name, times in counts.items():
                self._ctx.count(name, times)
            if self._chunks:
                chunk = self._chunks.popleft()
                self._ahead_bytes -= chunk.size_bytes
                self._lock.notify_all()
                return chunk
            if self._failed is not None:
                raise self._failed
            return EndOfSplit() if self._is_finished else None

    @property
    def stop_reason(self) -> str | None:
        """Reason why the job must stop, once all chunks were taken; None if it need not."""
        with self._lock:
            return None if self._chunks else self._stop_reason

    def close(self) -> None:
        """Let the thread end: it waits for nothing any more."""
        with self._lock:
            self._is_closing = True
            self._lock.notify_all()

    # --- calls from the thread
    # -------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the thread has given all chunks."""
        return self._is_finished or self._stop_reason is not None

    @property
    def is_closing(self) -> bool:
        """Whether the thread must end."""
        return self._is_closing

    def give(self, chunk: BufferedChunk) -> None:
        """Enqueue a chunk."""
        with self._lock:
            self._ahead_bytes += chunk.size_bytes
            self._chunks.append(chunk)
        self._ctx.wake()

    def wait_for_room(self, wait_s: float) -> bool:
        """Wait until the buffer has room; return whether it has."""
        until_s = time.monotonic() + wait_s
        with self._lock:
            while self._ahead_bytes >= AHEAD_BYTES and not self._is_closing:
                if (left_s := until_s - time.monotonic()) <= 0:
                    return False
                self._lock.wait(min(left_s, _WAIT_S))
        return True

    def wait_until_room(self) -> bool:
        """Wait until the buffer has room. Return False if it was closed."""
        with self._lock:
            while self._ahead_bytes >= AHEAD_BYTES and not self._is_closing:
                self._lock.wait(_WAIT_S)
            return not self._is_closing

    def pause(self, pause_s: float) -> None:
        """Sleep, but return early if the buffer is closed."""
        until_s = time.monotonic() + pause_s
        with self._lock:
            while not self._is_closing and (left_s := until_s - time.monotonic()) > 0:
                self._lock.wait(left_s)

    def count(self, name: str) -> None:
        """Add one to a counter of the reader's operator."""
        with self._lock:
            self._counts[name] += 1
        self._ctx.wake()

    def stop(self, reason: str) -> None:
        """Note that no chunk follows in this run of the program: the job must stop, and start again."""
        with self._lock:
            self._stop_reason = reason
        self._ctx.wake()

    def end(self, failed: RheosError | None) -> None:
        """Note that no chunk follows.

        Args:
            failed: Error that has ended the thread; None if the source has ended.
        """
        with self._lock:
            self._failed = None if self._is_closing else failed
            self._is_finished = failed is None
        self._ctx.wake()


class BufferReader(SplitReader):
    """Reader that returns the chunks of a buffer."""

    def __init__(self, buffer: ChunkBuffer, position: EncodedPosition) -> None:
        self._buffer = buffer
        self._position = position
        self._chunk: BufferedChunk | None = None
        self._row = 0

    def poll(self, max_rows: int) -> Polled:
        if self._chunk is None:
            found = self._buffer.next_chunk()
            if found is None:
                return Pending()
            if isinstance(found, EndOfSplit):
                return found
            self._chunk, self._row = found, 0
        chunk, begin = self._chunk, self._row
        self._row = min(begin + max_rows, chunk.rows.num_rows)
        if self._row == chunk.rows.num_rows:
            self._position, self._chunk = chunk.after, None
        else:
            self._position = chunk.at(self._row)
        self._returns(chunk, begin, self._row)
        return chunk.rows.slice(begin, self._row - begin)

    def position(self) -> bytes:
        return self._position.encode()

    def stop_reason(self) -> str | None:
        """Return why the job must stop at the current position; None if it need not."""
        return self._buffer.stop_reason if self._chunk is None else None

    def _returns(self, chunk: BufferedChunk, begin: int, end: int) -> None:
        """Run before rows of a chunk are returned; subclasses override it."""
