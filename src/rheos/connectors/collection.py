"""Source of rows that the program already holds, for tests and small tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from rheos.core.connectors.contract import (
    EndOfSplit,
    Polled,
    ReaderContext,
    RowPlaces,
    Source,
    Split,
    SplitReader,
)
from rheos.core.connectors.schemas import resolve, shorten, shown_row
from rheos.core.errors import SchemaError
from rheos.core.protocol.casts import cast_exactly
from rheos.core.protocol.pandas_frames import table_of_pandas
from rheos.core.protocol.plain_values import plain_inside
from rheos.core.protocol.polars_frames import arrow_column, arrow_table
from rheos.core.protocol.types import TypeMismatch, batch_of
from rheos.core.protocol.zones import without_fixed_offsets
from rheos.core.safe_strings import shown
from rheos.core.site import located_at_call
from rheos.core.times import ONE_ZONE, mixed_zones


@located_at_call
def collection(rows: Any, schema: Any = None) -> CollectionSource:
    """Create a bounded source of the rows of a list or a table, in their order. It has one split.

    ```python
    clicks = env.from_source(rh.collection([{"user": "ada", "n": 1}, {"user": "bob", "n": 2}]))
    ```

    Args:
        rows: Dataclass instances of one class, dicts, a pyarrow Table or RecordBatch, or a DataFrame of
            Polars or pandas.
        schema: A dataclass, a pyarrow.Schema or a dict. It is required if there are no rows, or if the
            values of dicts do not determine their types.

    Returns:
        The source, for `env.from_source`.

    Raises:
        SchemaError: A row does not fit the schema, or there is no schema and no rows.
        ProgramError: `rows` is none of these.
    """
    wanted, record = (None, None) if schema is None else resolve(schema)
    table, found = table_of(rows, wanted)
    return CollectionSource(table, record or found)


def table_of(rows: Any, wanted: pa.Schema | None) -> tuple[pa.Table, type | None]:
    """Convert rows, in any form that `collection` accepts, to a table; and return their dataclass, if
    any. The table has the schema `wanted`, unless it is None. Raises SchemaError."""
    record = None
    if isinstance(rows, pl.DataFrame):
        rows = arrow_table(rows)
    if type(rows).__module__.partition(".")[0] == "pandas":
        rows = _from_pandas(rows, wanted)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        if not isinstance(rows, Iterable):
            raise SchemaError(f"the rows of a collection are {shown(rows)}", hint="pass a list of rows")
        records = list(rows)
        first = records[0] if records else None
        if dataclasses.is_dataclass(first):
            record = type(first)
            wanted = wanted or resolve(record)[0]
        rows = _from_records(records, wanted)
    rows = without_fixed_offsets(rows)
    if wanted is not None:
        rows = _fitted(rows, wanted)
    return rows.combine_chunks(), record


@dataclass(frozen=True, eq=False)
class CollectionSource(Source):
    """Source that `collection` creates. A position is the number of rows emitted."""

    table: pa.Table
    record: type | None = None
    schema: pa.Schema = field(init=False)
    bounded: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.table.schema)

    def record_class(self) -> type | None:
        return self.record

    def splits(self) -> Sequence[Split]:
        return [Split("0")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _CollectionReader(
            self.table, 0 if position is None else msgspec.msgpack.decode(position, type=int)
        )

    def describe(self) -> str:
        return f"a collection of {self.table.num_rows} rows"


class _CollectionReader(SplitReader):
    def __init__(self, table: pa.Table, row: int) -> None:
        batches = table.to_batches()
        self._rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        self._row = row
        self._last = row
        """Index of the first row that `poll` returned last."""

    def poll(self, max_rows: int) -> Polled:
        batch = self._rows.slice(self._row, max_rows)
        if not batch.num_rows:
            return EndOfSplit()
        self._last, self._row = self._row, self._row + batch.num_rows
        return batch

    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._row)

    def places(self) -> RowPlaces:
        return RowPlaces("index", list(range(self._last, self._row)))


def _from_pandas(rows: Any, wanted: pa.Schema | None) -> pa.Table:
    """Convert a pandas DataFrame: its columns, without its index."""
    if not hasattr(rows, "columns"):
        raise SchemaError(
            f"a {type(rows).__name__} of pandas has no columns", hint='write series.to_frame("n")'
        )
    try:
        return table_of_pandas(rows, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, TypeMismatch) as error:
        raise SchemaError(
            f"the pandas DataFrame cannot be converted to rows: {error}",
            hint="give each column a single type, such as with frame.convert_dtypes()",
        ) from error


def _from_records(records: list[Any], schema: pa.Schema | None) -> pa.Table:
    if not records and schema is None:
        raise SchemaError(
            "the collection is empty, so its column types are unknown", hint="pass schema="
        )
    if schema is None and not all(isinstance(record, Mapping) for record in records):
        wrong = next(record for record in records if not isinstance(record, Mapping))
        raise SchemaError(
            f"a row of the collection is {shown(wrong)}, which has no named columns",
            hint='write each row as a dict, such as {"value": 1}, or as an instance of a dataclass; '
            "if you have columns, pass pl.DataFrame(columns)",
        )
    _refuse_mixed_zones(records)
    try:
        if schema is None:
            return _inferred(records)
        return pa.Table.from_batches([batch_of(records, schema)])
    except TypeMismatch as error:
        raise SchemaError(
            f"a row does not fit its schema: {error}",
            record=shorten(repr(records[error.index])),
            hint="correct the row, or declare schema=",
        ) from None
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SchemaError(
            f"the rows of the collection have different types: {error}",
            hint="use dataclass instances, dicts, a Table or a DataFrame; or pass schema=",
        ) from error


def _inferred(records: list[Any]) -> pa.Table:
    """Return dicts as a table with a column for each key, typed by its values."""
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {}
    for name in names:
        values = [record.get(name) for record in records]
        try:
            columns[name] = _column(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"column {name!r}: {error}") from error
    return pa.table(columns)


_SCALARS = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String}


def _column(values: list[Any]) -> pa.Array:
    """Return a column with the type of its values."""
    match [kind for kind in set(map(type, values)) if kind is not type(None)]:
        case [kind] if kind in _SCALARS:
            # `pa.array` would import pandas, which takes longer than many a test.
            with suppress(OverflowError, TypeError, ValueError):
                column = arrow_column(pl.Series(values, dtype=_SCALARS[kind]))
                return column.cast(pa.string()) if kind is str else column
    return pa.array(plain_inside(values))


def _refuse_mixed_zones(records: list[Any]) -> None:
    fields = [each if isinstance(each, dict) else getattr(each, "__dict__", {}) for each in records]
    for name in dict.fromkeys(name for each in fields for name in each):
        index = mixed_zones(each.get(name) for each in fields)
        if index is not None:
            raise SchemaError(
                f"column {name!r} of the collection has datetimes with a zone and without one",
                record=shorten(repr(records[index])),
                hint=ONE_ZONE,
            )


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([cast_exactly(chunk, kind) for chunk in column.chunks], kind)


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        raise SchemaError(
            f"the rows have no column {missing[0]!r}",
            hint=f"it has {', '.join(table.schema.names)}",
        )
    try:
        fitted = pa.Table.from_arrays(
            [_cast(table.column(field.name), field.type) for field in schema], schema=schema
        )
    except pa.ArrowException as error:
        raise SchemaError(
            f"the rows do not fit their schema: {error}",
            hint="correct the rows, or schema=",
        ) from error
    for field_, column in zip(schema, fitted.columns, strict=True):
        if not field_.nullable and column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise SchemaError(
                f"column {field_.name!r} is missing or null",
                record=shown_row(table.slice(row, 1).combine_chunks().to_batches()[0], 0),
                hint="fill in the values, or declare the column as nullable (`| None`)",
            )
    return fitted
