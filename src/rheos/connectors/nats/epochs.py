"""Delivery of staged epochs, each row once.

Before the first row of an epoch is published, a note next to its file records the stream's last
message. A later try reads the headers of the messages after it, and publishes only the rows that are
missing. Each message has an id, by which the server also drops what a process that was considered dead
publishes meanwhile.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import partial

import msgspec
import pyarrow as pa

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.epoch_notes import EpochNotes
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.nats.publishing import MESSAGE_ID, MessagePublishing
from rheos.connectors.nats.session import LOGGER, NatsSession
from rheos.connectors.nats.stream_pull import StreamPull, stream_ends
from rheos.connectors.nats.subjects import any_subject
from rheos.connectors.nats.target import NatsTarget
from rheos.connectors.row_payloads import pieces
from rheos.connectors.spilling import Count
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.elements import Batch


class BegunEpoch(msgspec.Struct, frozen=True):
    """Note that an epoch may be partly published."""

    stream: str
    created_us: int
    after: int
    """Last message of the stream before the epoch's first one."""


_NOTES = EpochNotes(BegunEpoch)


@dataclass
class _Epoch:
    """The epoch that is being delivered."""

    name: str
    published: set[int]
    """Rows that are in the stream."""
    row: int = 0
    """Number of rows that `write` has received."""


class OnceDelivery(ConfirmedDelivery):
    """Publishes the rows of staged epochs, each row once."""

    def __init__(self, target: NatsTarget, stream: str, schema: pa.Schema, count: Count) -> None:
        # The caller repeats a commit that fails; then the note tells what to look for.
        self._messages = MessagePublishing(target, schema, stream)
        super().__init__(self._messages, count, 0, LOGGER)
        self._target = target
        self._stream = stream
        self._session = NatsSession(target.options, target.doing)
        self._epoch: _Epoch | None = None

    def begin_epoch(self, folder: SinkFolder, path: str) -> None:
        name = posixpath.basename(path)
        begun = _NOTES.found(folder, path)
        if begun is not None:
            self._epoch = _Epoch(name, self._published(begun, name))
            return
        ends = self._session.call(lambda connection: stream_ends(connection, self._stream))
        _NOTES.write(folder, path, BegunEpoch(self._stream, ends.created_us, ends.last))
        self._epoch = _Epoch(name, set())

    def write(self, batch: Batch) -> None:
        epoch = self._epoch
        assert epoch is not None, "rows belong to an epoch"
        for rows in pieces(batch):
            numbers = range(epoch.row, epoch.row + rows.num_rows)
            missing = [at for at, number in enumerate(numbers) if number not in epoch.published]
            ids = [f"{epoch.name}#{numbers[at]}" for at in missing]
            if missing:
                left = rows if len(missing) == rows.num_rows else rows.take(missing)
                self.retry(partial(self._messages.publish, left, ids))
            epoch.row += rows.num_rows
            self.settled_rows += rows.num_rows

    def close(self) -> None:
        self._session.close()
        super().close()

    def _published(self, begun: BegunEpoch, name: str) -> set[int]:
        """Return the rows of an epoch that are in the stream."""
        session = self._session
        pull = StreamPull(
            begun.stream,
            any_subject(self._target.subject),
            begun.after,
            waits=False,
            headers_only=True,
        )
        session.call(pull.open)
        ends = session.call(lambda connection: stream_ends(connection, begun.stream))
        rows: set[int] = set()
        last = begun.after
        while last < ends.last:
            messages = session.call(pull.take)
            if not messages and session.call(pull.is_exhausted):
                break
            for message in messages:
                last = message.number
                epoch, _, row = (message.headers or {}).get(MESSAGE_ID, "").rpartition("#")
                if epoch == name and row.isdecimal():
                    rows.add(int(row))
        session.call(pull.close)
        if ends.created_us != begun.created_us or ends.first > begun.after + 1:
            raise UnrestorableError(
                f"rows that were staged for {self._target.subject} may be in the stream "
                f"{begun.stream!r} or not: it has removed messages after {begun.after}",
                hint='start the job once with delivery="at_least_once", which publishes them again; or '
                "from an earlier savepoint. Let the stream keep messages for longer than an outage "
                "of the job",
            )
        return rows
