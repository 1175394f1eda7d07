"""Changes of a table with a log: the rows of one version, and then the changes of each later version.

The changes of a version are read in steps. A step is a pass over one file. Steps that delete rows
precede those that insert rows. So a row that moves to another file is not deleted after its insertion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.files.chunks import Chunk, ChunkDecoder, ChunkReader
from rheos.connectors.files.parquet import START
from rheos.core.connectors.contract import EndOfSplit, Pending, Polled, ReaderContext, SplitReader
from rheos.core.errors import InputError
from rheos.core.protocol.ports import Completion

Op: TypeAlias = Literal["snapshot", "insert", "update_before", "update_after", "delete"]
Known: TypeAlias = Literal["op", "version", "snapshot", "commit_time"]
METADATA_TYPES: Mapping[Known, pa.DataType] = {
    "op": pa.string(),
    "version": pa.int64(),
    "snapshot": pa.int64(),
    "commit_time": pa.timestamp("us", "UTC"),
}
"""Types of the metadata columns, by their fields. Each format has a name for its versions."""

_ALL_READ = -1
"""Number of the step of a version that is read to its end."""


@dataclass(frozen=True)
class FeedColumn:
    """Column of a file that has the kind of each row's change."""

    name: str
    known: frozenset[str]
    """All values that the column may have."""
    ops: Mapping[str, Op]
    """Kinds of the rows that the step reads, by the value of the column. It leaves out other rows."""


@dataclass(frozen=True)
class ChangeStep:
    """A pass over one file."""

    file: Any
    """The file, as the log's `decoder` expects it."""
    path: str
    """Path of the file, for people."""
    op: Op | FeedColumn
    """Kind of change of all rows, or the column that has it."""


@dataclass(frozen=True)
class VersionChanges:
    """The changes that one version makes."""

    version: int
    steps: Sequence[ChangeStep]
    """Equal each time that the version is read."""
    commit_time_us: int | None = None
    """Time of the commit in microseconds since the epoch; None if it is unknown."""


class ChangeLog(ABC):
    """The log of a table. Its methods run on the I/O executor, one at a time."""

    @abstractmethod
    def rows_of(self, version: int) -> VersionChanges:
        """Return all rows of a version, as a snapshot. Raises InputError if it cannot be read."""

    @abstractmethod
    def changes_of(self, version: int, columns: Sequence[str]) -> VersionChanges:
        """Return the changes of a version since the one before.

        Args:
            version: the version.
            columns: the columns of the table that are read.

        Raises:
            InputError: the changes cannot be read, or the version no longer has a column.
        """

    @abstractmethod
    def following(self, version: int) -> int | None:
        """Return the version after a version; None if there is none yet.

        Raises:
            InputError: there is a later version, but the log no longer has the one that follows.
        """

    @abstractmethod
    def decoder(self, step: ChangeStep, columns: pa.Schema, position: bytes) -> ChunkDecoder:
        """Return a decoder of the file of a step, with these columns."""

    @abstractmethod
    def lost_file(self, version: int, path: str) -> InputError:
        """Return the error for a file of a version that does not exist any more."""


@dataclass(frozen=True)
class FeedColumns:
    """Columns of the source's rows: those of the table, and metadata of the change."""

    columns: pa.Schema
    metadata: tuple[tuple[Known, str], ...]
    """Metadata fields, and the names of their columns."""

    @property
    def schema(self) -> pa.Schema:
        """Return all columns."""
        added = [pa.field(name, METADATA_TYPES[known]) for known, name in self.metadata]
        return pa.schema([*self.columns, *added])

    def reading(self, names: frozenset[str]) -> FeedColumns:
        """Return the columns with these names, and those of the table that are not nullable. At least
        one column of the table is kept, because files have no number of rows without it."""
        kept = [each for each in self.columns if not each.nullable or each.name in names]
        kept = kept or [*self.columns][:1]
        metadata = tuple(pair for pair in self.metadata if pair[1] in names)
        return FeedColumns(pa.schema(kept), metadata)

    def batch(self, rows: pa.RecordBatch, ops: pa.Array, of: VersionChanges) -> pa.RecordBatch:
        """Return rows of the table as rows of the source.

        Args:
            rows: the rows, which may have further columns.
            ops: kind of change of each row.
            of: the version that makes the changes.
        """
        count = rows.num_rows
        committed = pa.scalar(of.commit_time_us, METADATA_TYPES["commit_time"])
        version = pa.repeat(pa.scalar(of.version, pa.int64()), count)
        values: Mapping[Known, pa.Array] = {
            "op": ops,
            "version": version,
            "snapshot": version,
            "commit_time": pa.repeat(committed, count),
        }
        added = [values[known] for known, _ in self.metadata]
        columns = [*rows.columns[: len(self.columns)], *added]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class FeedDecoder(ChunkDecoder):
    """Decoder of the rows that a step reads from its file."""

    counts = "row"

    def __init__(
        self, log: ChangeLog, rows: FeedColumns, of: VersionChanges, step: ChangeStep, position: bytes
    ) -> None:
        self._log = log
        self._rows = rows
        self._of = of
        self._step = step
        op = step.op
        columns = rows.columns
        if isinstance(op, FeedColumn):
            columns = columns.append(pa.field(op.name, pa.string(), nullable=False))
        self._file = log.decoder(step, columns, position)

    def read(self) -> Chunk | None:
        try:
            chunk = self._file.read()
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._log.lost_file(self._of.version, self._step.path) from error
            raise
        if chunk is None:
            return None
        op = self._step.op
        if isinstance(op, FeedColumn):
            return self._selected(chunk, op)
        ops = pa.repeat(pa.scalar(op, pa.string()), chunk.batch.num_rows)
        return replace(chunk, batch=self._rows.batch(chunk.batch, ops, self._of))

    def _selected(self, chunk: Chunk, feed: FeedColumn) -> Chunk:
        """Return the rows whose kind of change belongs to the step."""
        kinds = chunk.batch.column(chunk.batch.num_columns - 1)
        unknown = sorted({*pc.unique(kinds).to_pylist()} - feed.known)
        if unknown:
            raise InputError(
                f"{self._step.path} has the kind of change {unknown[0]!r} in {feed.name}, which is not "
                "known",
                hint=f"the format has only {', '.join(sorted(feed.known))}",
            )
        wanted = pa.array([*feed.ops], pa.string())
        at = pc.index_in(kinds, wanted)
        chosen = np.flatnonzero(np.asarray(at.is_valid()))
        rows = chunk.batch.take(pa.array(chosen))
        ops = pa.array([*feed.ops.values()], pa.string()).take(at.drop_null())
        good = chosen if chunk.good is None else chunk.good[chosen]
        return replace(chunk, batch=self._rows.batch(rows, ops, self._of), good=good)

    def close(self) -> None:
        self._file.close()


class ChangePosition(msgspec.Struct, frozen=True, array_like=True):
    """Position of the next row."""

    version: int
    is_snapshot: bool
    """Whether the rows of the version are read, instead of its changes."""
    step: int = 0
    """Number of the step; `_ALL_READ` after the last one."""
    row: bytes = START
    """Position in the file of the step."""

    @classmethod
    def after(cls, version: int) -> ChangePosition:
        """Return the position after all changes of a version."""
        return cls(version, False, _ALL_READ)


class ChangesReader(SplitReader):
    """Reader of the changes of a table. It opens one file at a time."""

    def __init__(
        self,
        log: ChangeLog,
        rows: FeedColumns,
        position: ChangePosition,
        ctx: ReaderContext,
        *,
        look_every_ms: int,
        end: int | None = None,
        until: int | None = None,
    ) -> None:
        """Create it, without reading.

        Args:
            log: the table's log.
            rows: conversion of the rows of a file to those of the source.
            position: where to begin.
            ctx: the environment of the reader.
            look_every_ms: interval at which to look for a new version.
            end: the version with which the split ends.
            until: the version at which the reader has caught up.
        """
        self._log = log
        self._rows = rows
        self._at = position
        self._ctx = ctx
        self._look_every_us = look_every_ms * 1000
        self._end = end
        self._until = until
        self._found: VersionChanges | None = None
        self._loading: Completion[VersionChanges | None] | None = None
        self._look_at_us = 0
        self._file: ChunkReader | None = None

    def poll(self, max_rows: int) -> Polled:
        while True:
            if self._file is not None:
                polled = self._file.poll(max_rows)
                if not isinstance(polled, EndOfSplit):
                    return polled
                self._file.close()
                self._file = None
                self._move(self._at.step + 1)
            elif self._at.step != _ALL_READ and self._found is not None:
                self._open(self._found)
            elif self._is_read_up_to(self._end):
                return EndOfSplit()
            elif (waits := self._load()) is not None:
                return waits

    def _move(self, step: int) -> None:
        """Continue with a step of the version."""
        assert self._found is not None
        ended = step >= len(self._found.steps)
        self._at = ChangePosition(self._at.version, self._at.is_snapshot, _ALL_READ if ended else step)

    def _open(self, found: VersionChanges) -> None:
        if self._at.step >= len(found.steps):  # A version without changes of rows.
            self._move(self._at.step)
            return
        step = found.steps[self._at.step]
        decoder = FeedDecoder(self._log, self._rows, found, step, self._at.row)
        self._file = ChunkReader(step.path, decoder, self._at.row, self._ctx)

    def _load(self) -> Pending | None:
        """Load the steps of the version to read. Returns what to wait for; None if they are loaded."""
        if self._loading is None:
            if self.has_caught_up():
                return Pending()
            wait_us = self._look_at_us - self._ctx.clock.monotonic_us()
            if wait_us > 0:
                return Pending(wait_us)
            self._loading = self._ctx.io.submit(self._next_changes)
        if not self._loading.done():
            return Pending()
        found = self._loading.result()
        self._loading = None
        if found is None:
            self._look_at_us = self._ctx.clock.monotonic_us() + self._look_every_us
            return Pending(self._look_every_us)
        self._found = found
        if self._at.step == _ALL_READ:
            self._at = ChangePosition(found.version, False)
        return None

    def _next_changes(self) -> VersionChanges | None:
        """Return what to read at the position; None if there is no such version yet."""
        at = self._at
        if at.step != _ALL_READ:
            if at.is_snapshot:
                return self._log.rows_of(at.version)
            return self._log.changes_of(at.version, self._rows.columns.names)
        version = self._log.following(at.version)
        return None if version is None else self._log.changes_of(version, self._rows.columns.names)

    def _is_read_up_to(self, version: int | None) -> bool:
        return version is not None and self._at.step == _ALL_READ and self._at.version == version

    def position(self) -> bytes:
        at = self._at
        if self._file is not None:
            at = msgspec.structs.replace(at, row=self._file.position())
        return msgspec.msgpack.encode(at)

    def has_caught_up(self) -> bool:
        return self._is_read_up_to(self._until)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
