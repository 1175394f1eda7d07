"""Reports of the subtasks of a batch job to the driver. They travel as rows of Spark's plan."""

from __future__ import annotations

import msgspec

from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.ids import OperatorId


class Note(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    operator: OperatorId


class Staged(Note, frozen=True):
    """A report of a sink's staged rows. The driver commits them once the whole job has succeeded."""

    committable: bytes


class Counted(Note, frozen=True):
    """The metrics of a subtask that has ended."""

    records_in: int
    records_out: int
    counters: dict[str, int]
    accumulated: dict[str, Accumulated] = {}


class Handed(Note, frozen=True):
    """The number of collected rows that a task sends to the driver, apart from the notes."""

    pieces: int
    rows: int
    size_bytes: int

    def plus(self, other: Handed) -> Handed:
        return Handed(
            operator=self.operator,
            pieces=self.pieces + other.pieces,
            rows=self.rows + other.rows,
            size_bytes=self.size_bytes + other.size_bytes,
        )


class Ended(Note, frozen=True):
    """A report that a task has run its chain to the end. The operator is the chain's head. The driver
    compares the number of these reports with the number of tasks that Spark reports."""


AnyNote = Staged | Counted | Handed | Ended

encode = msgspec.msgpack.Encoder().encode
decoder: msgspec.msgpack.Decoder[AnyNote] = msgspec.msgpack.Decoder(AnyNote)
