"""Thread that reads a table's snapshot and its changes ahead, and the reader that returns them.

mailbox                                    thread
open a reader ───────────────────────>     checks the slot; reads the snapshot, then the stream
poll the reader  <── chunks ──────────     converts changes to columns, wakes the mailbox
a chunk taken  ── its bytes ─────────>     continues if it had stopped at the limit
a checkpoint is complete ── its LSN ─>     lets the server remove the log before it
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import BoundedCalls
from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.chunk_buffer import BufferedChunk, BufferReader, ChunkBuffer
from rheos.connectors.postgres.change_positions import ChangesPosition, SnapshotRange
from rheos.connectors.postgres.change_rows import ChangeRows
from rheos.connectors.postgres.change_translation import ChangeTranslation
from rheos.connectors.postgres.connection import ServerOptions, ServerSession, client
from rheos.connectors.postgres.errors import may_pass, postgres_error
from rheos.connectors.postgres.pgoutput import MalformedMessageError, decode
from rheos.connectors.postgres.replication import ReplicationStream, timeline_history
from rheos.connectors.postgres.retrying import RetryingSession
from rheos.connectors.postgres.slots import (
    ReplicationSlot,
    advance,
    check_log,
    check_no_gap,
    find_slot,
    sender_timeout_s,
)
from rheos.connectors.postgres.snapshot import SnapshotBlock, TableSnapshot
from rheos.connectors.postgres.watched_session import STATEMENT, ServerCheck, WatchedSession
from rheos.connectors.schema_changes import SchemaChange
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.contract import ReaderContext, SourceClient
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError, unexpected

AWAY = "server_away"
"""Counter of the times when the server was unreachable, or ended the stream."""
_CHUNK_ROWS = 8192
_CHUNK_BYTES = 4 << 20
_WAIT_S = 0.1
_PROGRESS_EVERY_S = 1.0
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)
_IN_USE_PAUSE_S = 0.5
_IN_USE_MARGIN_S = 20.0
"""Seconds added to the time after which the server drops a reader that was lost."""
_END_WITHIN_S = 10.0
_ROOM_WITHIN_S = 1.0


@dataclass(frozen=True)
class ReadTable:
    """Configuration of the table to read. Frozen: it is sent to the workers."""

    options: ServerOptions
    schema: str
    name: str
    sql: str
    slot: str
    rows: ChangeRows
    snapshot: bool

    @property
    def doing(self) -> str:
        return f"the changes of {self.schema}.{self.name} cannot be read"


class ChangeFeed(SourceClient):
    """Feed of one subtask; the source has one split."""

    def __init__(self, table: ReadTable, ctx: ReaderContext) -> None:
        self._table = table
        self._buffer = ChunkBuffer(ctx)
        self._thread: threading.Thread | None = None
        self._at = ChangesPosition()
        """Position up to which it has read. Once the thread runs, only the thread uses it."""
        self._end_lsn: int | None = None
        self._session: ServerSession | None = None
        self._progress_at_s = 0.0
        self._lock = threading.Lock()
        # Guarded by the lock:
        self._confirmed_lsn = 0
        """Position of the last checkpoint: the server may remove earlier entries."""

    # --- calls from the reader, in the mailbox
    # -----------------------------------------------------------

    def open(self, position: bytes | None, end_lsn: int | None) -> BufferReader:
        self._at = ChangesPosition() if position is None else ChangesPosition.decode(position)
        self._end_lsn = end_lsn
        reader = BufferReader(self._buffer, self._at)
        self._thread = thread(self._run, "rheos-postgres")
        self._thread.start()
        return reader

    # --- calls from the subtask
    # --------------------------------------------------------------------------

    def completed(self, positions: Mapping[str, bytes]) -> None:
        for position in positions.values():
            lsn = ChangesPosition.decode(position).lsn
            with self._lock:
                self._confirmed_lsn = max(self._confirmed_lsn, lsn)
            if self._buffer.is_finished:
                # The thread has ended, which reports this to the server while it reads.
                session = RetryingSession(self._table.options, self._table.doing)
                try:
                    session.do(partial(advance, slot=self._table.slot, lsn=lsn))
                finally:
                    session.close()

    def close(self) -> None:
        self._buffer.close()
        if self._thread is not None:
            session = self._session
            if session is not None:
                calls = BoundedCalls()
                with contextlib.suppress(Exception):  # The connection may have ended at the same time.
                    calls.run(
                        f"{self._table.doing}: cancelling the snapshot",
                        _END_WITHIN_S,
                        lambda progressed: session.connection.cancel_safe(),
                    )
                calls.close()
            self._thread.join(_END_WITHIN_S)

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        failed: RheosError | None = None
        try:
            awaited = self._read()
            if awaited is not None:
                self._buffer.stop(awaited.reason)
                return
        except RheosError as error:
            failed = error
        except MalformedMessageError as error:
            failed = InputError(
                f"the server sent an invalid pgoutput message: {error}",
                hint="check that it is PostgreSQL, and that no proxy in between lacks support for "
                "replication",
            )
        except Exception as error:
            failed = unexpected(error)
        self._buffer.end(failed)

    def _read(self) -> SchemaChange | None:
        """Read to the end; return the change of the table for which the job must stop before it."""
        tries = 0
        while not self._buffer.is_closing:
            at = self._at
            try:
                self._begin()
                SERVERS_AWAY.answered(self)
                if self._at.in_snapshot:
                    self._read_snapshot()
                elif (translation := self._read_stream()).finished:
                    return None
                elif translation.awaited is not None:
                    return translation.awaited
                continue
            except client().Error as raised:
                error = postgres_error(raised, self._table.doing, self._table.options)
            except RheosError as raised:
                error = raised
            if not may_pass(error):
                raise error from None
            tries = 0 if self._at != at else tries + 1
            self._buffer.count(AWAY)
            SERVERS_AWAY.failed(self, error.what)
            self._buffer.pause(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
        return None

    def _begin(self) -> None:
        """Check that the slot exists and retains all entries from this position on."""
        session = WatchedSession(self._table.options, self._table.doing)
        before = self._at
        try:
            slot, at = session.do(lambda session: self._checked(session, before))
        finally:
            session.close()
        with self._lock:
            self._confirmed_lsn = max(self._confirmed_lsn, slot.confirmed_lsn)
        self._at = at

    def _checked(
        self, session: ServerSession, at: ChangesPosition
    ) -> tuple[ReplicationSlot, ChangesPosition]:
        """Return the slot, and the position to begin at."""
        table = self._table
        slot = self._free_slot(session)
        if at.lsn == 0:
            at = ChangesPosition(in_snapshot=table.snapshot, lsn=slot.confirmed_lsn)
        check_no_gap(slot, at.lsn)
        history = partial(timeline_history, table.options, table.doing)
        timeline = check_log(session, table.slot, at, history)
        if self._end_lsn is not None:
            # This message extends the log beyond the end, even if nobody else writes, so that the end
            # is noticed.
            session.rows("SELECT pg_logical_emit_message(true, 'rheos', '')")
        return slot, msgspec.structs.replace(at, timeline=timeline)

    def _free_slot(self, session: ServerSession) -> ReplicationSlot:
        """Return the slot once no reader uses it. The server keeps a lost reader's slot in use until
        its `wal_sender_timeout` has passed."""
        name = self._table.slot
        until_s = time.monotonic() + sender_timeout_s(session) + _IN_USE_MARGIN_S
        while (slot := find_slot(session, name)).is_active and not self._buffer.is_closing:
            if time.monotonic() >= until_s:
                raise ConfigurationError(
                    f"the replication slot {name} is in use",
                    hint="each job needs its own slot: choose another name with slot=",
                )
            self._buffer.pause(_IN_USE_PAUSE_S)
        return slot

    def _read_snapshot(self) -> None:
        parts = tuple(part for part in self._at.parts if part.upto is not None)
        watched = WatchedSession(self._table.options, self._table.doing)
        try:
            self._session = watched.do(lambda session: session)
            snapshot = watched.do(
                lambda session: TableSnapshot(session, self._table.rows, self._table.sql)
            )
            blocks = snapshot.blocks(parts[-1].upto if parts else None)
            while (block := watched.do(lambda session: next(blocks, None))) is not None:
                self._at = self._give_block(block, parts, snapshot.part)
                if self._buffer.is_closing:
                    return
            self._at = msgspec.structs.replace(
                self._at, parts=(*parts, snapshot.part), in_snapshot=False
            )
            self._give(BufferedChunk(_no_rows(self._table.rows), lambda row: self._at, self._at))
        finally:
            self._session = None
            watched.close()

    def _give_block(
        self, block: SnapshotBlock, parts: tuple[SnapshotRange, ...], part: SnapshotRange
    ) -> ChangesPosition:
        before = self._at

        def at(row: int) -> ChangesPosition:
            upto = SnapshotRange(part.snapshot, part.lsn, block.key(row - 1))
            return msgspec.structs.replace(before, parts=(*parts, upto))

        after = at(block.rows.num_rows)
        self._give(BufferedChunk(block.rows, at, after))
        return after

    def _read_stream(self) -> ChangeTranslation:
        """Read changes; return their translation, which has ended unless the buffer was closed."""
        table = self._table
        translation = ChangeTranslation(table.rows, table.schema, table.name, self._at, self._end_lsn)
        stream = self._opened_stream()
        check = ServerCheck(table.options, table.doing)
        try:
            while not self._buffer.is_closing and not translation.ended:
                waits = False
                for received in stream.received(_WAIT_S):
                    if received.payload is not None:
                        translation.take(decode(received.payload))
                    else:
                        translation.caught_up(received.wal_end)
                    if (
                        translation.ended
                        or translation.gathered_rows >= _CHUNK_ROWS
                        or translation.gathered_bytes >= _CHUNK_BYTES
                    ):
                        break
                else:
                    waits = True
                self._give_changes(translation)
                stream.confirm(self._confirmed_lsn)
                self._check_heard(stream, check)
                self._wait_for_room(stream)
                if waits and self._end_lsn is not None and not translation.finished:
                    stream.send_status(asks=True)
        finally:
            stream.close()
            check.close()
        return translation

    def _opened_stream(self) -> ReplicationStream:
        """Return a stream that begins at the current position, confirmed up to the last checkpoint."""
        table, made = self._table, list[ReplicationStream]()
        begin_lsn, confirmed_lsn = self._at.lsn, self._confirmed_lsn

        def make(progressed: object) -> ReplicationStream:
            made.append(
                ReplicationStream(
                    table.options, table.slot, table.slot, begin_lsn, confirmed_lsn, table.doing
                )
            )
            return made[0]

        calls, check = BoundedCalls(), ServerCheck(table.options, table.doing)
        try:
            return calls.run(
                f"{table.doing}, at {table.options}",
                STATEMENT.limit_s,
                make,
                # The server grants the slot to one reader: an old stream must not keep it.
                partial(_close_all, made),
                check.answers,
            )
        finally:
            calls.close()
            check.close()

    def _check_heard(self, stream: ReplicationStream, check: ServerCheck) -> None:
        """Raise UnavailableError if neither the stream nor another connection gets an answer."""
        if time.monotonic() - stream.heard_at_s < STATEMENT.limit_s:
            return
        if not check.answers():
            raise UnavailableError(
                f"{self._table.doing}, at {self._table.options}: no answer for {STATEMENT.limit_s:g} s",
                hint="check that the server is up and reachable. The stream is reopened until the "
                "server answers",
            )
        stream.heard_at_s = time.monotonic()

    def _give_changes(self, translation: ChangeTranslation) -> None:
        parts = translation.parts
        after = translation.position()
        if translation.gathered_rows:
            gathered, places = translation.taken()

            def at(row: int) -> ChangesPosition:
                return ChangesPosition(parts, False, *places[row - 1], after.timeline)

            self._give(BufferedChunk(gathered.batch(), at, after))
        elif after.lsn > self._at.lsn and (
            translation.finished or time.monotonic() >= self._progress_at_s
        ):
            # Later entries are changes of other tables: the server need not keep them for this job.
            self._give(BufferedChunk(_no_rows(self._table.rows), lambda row: after, after))
        else:
            return
        self._progress_at_s = time.monotonic() + _PROGRESS_EVERY_S
        self._at = after

    # --- helpers
    # ----------------------------------------------------------------------------------------

    def _give(self, chunk: BufferedChunk) -> None:
        """Enqueue a chunk. If many chunks are buffered, as during a snapshot, wait."""
        while self._session is not None and not self._buffer.wait_for_room(_ROOM_WITHIN_S):
            pass
        self._buffer.give(chunk)

    def _wait_for_room(self, stream: ReplicationStream) -> None:
        """Wait until there is room in the buffer, and send keepalives to the server meanwhile."""
        while not self._buffer.wait_for_room(_ROOM_WITHIN_S):
            stream.confirm(self._confirmed_lsn)
            stream.send_status()


def _no_rows(of: ChangeRows) -> Any:
    return pa.RecordBatch.from_pylist([], of.schema())


def _close_all(streams: Sequence[ReplicationStream]) -> None:
    for stream in streams:
        stream.close()
