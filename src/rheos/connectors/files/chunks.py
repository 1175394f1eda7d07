"""Reading a file in chunks on the I/O executor, one ahead, and handing its rows out as asked.

A decoder turns a file into chunks; `ChunkReader` is the split reader around it. In a chunk, *raw* rows
are those of the file (lines, Parquet rows), of which some may be rejected; a position is always that
of a raw row, so a restored reader repeats neither a row nor a rejected one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.contract import EndOfSplit, Pending, Polled, ReaderContext, SplitReader
from rheos.connectors.replay import Pacer
from rheos.connectors.schemas import shorten
from rheos.connectors.times import TimeColumn
from rheos.errors import InputError
from rheos.protocol.elements import Batch
from rheos.protocol.ports import Completion

REJECTED = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
    ]
)
"""Rows of the side output of rejected rows. `line` counts from 1; in Parquet it is the row."""


class BadRow(NamedTuple):
    raw: int
    """Its place among the raw rows of the chunk."""
    line: int
    record: str
    what: str


@dataclass(frozen=True)
class Chunk:
    batch: Batch
    """The good rows."""
    good: npt.NDArray[np.int64] | None
    """The raw rows they are; None where all are good."""
    raw_rows: int
    rejected: Sequence[BadRow]
    """In the order of the file."""
    position: Callable[[int], bytes]
    """The position before a raw row, or at the chunk's end."""

    def raw_after(self, rows: int) -> int:
        """How many raw rows are consumed when `rows` good ones are handed out."""
        if rows == self.batch.num_rows:
            return self.raw_rows
        return rows if self.good is None else int(self.good[rows])


class ChunkDecoder(ABC):
    """Reads a file from a position on. Its calls run one at a time, on the I/O executor."""

    @abstractmethod
    def read(self) -> Chunk | None:
        """The next chunk, or None at the end. Raises InputError."""

    @abstractmethod
    def close(self) -> None:
        """Called on any thread; may wait for a `read` that is under way."""


class ChunkReader(SplitReader):
    """Gives the rows of a decoder's chunks; with a pacer, each not before it is due."""

    def __init__(
        self,
        path: str,
        decoder: ChunkDecoder,
        start: bytes,
        ctx: ReaderContext,
        replay_on: TimeColumn | None = None,
        speed: Completion[float] | None = None,
    ) -> None:
        self._path = path
        self._decoder = decoder
        self._position = start
        self._ctx = ctx
        self._replay_on = replay_on
        self._speed = speed
        self._pacer: Pacer | None = None
        self._coming: Completion[Chunk | None] | None = None
        self._chunk: Chunk | None = None
        self._row = 0
        self._rejected = 0

    def poll(self, max_rows: int) -> Polled:
        if self._speed is not None and self._pacer is None:
            if not self._speed.done():
                return Pending()
            self._pacer = Pacer(self._ctx.clock, self._speed.result())
        while True:
            if self._chunk is None:
                if self._coming is None:
                    self._coming = self._ctx.io.submit(self._decoder.read)
                if not self._coming.done():
                    return Pending()
                chunk = self._coming.result()
                self._coming = None
                if chunk is None:
                    return EndOfSplit()
                self._take(chunk)
            assert self._chunk is not None
            left = self._chunk.batch.num_rows - self._row
            if left:
                return self._hand_out(self._chunk, min(left, max_rows))
            self._advance(self._chunk, 0)
            self._chunk = None

    def _take(self, chunk: Chunk) -> None:
        self._chunk, self._row, self._rejected = chunk, 0, 0
        self._coming = self._ctx.io.submit(self._decoder.read)
        if self._pacer is not None and self._replay_on is not None:
            on = self._replay_on
            self._pacer.load(on.timestamps(chunk.batch.column(on.name)))

    def _hand_out(self, chunk: Chunk, rows: int) -> Polled:
        if self._pacer is not None:
            due, wait_us = self._pacer.due(self._row)
            if not due:
                return Pending(wait_us)
            rows = min(rows, due)
        batch = chunk.batch.slice(self._row, rows)
        self._advance(chunk, rows)
        return batch

    def _advance(self, chunk: Chunk, rows: int) -> None:
        """Moves the position behind `rows` more good rows, and gives out the rejected before it."""
        self._row += rows
        raw = chunk.raw_after(self._row)
        self._position = chunk.position(raw)
        end = self._rejected
        while end < len(chunk.rejected) and chunk.rejected[end].raw < raw:
            end += 1
        if end > self._rejected:
            bad = chunk.rejected[self._rejected : end]
            self._rejected = end
            self._ctx.count("skipped", len(bad))
            self._ctx.reject(self._rejected_batch(bad))

    def _rejected_batch(self, bad: Sequence[BadRow]) -> Batch:
        columns = [
            pa.array([self._path] * len(bad), pa.string()),
            pa.array([row.line for row in bad], pa.int64()),
            pa.array([row.record for row in bad], pa.string()),
            pa.array([row.what for row in bad], pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=REJECTED)

    def position(self) -> bytes:
        return self._position

    def close(self) -> None:
        self._decoder.close()


class RowsError(Exception):
    """Some of the rows that were decoded together do not fit the schema."""


def sift(
    rows: int, decode: Callable[[int, int], Batch], schema: pa.Schema, *, all_bad: bool
) -> tuple[Batch, npt.NDArray[np.int64] | None, list[tuple[int, str]]]:
    """Decodes rows together, and finds the bad ones by halving where that fails.

    `decode(i, j)` gives rows i to j by `schema`, nulls not yet checked, or raises RowsError; what one
    row gives does not depend on its neighbours. Returns the good rows, which ones they are (None for
    all), and the bad ones with what is wrong; without `all_bad` only the first bad one is sure.
    """
    pieces: list[Batch] = []
    kept: list[npt.NDArray[np.int64]] = []
    bad: list[tuple[int, str]] = []
    open_ranges = [(0, rows)] if rows else []
    while open_ranges:
        i, j = open_ranges.pop()
        try:
            pieces.append(decode(i, j))
            kept.append(np.arange(i, j))
        except RowsError as error:
            if j - i == 1:
                bad.append((i, str(error)))
                if not all_bad:
                    break
            else:
                middle = (i + j) // 2
                open_ranges += [(middle, j), (i, middle)]
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=schema), np.empty(0, np.int64), bad
    batch = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    good = np.concatenate(kept)
    missing = _missing(batch, schema)
    if missing:
        bad = sorted(bad + [(int(good[row]), what) for row, what in missing.items()])
        valid = np.ones(batch.num_rows, np.bool_)
        valid[list(missing)] = False
        good = good[valid]
        batch = batch.filter(pa.array(valid))
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch, None if len(good) == rows else good, bad


def _missing(batch: Batch, schema: pa.Schema) -> dict[int, str]:
    """The rows with a null where the schema allows none."""
    found: dict[int, str] = {}
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist():
                found.setdefault(row, f"column {field.name!r} is missing or null")
    return found


def conform(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array as of another type, safely cast. Raises ArrowInvalid where values do not fit.

    Arrow's own cast of records takes the empty fields of an absent record for missing ones.
    """
    if array.type == type_:
        return array
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        return _conform_struct(array, type_)
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        return _conform_list(array, type_)
    return array.cast(type_, safe=True)


def _conform_struct(array: pa.Array, type_: pa.DataType) -> pa.Array:
    absent = array.is_null()
    children = []
    for field in type_:
        if array.type.get_field_index(field.name) < 0:
            raise pa.ArrowInvalid(f"field {field.name!r} is missing")
        child = conform(pc.struct_field(array, field.name), field.type)
        if not field.nullable and child.null_count > absent.true_count:
            raise pa.ArrowInvalid(f"field {field.name!r} is missing or null")
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=absent)


def _conform_list(array: pa.Array, type_: pa.DataType) -> pa.Array:
    values = conform(array.flatten(), type_.value_type)
    if not type_.value_field.nullable and values.null_count:
        raise pa.ArrowInvalid("an element of a list is null")
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=type_, mask=array.is_null())


def bad_row(path: str, row: BadRow, place: str = "") -> InputError:
    """The error for a row that does not fit, where bad rows are not skipped."""
    return InputError(
        f"{path}:{row.line}: {row.what}{place}",
        record=shorten(row.record),
        hint='correct the row or the schema, or skip such rows with on_error="skip"',
    )
