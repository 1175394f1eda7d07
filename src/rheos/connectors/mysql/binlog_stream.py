"""Stream of the events of a server's binlog, as a replica receives it."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Any

from rheos.connectors.calls.bounded_calls import BoundedCalls
from rheos.connectors.mysql.binlog_events import EventDecoder, LoggedEvent
from rheos.connectors.mysql.binlog_position import LogPlace
from rheos.connectors.mysql.server_log import charsets
from rheos.connectors.mysql.server_login import (
    HEARTBEAT_S,
    STATEMENT,
    STREAM,
    ServerLogin,
    client,
    cut_off,
    rows_of,
    server_error,
)
from rheos.connectors.mysql.table_rows import TableRows
from rheos.core.errors import ConfigurationError

_GONE = 1236
_MAX_SERVER_ID = 1 << 32


class BinlogStream:
    """A connection over which the server sends its log from a place on."""

    def __init__(self, login: ServerLogin, of: TableRows, place: LogPlace, doing: str) -> None:
        """Open the stream. Raises a RheosError."""
        self._login = login
        self._doing = doing
        made: list[Any] = []
        calls = BoundedCalls()

        def open_stream(progressed: object) -> EventDecoder:
            made.append(login.connected(STREAM.limit_s))
            return self._begin(made[0], of, place)

        try:
            self._decoder = calls.run(
                f"{doing}, at {login}",
                STATEMENT.limit_s,
                open_stream,
                lambda: _cut_off_all(made),
            )
        except (client().err.Error, OSError) as error:
            raise self._error(error) from None
        finally:
            calls.close()
        self._connection = made[0]

    def _begin(self, connection: Any, of: TableRows, place: LogPlace) -> EventDecoder:
        [(checksum,)] = rows_of(connection, "SELECT @@global.binlog_checksum")
        known = charsets(connection)
        # A capability of 4 lets the server send events as they are, with GTIDs.
        rows_of(
            connection,
            "SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4, "
            f"@master_heartbeat_period = {int(HEARTBEAT_S * 1e9)}",
        )
        commands = client().constants.COMMAND
        # Each replica needs its own id: the server ends the stream of an older one with the same id.
        own_id = uuid.uuid4().int % (_MAX_SERVER_ID - 1) + 1
        ask = struct.pack("<IHI", place.offset, 0, own_id) + place.file.encode()
        connection._execute_command(commands.COM_BINLOG_DUMP, ask)
        return EventDecoder(
            has_checksums=checksum == "CRC32",
            database=of.database,
            table=of.table,
            charsets=known,
        )

    def next(self) -> LoggedEvent:
        """Wait for the next event, and return it; an idle server sends heartbeats.

        Raises a RheosError, and MalformedEventError for an event that cannot be decoded.
        """
        try:
            packet = self._connection._read_packet()
        except (client().err.Error, OSError) as error:
            raise self._error(error) from None
        data: bytes = packet.get_all_data()
        if packet.is_eof_packet():
            raise self._error(ConnectionError("the server has ended the stream of its log"))
        return self._decoder.decode(data[1:])

    def _error(self, error: Exception) -> Exception:
        if error.args and error.args[0] == _GONE:
            return ConfigurationError(
                self._login.redact(f"{self._doing}, at {self._login}: {error.args[-1]} ({_GONE})"),
                hint="the server has removed a part of its log, or cannot read it. Start the job anew, "
                "without its checkpoints: it then begins with a new snapshot",
            )
        return server_error(error, self._doing, self._login)

    def close(self) -> None:
        """Close the connection without waiting for the server."""
        cut_off(self._connection)


def _cut_off_all(connections: Sequence[Any]) -> None:
    for each in connections:
        cut_off(each)
