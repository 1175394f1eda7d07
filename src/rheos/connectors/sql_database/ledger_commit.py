"""Exactly-once commits of staged rows to a SQL database: a pure state machine that returns the
statements of one transaction, and receives their results.

    RaiseMark --- was below the epoch ------------------> PutRows -> CommitEpoch
       |                                                     ^
       +--> ReadWriterMark -- no row, none known --> AddMark --+
               +-------- at the epoch or above ---> end, without a commit
               +-------- below what was known ----> error

The *ledger* is a table of the database: one row for each writer, with the number of its newest
committed epoch, the *mark*. SL1 to SL7: docs/protocols/sql-database-sink.md. This module uses no
library of databases: `ledger.py` executes the statements, and tests execute them in a simulated
database.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from rheos.connectors.staged_files import StagedRowsFile
from rheos.core.errors import UnrestorableError

_WRITER = re.compile(r"[0-9a-f]{12}")
_FILE = re.compile(r"\d+/[0-9a-f]{12}-\d+\.arrow")


class LedgerEpoch(msgspec.Struct, frozen=True):
    """Committable: the rows that one writer staged at the barrier of one checkpoint."""

    job: str
    operator: str
    subtask: int
    attempt: int
    writer: str
    """Name of the writer, which no other writer ever has (SL1)."""
    checkpoint: int
    schema: str | None
    """Schema of the target; None for the default one of the connection."""
    table: str
    columns: list[str]
    key: list[str]
    gone: str | None
    """Boolean column of the file: where it is true, the row with the same key is deleted."""
    file: StagedRowsFile
    size_bytes: int
    """Size of all rows in memory."""
    published: int
    """The writer's newest checkpoint that was known to be committed at this one's barrier (SL5)."""

    @property
    def target(self) -> str:
        """Return the name of the target, for people."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


_decoder = msgspec.msgpack.Decoder(LedgerEpoch)


def decoded_epoch(committable: bytes) -> LedgerEpoch:
    """Decode a committable. Raises UnrestorableError if it is damaged."""
    try:
        epoch = _decoder.decode(committable)
        assert _WRITER.fullmatch(epoch.writer), f"its writer is {epoch.writer!r}"
        assert _FILE.fullmatch(epoch.file.path), f"its file is {epoch.file.path!r}"
        assert 0 <= epoch.published < epoch.checkpoint, "its number of the checkpoint"
        assert min(epoch.subtask, epoch.attempt, epoch.file.rows - 1) >= 0, "a number in it is negative"
        assert epoch.columns, "no columns"
        assert epoch.gone is None or epoch.key, "deletions without a key"
    except (msgspec.MsgspecError, ValueError, RecursionError, AssertionError) as error:
        raise UnrestorableError(
            f"the checkpoint's list of staged rows is damaged: {error}",
            hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
        ) from error
    return epoch


@dataclass(frozen=True, slots=True)
class RaiseMark:
    """Raise the writer's mark to the epoch's number, if it is below that and not below `published`.
    The answer is whether it was raised. Until the transaction ends, no other one can change the mark,
    nor execute this statement for the same writer (SL3)."""

    epoch: LedgerEpoch


@dataclass(frozen=True, slots=True)
class ReadWriterMark:
    """Read the writer's mark. The answer is the mark; None without a row."""

    writer: str


@dataclass(frozen=True, slots=True)
class AddMark:
    """Add the writer's row to the ledger, with the epoch's number. It must fail if the row exists."""

    epoch: LedgerEpoch


@dataclass(frozen=True, slots=True)
class PutRows:
    """Write the rows of the epoch's file to the target."""

    epoch: LedgerEpoch


@dataclass(frozen=True, slots=True)
class CommitEpoch:
    """End the transaction, so that it takes effect."""


Statement: TypeAlias = RaiseMark | ReadWriterMark | AddMark | PutRows | CommitEpoch
Answer: TypeAlias = bool | int | None
Statements: TypeAlias = Generator[Statement, Answer, None]


def commit_statements(epoch: LedgerEpoch) -> Statements:
    """Yield the statements of the transaction that commits an epoch, once.

    The caller executes each statement before it requests the next one, and sends the answer. If a
    statement fails, or its outcome is unknown, the caller ends the transaction and begins anew. If the
    statements end without `CommitEpoch`, nothing has changed.

    Args:
        epoch: an epoch that the log lists. It may be committed already.

    Raises:
        UnrestorableError: the ledger has lost the writer's mark.
    """
    if not (yield RaiseMark(epoch)):
        mark = yield ReadWriterMark(epoch.writer)
        if mark is not None and mark >= epoch.checkpoint:
            return
        if mark is not None or epoch.published:
            raise _forgotten(epoch, mark)
        yield AddMark(epoch)
    yield PutRows(epoch)
    yield CommitEpoch()


def _forgotten(epoch: LedgerEpoch, mark: int | None) -> UnrestorableError:
    return UnrestorableError(
        f"the database has lost rows of the table {epoch.target} that were published: subtask "
        f"{epoch.subtask} committed checkpoint {epoch.published}, and the table rheos_ledger has "
        f"{'none' if mark is None else f'only checkpoint {mark}'}",
        hint=RESTORED,
    )


RESTORED = (
    "check whether the database was recreated, restored from a copy, or changed by hand. Restore a "
    "copy that has these rows; or empty the table, and start the job from a savepoint taken before "
    "them, or anew with another checkpoint directory"
)
