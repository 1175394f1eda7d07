"""The input of a source's operator within a Spark task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from rheos.connectors.casts import cast_array
from rheos.core.connectors.contract import EndOfSplit, Polled, ReaderContext, Source, Split, SplitReader
from rheos.core.errors import InputError
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.source import SourceOperator, SourceSpec
from rheos.core.operators.source_split import NO_ORDER
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SPLIT, WM, Batch


@dataclass(frozen=True)
class SplitInput:
    """Input that the source's own reader reads. The partition's one row is the number of its split."""

    splits: tuple[Split, ...]


@dataclass(frozen=True)
class SparkRows:
    """Rows that Spark has read: the named columns, in this order. No operator needs other columns."""

    columns: tuple[str, ...]
    ordered: bool
    """Whether the partition has the order of one split, which decides lateness. Else no row is late."""


SourceInput: TypeAlias = SplitInput | SparkRows
"""The description, sent by the driver to a source's chain, of how to read its partition's rows."""


def source_operator(
    ctx: OperatorContext, spec: SourceSpec, feed: SourceInput, inbox: Iterator[pa.RecordBatch]
) -> SourceOperator:
    """Return the partition's operator, not open yet. `inbox` is the task's input from Spark."""
    if isinstance(feed, SplitInput):
        numbers = [number for rows in inbox for number in rows.column(0).to_pylist()]
        return SourceOperator(ctx, spec, [feed.splits[number] for number in numbers])
    rows = _Inbox(spec.source.schema, feed.columns, inbox)
    operator = SourceOperator if feed.ordered else _UnorderedSource
    return operator(ctx, dataclasses.replace(spec, source=rows), rows.splits())


@dataclass(frozen=True)
class ReadBySpark(Source):
    """A placeholder on the worker for a source that only the driver can hold, such as a DataFrame."""

    schema: pa.Schema
    bounded: bool = True

    def splits(self) -> Sequence[Split]:
        raise AssertionError("Spark reads it")

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        raise AssertionError("Spark reads it")


class _UnorderedSource(SourceOperator):
    """A source of rows without order, so that no row is late."""

    def _fit_output(self, columns: list[pa.Array]) -> list[Out]:
        unordered = {WM: MIN_TIMESTAMP_MS, SPLIT: NO_ORDER}
        if self._schema is not None:
            columns = [
                pa.array(np.full(len(column), unordered[name])) if name in unordered else column
                for name, column in zip(self._schema.names, columns, strict=True)
            ]
        return super()._fit_output(columns)


class _Inbox(Source):
    """The rows that Spark passes to this task, as a source of one split."""

    bounded = True

    def __init__(
        self, schema: pa.Schema, columns: tuple[str, ...], inbox: Iterator[pa.RecordBatch]
    ) -> None:
        self.schema = schema
        self._columns = columns
        self._inbox = inbox

    def splits(self) -> Sequence[Split]:
        return [Split("partition")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _InboxReader(_Widening(self.schema, self._columns), self._inbox)


class _InboxReader(SplitReader):
    """A reader of Spark's rows."""

    def __init__(self, widening: _Widening, inbox: Iterator[pa.RecordBatch]) -> None:
        self._widening = widening
        self._inbox = inbox
        self._rows: Batch | None = None

    def poll(self, max_rows: int) -> Polled:
        while self._rows is None or not self._rows.num_rows:
            rows = next(self._inbox, None)
            if rows is None:
                return EndOfSplit()
            self._rows = self._widening.of(rows)
        batch = self._rows.slice(0, max_rows)
        self._rows = self._rows.slice(batch.num_rows)
        return batch

    def position(self) -> bytes:
        return b""


class _Widening:
    """A conversion of rows to the declared schema: columns that were not read are null."""

    def __init__(self, schema: pa.Schema, columns: tuple[str, ...]) -> None:
        self._schema = schema
        self._places = {name: place for place, name in enumerate(columns)}
        self._unread: dict[str, pa.Array] = {}

    def of(self, rows: pa.RecordBatch) -> Batch:
        columns = [
            self._read(rows.column(self._places[field.name]), field)
            if field.name in self._places
            else self._nulls(field, rows.num_rows)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _read(self, column: pa.Array, field: pa.Field) -> pa.Array:
        try:
            found: pa.Array = cast_array(column, field.type)
        except pa.ArrowException as error:
            raise _changed(field.name, str(error)) from None
        if found.null_count and not field.nullable:
            raise _changed(field.name, "it contains nulls, but is not nullable")
        return found

    def _nulls(self, field: pa.Field, rows: int) -> pa.Array:
        known = self._unread.get(field.name)
        if known is None or len(known) < rows:
            known = self._unread[field.name] = pa.nulls(rows, field.type)
        return known.slice(0, rows)


def _changed(name: str, what: str) -> InputError:
    return InputError(
        f"column {name!r} has changed since the job was planned: {what}",
        hint="check whether the input was replaced while it was read",
    )
