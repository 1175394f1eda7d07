"""Thread that reads a table and its binlog into the buffer of the source's reader."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.chunk_buffer import BufferReader, ChunkBuffer
from rheos.connectors.mysql.binlog_events import MalformedEventError, UnnamedColumnsError
from rheos.connectors.mysql.binlog_position import BinlogPosition, Key, LogPlace
from rheos.connectors.mysql.binlog_stream import BinlogStream
from rheos.connectors.mysql.log_reading import LogReading
from rheos.connectors.mysql.server_log import checked
from rheos.connectors.mysql.server_login import ServerLogin, WatchedClient
from rheos.connectors.mysql.snapshot_blocks import BlockReader, TableBlock
from rheos.connectors.mysql.table_rows import TableRows
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.contract import ReaderContext, SourceClient
from rheos.core.errors import InputError, RheosError, UnavailableError, unexpected

AWAY = "server_away"
"""Counter of the times when the server was unreachable, or ended the stream."""
_PAUSES_S = (0.1, 0.3, 1.0, 3.0)
_END_WITHIN_S = 10.0


@dataclass(frozen=True)
class LoggedTable:
    """Configuration of the table to read. Frozen: it is sent to the workers."""

    login: ServerLogin
    rows: TableRows

    @property
    def doing(self) -> str:
        return f"the changes of {self.rows} cannot be read"


class TableServer:
    """The server of a table: a `LogServer`."""

    def __init__(self, table: LoggedTable) -> None:
        self._table = table
        self._session = WatchedClient(table.login, table.doing)
        self._blocks = BlockReader(table.rows)

    def checked(self, at: BinlogPosition) -> BinlogPosition:
        found = self._session.do(lambda connection: checked(connection, at))
        SERVERS_AWAY.answered(self)
        return found

    def block(self, upto: Key | None) -> TableBlock:
        return self._session.do(lambda connection: self._blocks.read(connection, upto))

    def stream(self, place: LogPlace) -> BinlogStream:
        table = self._table
        return BinlogStream(table.login, table.rows, place, table.doing)

    def close(self) -> None:
        self._session.close()


class BinlogFeed(SourceClient):
    """Feed of one subtask; the source has one split."""

    def __init__(self, table: LoggedTable, ctx: ReaderContext) -> None:
        self._table = table
        self._buffer = ChunkBuffer(ctx)
        self._server = TableServer(table)
        self._thread: threading.Thread | None = None
        self._reading: LogReading | None = None

    def open(self, position: BinlogPosition, end: LogPlace | None) -> BufferReader:
        """Start the thread at a position, and return the reader.

        Args:
            position: Position of a checkpoint, or the begin of a new job.
            end: Place in the log at which the source ends; None if it never ends.

        Returns:
            The reader of the thread's rows.
        """
        self._reading = LogReading(self._table.rows, self._server, self._buffer, position, end)
        self._thread = thread(self._run, "rheos-mysql")
        self._thread.start()
        return BufferReader(self._buffer, position)

    def close(self) -> None:
        self._buffer.close()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    def _run(self) -> None:
        assert self._reading is not None
        failed: RheosError | None = None
        try:
            if not self._read(self._reading):
                return
        except RheosError as error:
            failed = error
        except UnnamedColumnsError:
            failed = InputError(
                f"changes of {self._table.rows} were logged without the names of their columns",
                hint="SET GLOBAL binlog_row_metadata = 'FULL', also in its configuration. Then start "
                "the job anew, without its checkpoints",
            )
        except MalformedEventError as error:
            failed = InputError(
                f"the binlog of {self._table.login} cannot be read after {self._reading.at.place}: "
                f"{error}",
                hint="if a column of this table has a type that Rheos cannot read, move it to another "
                "table; otherwise check that no proxy changes what the server sends",
            )
        except Exception as error:
            failed = unexpected(error)
        self._buffer.end(failed)

    def _read(self, reading: LogReading) -> bool:
        """Read to the end; return False if the job must stop before it."""
        tries = 0
        while not self._buffer.is_closing and not reading.is_finished:
            at = reading.at
            try:
                reading.read_on()
                if reading.awaited is not None:
                    self._buffer.stop(reading.awaited.reason)
                    return False
            except UnavailableError as error:
                tries = 0 if reading.at != at else tries + 1
                self._buffer.count(AWAY)
                SERVERS_AWAY.failed(self._server, error.what)
                self._buffer.pause(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
        return True
