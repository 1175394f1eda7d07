"""A stream of changes from the server: the replication protocol over psycopg's own connection."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from rheos.connectors.postgres.change_positions import lsn_text
from rheos.connectors.postgres.connection import ServerOptions, client, quoted
from rheos.connectors.postgres.errors import postgres_error
from rheos.connectors.postgres.pgoutput import MalformedMessageError
from rheos.connectors.postgres.watched_session import STATEMENT
from rheos.core.errors import UnavailableError

_WAL = struct.Struct(">QQq")
_KEEPALIVE = struct.Struct(">QqB")
_STATUS = struct.Struct(">cQQQqB")
_STATUS_EVERY_S = 5.0
_LOOK_AGAIN = ("42704", "55006")
"""Errors after which the slot must be checked again: it has just been dropped, or is in use."""
_EPOCH_US = 946_684_800_000_000


class ReceivedMessage(NamedTuple):
    wal_end: int
    """Position up to which the server has sent everything."""
    payload: bytes | None
    """Message of pgoutput; None for a keepalive."""


def timeline_history(options: ServerOptions, doing: str, timeline: int) -> str:
    """Return the history of a timeline, with a line for each earlier one that the log has left: number,
    position and reason. Raises RheosError and psycopg.Error."""
    session = options.connect(doing, replication="database")
    try:
        [(_file, history)] = session.rows(f"TIMELINE_HISTORY {timeline}")
    finally:
        session.close()
    return history if isinstance(history, str) else bytes(history).decode(errors="replace")


class ReplicationStream:
    """Replication stream for one thread. It must be closed."""

    def __init__(
        self,
        options: ServerOptions,
        slot: str,
        publication: str,
        lsn: int,
        confirmed_lsn: int,
        doing: str,
    ) -> None:
        self._options = options
        self._doing = doing
        self._session = options.connect(doing, replication="database")
        self._pg = self._session.connection.pgconn
        self._confirmed = confirmed_lsn
        self._status_at_s = 0.0
        self.heard_at_s = time.monotonic()
        """Arrival time of the latest message, by the monotonic clock."""
        started = self._pg.exec_(
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '1', publication_names '{quoted(publication)}')".encode()
        )
        if started.status != client().pq.ExecStatus.COPY_BOTH:
            error = client().errors.error_from_result(started)
            self.close()
            if error.sqlstate in _LOOK_AGAIN:
                raise UnavailableError(f"{doing}, at {options}: {error.diag.message_primary}")
            raise postgres_error(error, doing, options)
        self._pg.nonblocking = 1

    def confirm(self, lsn: int) -> None:
        """Confirm that entries before `lsn` are not needed again: the server may remove them."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._status_at_s = 0.0

    def received(self, wait_s: float) -> Iterator[ReceivedMessage]:
        """Yield received messages; wait a while for the first. Raises RheosError if the stream has
        ended."""
        waited = False
        while True:
            if time.monotonic() >= self._status_at_s:
                # A server without data to send answers with a keepalive.
                self.send_status(asks=time.monotonic() - self.heard_at_s >= _STATUS_EVERY_S)
            length, data = self._pg.get_copy_data(1)
            if length > 0:
                received = self._parsed(bytes(data))
                if received is not None:
                    yield received
            elif length == 0:
                if waited:
                    return
                waited = True
                select.select([self._pg.socket], [], [], wait_s)
                self._read_more()
            else:
                raise self._ended()

    def send_status(self, *, asks: bool = False) -> None:
        """Report the confirmed position to the server. With `asks`, request a keepalive."""
        now_us = time.time_ns() // 1000 - _EPOCH_US
        status = _STATUS.pack(b"r", self._confirmed, self._confirmed, 0, now_us, asks)
        try:
            self._pg.put_copy_data(status)
            until_s = time.monotonic() + STATEMENT.limit_s
            while self._pg.flush():
                select.select([], [self._pg.socket], [], 1.0)
                if time.monotonic() >= until_s:
                    raise UnavailableError(
                        f"{self._doing}, at {self._options}: the server has accepted no message "
                        f"for {STATEMENT.limit_s:g} s"
                    )
        except client().Error as error:
            raise postgres_error(error, self._doing, self._options) from None
        self._status_at_s = time.monotonic() + _STATUS_EVERY_S

    def close(self) -> None:
        self._session.close()

    def _parsed(self, data: bytes) -> ReceivedMessage | None:
        kind, size = data[:1], len(data) - 1
        self.heard_at_s = time.monotonic()
        if kind == b"w" and size >= _WAL.size:
            _start, end, _sent_us = _WAL.unpack_from(data, 1)
            return ReceivedMessage(end, data[1 + _WAL.size :])
        if kind == b"k" and size == _KEEPALIVE.size:
            end, _sent_us, asks = _KEEPALIVE.unpack_from(data, 1)
            if asks:
                self.send_status()
            return ReceivedMessage(end, None)
        raise MalformedMessageError(f"unknown frame {kind!r} of {size} bytes")

    def _read_more(self) -> None:
        try:
            self._pg.consume_input()
        except client().Error as error:
            raise postgres_error(error, self._doing, self._options) from None

    def _ended(self) -> Any:
        result = self._pg.get_result()
        if result is not None and result.error_message:
            error = client().errors.error_from_result(result)
            return postgres_error(error, self._doing, self._options)
        return UnavailableError(
            f"{self._doing}, at {self._options}: the server has ended the stream",
            hint="the job is restarted by its restart strategy",
        )
