"""A simulated server: a table of numbers and strings, its log, and the events that describe it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from rheos.connectors.mysql.binlog_events import (
    Begin,
    Event,
    LoggedCommit,
    LoggedEvent,
    LogHeartbeat,
    Rotation,
    RowChanges,
    Statement,
    TableDescription,
)
from rheos.connectors.mysql.binlog_position import BinlogPosition, Key, LogPlace
from rheos.connectors.mysql.logged_columns import LONG, VARCHAR, ColumnDescription, logged_column
from rheos.connectors.mysql.snapshot_blocks import TableBlock
from rheos.connectors.mysql.table_rows import SelectedColumn, TableRows
from rheos.core.errors import UnavailableError

COLUMNS = (
    logged_column(ColumnDescription("id", LONG, b"", False, "binary", ())),
    logged_column(ColumnDescription("v", VARCHAR, b"\x40\x00", False, "utf8mb4", ())),
)
TABLE_ID = 7


def table_rows() -> TableRows:
    """Return the configuration of the table `shop.t (id int PRIMARY KEY, v varchar(16))`."""
    columns = (
        SelectedColumn("id", COLUMNS[0].kind, pa.int32(), "int", is_required=True),
        SelectedColumn("v", COLUMNS[1].kind, pa.string(), "varchar"),
    )
    known: Any = (("op", "op"), ("before", "before"))
    return TableRows("shop", "t", columns, ("id", "v"), ("id",), known)


def row(id: int, value: str | None) -> bytes:
    """Return a row as the log has it."""
    nulls = b"\x02" if value is None else b"\x00"
    text = b"" if value is None else bytes([len(value.encode())]) + value.encode()
    return nulls + id.to_bytes(4, "little", signed=True) + text


def changed(change: Any, *rows: bytes) -> RowChanges:
    """Return an event with rows; of an update, each old row is followed by the new one."""
    bitmaps = b"\x03" * (2 if change == "update" else 1)
    return RowChanges(change, TABLE_ID, False, b"\x02" + bitmaps + b"".join(rows))


@dataclass
class SimulatedServer:
    """The server: a `LogServer` that other clients change between any two calls."""

    rng: Random
    table: dict[int, str | None] = field(default_factory=dict)
    log: list[tuple[str, LoggedEvent]] = field(default_factory=list)
    """All events with their files."""
    place: LogPlace = field(default_factory=lambda: LogPlace("log.000001", 100))
    outages: float = 0.0
    """Probability that a call fails."""
    quiet: bool = False
    transactions: int = 0

    # --- what other clients do
    # --------------------------------------------------------------------------

    def write(self) -> None:
        """Change the table in a transaction, or change the log only."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.05:
            number = int(self.place.file[-6:]) + 1
            name = f"log.{number:06d}"
            self._log(Rotation(name, 4))
            self.place = LogPlace(name, 4)
            return
        self.transactions += 1
        gtid = f"0-{self.transactions}"
        if kind < 0.08:
            self._log(Begin(gtid, True, False))
            self._log(Statement("shop", "TRUNCATE TABLE `t`"))
            self.table.clear()
            return
        self._log(Begin(gtid, False, False))
        for _ in range(rng.randrange(4)):
            self._log(TableDescription(TABLE_ID, "shop", "t", COLUMNS))
            self._log(self._change())
        if self.transactions % 5 == 0:
            # After a restart of the server, an id belongs to another table.
            self._log(TableDescription(TABLE_ID, "shop", "other", None))
            self._log(changed("insert", row(0, "of another table")))
        self._log(LoggedCommit())

    def _change(self) -> RowChanges:
        rng, table = self.rng, self.table
        old, new = rng.randrange(30), rng.randrange(30)
        value = rng.choice([None, "", f"v{rng.randrange(100)}"])
        if old not in table:
            table[old] = value
            return changed("insert", row(old, value))
        before = row(old, table.pop(old))
        if rng.random() < 0.3:
            return changed("delete", before)
        id = new if new not in table and rng.random() < 0.4 else old
        table[id] = value
        return changed("update", before, row(id, value))

    def _log(self, event: Event) -> None:
        self.place = LogPlace(self.place.file, self.place.offset + 10)
        self.log.append((self.place.file, LoggedEvent(event, 1, self.place.offset)))

    # --- what the source does
    # ---------------------------------------------------------------------------

    def step(self, writes: float = 0.4) -> None:
        """Let the server fail, or others write, before it answers the source."""
        if self.rng.random() < self.outages:
            raise UnavailableError("the server is away", hint="wait")
        while not self.quiet and self.rng.random() < writes:
            self.write()

    def checked(self, at: BinlogPosition) -> BinlogPosition:
        self.step()
        return at

    def block(self, upto: Key | None) -> TableBlock:
        self.step()
        limit = self.rng.randrange(1, 6)
        rows = [(id, v) for id, v in sorted(self.table.items()) if upto is None or (id,) > upto]
        return TableBlock(rows[:limit], self.place, len(rows) < limit)

    def stream(self, place: LogPlace) -> SimulatedStream:
        self.step()
        return SimulatedStream(self, place)

    def close(self) -> None:
        pass


class SimulatedStream:
    """Events after a place."""

    def __init__(self, server: SimulatedServer, place: LogPlace) -> None:
        self._server = server
        self._next = next(
            (
                number
                for number, (file, event) in enumerate(server.log)
                if LogPlace(file, event.end_offset).order > place.order
            ),
            len(server.log),
        )

    def next(self) -> LoggedEvent:
        self._server.step(0.05)
        if self._next >= len(self._server.log):
            return LoggedEvent(LogHeartbeat(), 0, 0)
        self._next += 1
        return self._server.log[self._next - 1][1]

    def close(self) -> None:
        pass
