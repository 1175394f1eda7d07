"""Reader of one Redis stream.

The reader never skips an entry silently: each read begins *at* the last returned entry, which must
still exist. Streams are trimmed from the beginning, so all later entries then exist, too. Before the
first entry is returned, the reader checks the entry before the split's start instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from rheos.connectors.redis.client_options import RedisOptions, client, may_pass, redis_error
from rheos.connectors.redis.entries import (
    REJECTED,
    EntryChunk,
    EntryDecoding,
    EntryId,
    EntryIds,
    SentEntry,
    StreamEntries,
    entry_id,
)
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.backoff import Backoff
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    SplitReader,
)
from rheos.core.connectors.rejected_records import SKIPPED, rejected_rows
from rheos.core.errors import InputError
from rheos.core.protocol.ports import Completion

_CHUNK_ENTRIES = 2048
_CHUNK_BYTES = 8 << 20
"""Approximate size of a chunk. The number of requested entries depends on the sizes of previous
ones."""
_FIRST_ENTRIES = 16
_GROWTH = 4
_SAMPLED = 64


class StreamSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split."""

    stream: str
    begin: str | None
    """Id to begin at; None for the first entry."""
    end: str | None
    """Exclusive end id."""
    after: str | None = None
    """Last entry before `begin`, if it existed when the job was submitted and no other can follow
    before `begin`. It counts as read."""
    last: str | None = None
    """Highest id that the stream had generated at that time."""


class StreamPosition(msgspec.Struct, frozen=True, array_like=True):
    after: str | None = None
    """Id of the last entry that was returned completely."""
    rows: int = 0
    """Number of rows of the next entry that were already returned."""
    partly: str | None = None
    """Id of the next entry, if some of its rows were already returned."""


@dataclass(frozen=True, slots=True)
class _Read:
    chunk: EntryChunk | None
    trimmed: bool
    finished: bool


class StreamReader(SplitReader):
    """Reader that returns one chunk while it reads the next."""

    def __init__(
        self,
        split: StreamSplit,
        position: bytes | None,
        ctx: ReaderContext,
        *,
        options: RedisOptions,
        decoding: EntryDecoding,
        continues: bool,
        poll_every_us: int,
        retry_for_ms: int,
    ) -> None:
        self._split = split
        self._ctx = ctx
        self._options = options
        self._decoding = decoding
        self._continues = continues
        self._poll_every_us = poll_every_us
        self._back_off = Backoff(retry_for_ms * 1000)
        self._doing = f"the stream {split.stream!r} cannot be read"
        self._position = StreamPosition(split.after) if position is None else _decoder.decode(position)
        self._entries = [StreamEntries(options)]
        """Connection. It is a list, so that only the code that pops it closes it."""
        self._payloads = decoding.decoder()
        self._read_to = _id(self._position.after)
        self._partly = _id(self._position.partly)
        """Id of the entry that was partly returned before a restore, until it is read again."""
        self._count = _FIRST_ENTRIES
        self._trimmed = False
        """Whether trimming was counted already, while no further entry was read."""
        self._reading: Completion[_Read] | None = None
        self._chunk: EntryChunk | None = None
        self._row = 0
        self._bad = 0
        self._given = EntryIds(), np.empty(0, np.int64)
        """Ids of the chunk that `poll` returned last, and the index of each row's entry."""
        self._finished = False
        self._closed = False
        self._ask_at_us = 0

    # --- calls from the mailbox
    # ---------------------------------------------------------------------------

    def poll(self, max_rows: int) -> Polled:
        if self._chunk is None:
            now_us = self._ctx.clock.monotonic_us()
            if now_us >= self._ask_at_us:
                self._ask()
            if self._reading is not None and self._reading.done():
                self._take(self._reading, now_us)
        if self._chunk is None:
            if self._finished:
                return EndOfSplit()
            return Pending(None if self._reading is not None else max(self._ask_at_us - now_us, 0))
        return self._give(self._chunk, max_rows)

    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._position)

    def places(self) -> RowPlaces:
        ids, origin = self._given
        return RowPlaces("id", [str(ids[at]) for at in origin.tolist()])

    def close(self) -> None:
        self._closed = True
        if self._reading is None or self._reading.done():
            self._close_entries()

    def _ask(self) -> None:
        if self._reading is None and not self._finished:
            self._reading = self._ctx.io.submit(self._read)

    def _take(self, reading: Completion[_Read], now_us: int) -> None:
        self._reading = None
        try:
            read = reading.result()
        except (OSError, client().RedisError) as error:
            self._failed(error, now_us)
            return
        if self._back_off.failing:
            SERVERS_AWAY.answered(self)
        self._back_off.restore()
        self._finished = read.finished
        if read.trimmed and not self._trimmed:
            self._ctx.count("trimmed", 1)
        self._trimmed = read.trimmed and read.chunk is None
        if read.chunk is None:
            self._ask_at_us = now_us + self._poll_every_us
            return
        self._chunk, self._row, self._bad = read.chunk, 0, 0
        if read.chunk.ids[0] == self._partly:
            of_first = int(np.searchsorted(read.chunk.origin, 0, side="right"))
            self._row = min(self._position.rows, of_first)
        self._partly = None
        self._read_to = read.chunk.ids[-1]
        self._ask()

    def _failed(self, error: Exception, now_us: int) -> None:
        wait_us = self._back_off.failed(now_us) if may_pass(error) else None
        if wait_us is None:
            raise redis_error(error, self._doing, self._options) from None
        self._ctx.count("retries", 1)
        SERVERS_AWAY.failed(self, redis_error(error, self._doing, self._options).what)
        self._ask_at_us = now_us + wait_us

    def _give(self, chunk: EntryChunk, max_rows: int) -> Polled:
        begin, self._row = self._row, min(self._row + max_rows, chunk.rows.num_rows)
        self._given = chunk.ids, chunk.origin[begin : self._row]
        if self._row < chunk.rows.num_rows:
            entry = int(chunk.origin[self._row])
            first = int(np.searchsorted(chunk.origin, entry))
            after = self._position.after if entry == 0 else str(chunk.ids[entry - 1])
            given = self._row - first
            self._position = StreamPosition(after, given, str(chunk.ids[entry]) if given else None)
            self._reject(chunk, entry)
        else:
            self._position = StreamPosition(str(chunk.ids[-1]))
            self._reject(chunk, len(chunk.ids))
            self._chunk = None
        return chunk.rows.slice(begin, self._row - begin)

    def _reject(self, chunk: EntryChunk, before: int) -> None:
        """Reject bad entries before this index, together with the rows around them."""
        bad = []
        while self._bad < len(chunk.bad) and chunk.bad[self._bad][0] < before:
            bad.append(chunk.bad[self._bad])
            self._bad += 1
        if bad:
            place = [[self._split.stream] * len(bad), [str(chunk.ids[at]) for at, _ in bad]]
            self._ctx.count(SKIPPED, len(bad))
            self._ctx.reject(rejected_rows(REJECTED, place, [record for _, record in bad]))

    # --- on the I/O executor
    # ----------------------------------------------------------------------------

    def _read(self) -> _Read:
        try:
            return self._read_next(self._entries[0])
        finally:
            if self._closed:
                self._close_entries()

    def _close_entries(self) -> None:
        while self._entries:  # A call that ends at the same time runs this, too.
            self._entries.pop().close()

    def _read_next(self, source: StreamEntries) -> _Read:
        stream, after, end = self._split.stream, self._read_to, _id(self._split.end)
        if end is not None and after is not None and after.next() >= end:
            return _Read(None, trimmed=False, finished=True)
        begin = _id(self._split.begin) if after is None else after
        asked = self._count + (after is not None)
        found = source.read(stream, begin, end, asked)
        if found.last is None:
            raise self._deleted_error(f"the stream {stream!r} no longer exists")
        if any(found.last < seen for seen in (after, _id(self._split.last)) if seen is not None):
            raise self._deleted_error(
                f"the stream {stream!r} was recreated: its last entry is {found.last}"
            )
        # Until then, more entries may arrive before the end.
        finished = end is not None and len(found.entries) < asked and found.next >= end
        entries = list(found.entries)
        goes_on = bool(entries) and entry_id(entries[0]) == after
        if goes_on:
            del entries[0]
        first = entry_id(entries[0]) if entries else None
        if self._partly is not None:
            trimmed = first != self._partly
        elif after is None or goes_on:
            trimmed = False
        else:
            trimmed = found.last > after if first is None else first != _id(self._split.begin)
        if trimmed and not self._continues:
            raise self._trimmed_error(f"the stream {stream!r} was trimmed, or entries were deleted")
        if not entries:
            return _Read(None, trimmed, finished)
        self._count = _next_count(entries, self._count)
        chunk = self._decoding.chunk(stream, entries, self._payloads)
        return _Read(chunk, trimmed, finished)

    def _trimmed_error(self, what: str) -> InputError:
        return InputError(
            f"{what}, {self._place()}: later entries may be lost",
            hint="trim the stream only after the job has read it; to continue with the oldest entry "
            'that exists, write on_trimmed="continue"; or start anew, without a checkpoint',
        )

    def _deleted_error(self, what: str) -> InputError:
        return InputError(
            f"{what}, {self._place()}",
            hint="find out why it was deleted; to read the entries that exist now, start anew, "
            "without a checkpoint",
        )

    def _place(self) -> str:
        place = self._read_to or self._partly
        return (
            "and the job has read none of its entries"
            if place is None
            else f"and the job is at {place}"
        )


def _next_count(entries: Sequence[SentEntry], count: int) -> int:
    """Return the number of entries to request in order to get about `_CHUNK_BYTES`, from a sample of
    their sizes."""
    some = entries[:: len(entries) // _SAMPLED + 1]
    sizes = [len(part) for entry in some for part in entry[1]]
    fitting = _CHUNK_BYTES * len(some) // max(sum(sizes), 1)
    return max(1, min(fitting, count * _GROWTH, _CHUNK_ENTRIES))


_decoder = msgspec.msgpack.Decoder(StreamPosition)


def _id(text: str | None) -> EntryId | None:
    return None if text is None else EntryId.of(text)
