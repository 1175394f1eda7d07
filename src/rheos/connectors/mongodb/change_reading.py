"""Thread that reads a collection's documents, and then its change stream.

The commands are made directly, so that one reply is one chunk: its size has MongoDB's limit of 16 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rheos.connectors.chunk_buffer import BufferReader
from rheos.connectors.mongodb.document_position import DocumentPosition, decoded, encoded
from rheos.connectors.mongodb.document_rows import DocumentRows
from rheos.connectors.mongodb.session import LOGGER, MongodbAddress, MongodbSession
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import InputError, UnavailableError

_BATCH_ROWS = 1000
_AWAIT_MS = 500
_PROGRESS_EVERY_S = 10.0
_LOST_HISTORY = (136, 260, 280, 286)
"""Codes of a resume token that the server cannot resume at."""


class ChangeSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of the split."""

    token: bytes
    """Resume token at which the changes begin."""


@dataclass(frozen=True)
class ReadCollection:
    """Collection and rows. Frozen: it is sent to the workers."""

    server: MongodbAddress
    rows: DocumentRows
    ends: bool
    """Whether the source ends when no change is left."""
    retry_for_ms: int

    @property
    def doing(self) -> str:
        return f"the collection {self.rows.collection} cannot be read"


class ChangeStream:
    """Cursor of a change stream. Its calls are made in a session of the server."""

    def __init__(self, collection: str, token: Any) -> None:
        self._collection = collection
        self.token = token
        """Resume token after the last reply; None for the present."""
        self._cursor = 0
        self._session: Any = None

    def open(self, database: Any) -> Sequence[Mapping[str, Any]]:
        """Open it, and return the first events."""
        options: dict[str, Any] = {"fullDocument": "updateLookup"}
        if self.token is not None:
            options["resumeAfter"] = self.token
        self._session = database.client.start_session()
        return self._events(
            database.command(
                "aggregate",
                self._collection,
                pipeline=[{"$changeStream": options}],
                cursor={"batchSize": _BATCH_ROWS},
                session=self._session,
            ),
            "firstBatch",
        )

    def take(self, database: Any) -> Sequence[Mapping[str, Any]]:
        """Wait for events for half a second, and return them."""
        return self._events(
            database.command(
                "getMore",
                self._cursor,
                collection=self._collection,
                batchSize=_BATCH_ROWS,
                maxTimeMS=_AWAIT_MS,
                session=self._session,
            ),
            "nextBatch",
        )

    def close(self, database: Any) -> None:
        """Close the cursor."""
        if self._cursor:
            database.command("killCursors", self._collection, cursors=[self._cursor])
        if self._session is not None:
            self._session.end_session()

    def _events(self, reply: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
        cursor = reply["cursor"]
        self._cursor = cursor["id"]
        events: Sequence[Mapping[str, Any]] = cursor[name]
        token = cursor.get("postBatchResumeToken") or (events[-1]["_id"] if events else None)
        self.token = token or self.token
        if not self._cursor and not events:
            raise UnavailableError(f"the change stream of {self._collection} has ended")
        return events


class ChangeReading(ReadingThread):
    """Reading of one collection in a thread."""

    def __init__(self, of: ReadCollection, position: DocumentPosition, ctx: ReaderContext) -> None:
        super().__init__("rheos-mongodb", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._at = position
        self._session = MongodbSession(of.server, of.doing)
        self._is_finished = False
        self._given_s = time.monotonic()

    def start(self) -> ChangeReader:
        """Start the thread, and return the reader of its rows."""
        reader = ChangeReader(self, self._at)
        self.run()
        return reader

    # --- in the thread
    # ------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def disconnect(self) -> None:
        self._session.close()

    def read(self) -> None:
        while self._at.in_snapshot and self.buffer.wait_until_room():
            self._read_documents()
        if not self.buffer.is_closing:
            self._read_changes()

    def _read_documents(self) -> None:
        at = self._at
        found = self._session.do(self._next_documents)
        self.patience.restore()
        if found:
            chunk = self._of.rows.of_documents(found, at, at.token)
            self.buffer.give(chunk)
            assert isinstance(chunk.after, DocumentPosition)
            self._at = chunk.after
        else:
            self._at = DocumentPosition(at.token)
            self.buffer.give(self._of.rows.progress(at.token))

    def _next_documents(self, database: Any) -> Sequence[Mapping[str, Any]]:
        """Return the documents after the position, in the order of `_id`."""
        command: dict[str, Any] = {
            "find": self._of.rows.collection,
            "projection": dict.fromkeys(self._of.rows.fields.names, 1),
            "sort": {"_id": 1},
            "hint": {"_id": 1},
            "batchSize": _BATCH_ROWS,
            "singleBatch": True,
        }
        if self._at.after is None:
            return self._batch(database, command)
        # A comparison would find only ids of one type. The last document may have been deleted since.
        last = decoded(self._at.after)
        command["min"] = {"_id": last}
        found = self._batch(database, command)
        if not found or found[0]["_id"] != last:
            return found
        return found[1:] or self._batch(database, {**command, "skip": 1})

    @staticmethod
    def _batch(database: Any, command: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = database.command(command)["cursor"]["firstBatch"]
        return found

    def _read_changes(self) -> None:
        stream = ChangeStream(self._of.rows.collection, decoded(self._at.token))
        self._give(stream, self._session.do(_resumed(self._of, stream.open)))
        while self.buffer.wait_until_room():
            events = self._session.do(stream.take)
            self.patience.restore()
            self._give(stream, events)
            self._is_finished = self._of.ends and not events
            if self._is_finished:
                break
        self._session.do(stream.close)

    def _give(self, stream: ChangeStream, events: Sequence[Mapping[str, Any]]) -> None:
        token = encoded(stream.token)
        now_s = time.monotonic()
        if events:
            chunk = self._of.rows.of_events(events, self._at, token)
        elif token != self._at.token and now_s - self._given_s > _PROGRESS_EVERY_S:
            chunk = self._of.rows.progress(token)
        else:
            return
        self.buffer.give(chunk)
        self._at, self._given_s = DocumentPosition(token), now_s


def _resumed(of: ReadCollection, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the work with an own error for a token whose changes are no longer in the oplog."""

    def run(database: Any) -> Any:
        try:
            return work(database)
        except Exception as error:
            if getattr(error, "code", None) not in _LOST_HISTORY:
                raise
            raise InputError(
                f"the changes of {of.rows.collection} after the job's position are no longer in the "
                f"oplog of {of.server.address}",
                hint="let the oplog keep more than the longest time for which the job may be down "
                "(replSetResizeOplog). Start the job anew, without a checkpoint",
            ) from None

    return run


class ChangeReader(BufferReader):
    """Reader of one collection."""

    def __init__(self, reading: ChangeReading, position: DocumentPosition) -> None:
        super().__init__(reading.buffer, position)
        self._reading = reading

    def close(self) -> None:
        self._reading.close()
