"""What a subtask of a batch job tells the driver. Notes travel as rows of Spark's plan, beside ours."""

from __future__ import annotations

import msgspec

from rheos.protocol.ids import OperatorId


class Note(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    operator: OperatorId


class Staged(Note, frozen=True):
    """A sink subtask has staged rows; the driver commits them once the whole job has succeeded."""

    committable: bytes


class Counted(Note, frozen=True):
    """A subtask's figures, when it has ended."""

    records_in: int
    records_out: int
    counters: dict[str, int]


AnyNote = Staged | Counted

encode = msgspec.msgpack.Encoder().encode
decoder: msgspec.msgpack.Decoder[AnyNote] = msgspec.msgpack.Decoder(AnyNote)
