"""Source of generated rows, replayable, at full speed or at a given rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.callables import check_callable
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Source,
    Split,
    SplitReader,
)
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError, UserFunctionError
from rheos.core.protocol.casts import cast_exactly
from rheos.core.protocol.columns import TypeMismatch, column_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.plain_values import plain_inside
from rheos.core.protocol.polars_frames import arrow_column, arrow_table
from rheos.core.protocol.zones import without_fixed_offsets
from rheos.core.safe_strings import formatted_traceback, named_error
from rheos.core.site import located_at_call
from rheos.core.times import ONE_ZONE, mixed_zones

BLOCK_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that a generator's function must return: rows `start` to `start + rows` of a split.

    Block boundaries are always the same, whatever the poll sizes and the restored position.
    """

    split: int
    start: int
    rows: int
    seed: int
    splits: int = field(default=1, repr=False)
    """Number of splits of the generator."""

    def index(self) -> npt.NDArray[np.int64]:
        """Return the number of each row within its split, from 0: an int64 array of `rows` numbers.

        Use `number` for numbers that are unique among all splits (four by default).

        ```python
        def readings(block: rh.Block) -> dict[str, object]:
            return {"n": block.index(), "value": block.rng().normal(size=block.rows)}

        env.from_source(rh.generator(readings, count=1000, splits=1))
        ```
        """
        return np.arange(self.start, self.start + self.rows, dtype=np.int64)

    def number(self) -> npt.NDArray[np.int64]:
        """Return the number of each row among those of all splits: an int64 array of `rows` numbers.

        Each number from 0 to `count` - 1 occurs once. Row i of split s has the number `i * splits + s`,
        which is the order in which rows are due at a rate.
        """
        return self.index() * self.splits + self.split

    def rng(self) -> np.random.Generator:
        """Return a random generator for this block. It draws the same numbers whenever the block is
        made."""
        return np.random.Generator(np.random.SFC64([self.seed, self.split, self.start]))


GeneratorFunction = Callable[[Block], Any]
"""Type of a generator's function. It returns exactly `block.rows` rows: a dict of columns (numpy
arrays, lists, Arrow arrays, Polars series), a RecordBatch, or a Polars DataFrame. The result must
depend on the block alone. Arrays are not copied, so the function must not change them later."""


@located_at_call
def generator(
    fn: GeneratorFunction,
    *,
    count: int | None = None,
    rate_per_s: float | None = None,
    splits: int = 4,
    schema: Any = None,
    seed: int = 0,
    due_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> GeneratorSource:
    """Create a source whose rows a function makes, block by block.

    ```python
    def numbers(block: rh.Block) -> dict[str, object]:
        return {"n": block.number(), "value": block.rng().random(block.rows)}

    env.from_source(rh.generator(numbers, count=1_000_000, rate_per_s=50_000))
    ```

    Args:
        fn: Makes the rows of a `Block`; see `GeneratorFunction`.
        count: Number of rows of all splits together; None never ends. Split s has `count // splits`
            rows, and one more if `s < count % splits`.
        rate_per_s: Rows per second, over all splits; row i of split s is due
            `(i * splits + s) / rate_per_s` seconds after the start. None emits rows as fast as the job
            reads them. After a restore, the schedule restarts with the first remaining row.
        splits: Number of splits. The rows depend on it, but not on the parallelism: `block.index()`
            counts within a split, and `block.number()` over all splits.
        schema: A dataclass, a pyarrow.Schema or a dict. By default the columns of the first block.
        seed: Seed of `block.rng()`.
        due_column: Name of an int64 column that receives the processing time, in ns, at which the row
            was due; without a rate, at which it was emitted.
        block_rows: Number of rows of a block. The rows depend on it, too.

    Returns:
        The source, for `env.from_source`. It is bounded if it has a count.

    Raises:
        ProgramError: A number is less than 1, or `fn` does not take one block.
        SchemaError: `fn` returned no table of rows, or `due_column` is not an int64.
        UserFunctionError: `fn` raised an error for the first block.
    """
    check_callable(fn, "generator", ["a block"])
    for name, value in (("count", count), ("rate_per_s", rate_per_s)):
        if value is not None and value <= 0:
            raise ProgramError(
                f"{name}={value} would generate no rows", hint="pass a number above 0, or None"
            )
    if splits < 1 or block_rows < 1:
        raise ProgramError("splits and block_rows must be at least 1", hint="correct the generator")
    if schema is not None:
        made, record = resolve(schema)
    else:
        made, record = (
            _columns(
                fn, Block(0, 0, _rows_of(count, splits, 0, 0, block_rows), seed, splits), None
            ).schema,
            None,
        )
    if due_column is not None and due_column not in made.names:
        made = made.append(pa.field(due_column, pa.int64(), nullable=False))
    elif due_column is not None and made.field(due_column).type != pa.int64():
        raise SchemaError(f"the column {due_column!r} must be an int64", hint="times are in ns")
    return GeneratorSource(fn, made, record, count, rate_per_s, splits, seed, due_column, block_rows)


@dataclass(frozen=True, eq=False)
class GeneratorSource(Source):
    """Source that `generator` creates. A position is the number of the split's next row."""

    fn: GeneratorFunction
    schema: pa.Schema
    record: type | None
    count: int | None
    rate_per_s: float | None
    split_count: int
    seed: int
    due_column: str | None
    block_rows: int
    bounded: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounded", self.count is not None)

    def positions(self) -> str:
        # A row's number depends on the number of splits: with another number, rows differ.
        return f"{type(self).__qualname__} of {self.split_count} splits"

    def record_class(self) -> type | None:
        return self.record

    def splits(self) -> Sequence[Split]:
        return [Split(f"{split:05d}") for split in range(self.split_count)]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        row = 0 if position is None else msgspec.msgpack.decode(position, type=int)
        return _GeneratorReader(self, int(split.id), row, ctx)

    def block(self, split: int, start: int) -> Block:
        """Return the block that begins at a row. It has no rows at the end of the split."""
        rows = _rows_of(self.count, self.split_count, split, start, self.block_rows)
        return Block(split, start, rows, self.seed, self.split_count)

    def describe(self) -> str:
        rows = "rows without end" if self.count is None else f"{self.count} rows"
        rate = "" if self.rate_per_s is None else f", {self.rate_per_s:g} a second"
        return f"a generator of {rows}{rate}, {self.split_count} splits"


class _GeneratorReader(SplitReader):
    def __init__(self, source: GeneratorSource, split: int, row: int, ctx: ReaderContext) -> None:
        self._source = source
        self._split = split
        self._row = row
        self._last = row
        """Number of the first row that `poll` returned last."""
        self._clock = ctx.clock
        self._batch: Batch | None = None
        self._start = 0
        self._end = 0
        self._first = row
        self._origin: tuple[int, int] | None = None
        """Start of the schedule: monotonic time in us, and wall-clock time in ns."""
        names = [name for name in source.schema.names if name != source.due_column]
        self._given = source.schema if source.due_column is None else _selected(source.schema, names)

    def poll(self, max_rows: int) -> Polled:
        if self._batch is None or self._row >= self._end:
            start = self._row - self._row % self._source.block_rows
            block = self._source.block(self._split, start)
            if start + block.rows <= self._row:
                return EndOfSplit()
            self._batch = _columns(self._source.fn, block, self._given)
            self._start, self._end = start, start + block.rows
        rows = min(max_rows, self._end - self._row)
        if self._source.rate_per_s is not None:
            due, wait_us = self._due(self._source.rate_per_s)
            if due <= 0:
                return Pending(wait_us)
            rows = min(rows, due)
        batch = self._batch.slice(self._row - self._start, rows)
        if self._source.due_column is not None:
            batch = self._stamped(batch, rows, self._source.due_column)
        self._last, self._row = self._row, self._row + rows
        return batch

    def _due(self, rate: float) -> tuple[int, int]:
        now = self._clock.monotonic_us()
        if self._origin is None:
            self._origin = (now, self._clock.now_ns())
        passed = (now - self._origin[0]) * rate / 1e6 - self._split
        due = int(passed // self._source.split_count) + 1 - (self._row - self._first)
        if due > 0:
            return due, 0
        next_us = ((self._row - self._first) * self._source.split_count + self._split) * 1e6 / rate
        return 0, max(int(np.ceil(next_us)) - (now - self._origin[0]), 1)

    def _stamped(self, batch: Batch, rows: int, name: str) -> Batch:
        source = self._source
        if source.rate_per_s is None or self._origin is None:
            due = np.full(rows, self._clock.now_ns(), np.int64)
        else:
            first = self._row - self._first
            order = np.arange(first, first + rows, dtype=np.float64) * source.split_count + self._split
            due = self._origin[1] + (order * (1e9 / source.rate_per_s)).astype(np.int64)
        columns = [
            pa.array(due) if column == name else batch.column(column) for column in source.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=source.schema)

    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._row)

    def places(self) -> RowPlaces:
        return RowPlaces("index", list(range(self._last, self._row)))


def _rows_of(count: int | None, splits: int, split: int, start: int, block_rows: int) -> int:
    if count is None:
        return block_rows
    total = count // splits + (split < count % splits)
    return max(min(block_rows, total - start), 0)


def _selected(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _columns(fn: GeneratorFunction, block: Block, schema: pa.Schema | None) -> Batch:
    """Call the function and return its rows as a batch, of `schema` unless it is None."""
    name = getattr(fn, "__qualname__", type(fn).__name__)
    try:
        made = fn(block)
    except (Exception, SystemExit) as error:
        raise UserFunctionError(
            f"the generator's function {name} raised {named_error(error)}",
            record=str(block),
            detail=formatted_traceback(error),
        ) from error
    try:
        if isinstance(made, pl.DataFrame):
            made = arrow_table(made)
        if isinstance(made, pa.Table | pa.RecordBatch):
            made = {column: made.column(column) for column in made.schema.names}
        for column, values in made.items():
            if isinstance(values, list | tuple) and mixed_zones(values) is not None:
                raise UserFunctionError(
                    f"the generator's function {name} returned datetimes both with and without "
                    f"a time zone in column {column!r}",
                    record=str(block),
                    hint=ONE_ZONE,
                )
        if schema is None:
            columns = {column: _array(values, None) for column, values in made.items()}
            made = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
            batch = without_fixed_offsets(made)
        else:
            fitted = [_array(made[field.name], field.type) for field in schema]
            batch = pa.RecordBatch.from_arrays(fitted, schema=schema)
    except _MISFITS as error:
        missing = isinstance(error, KeyError)
        raise UserFunctionError(
            f"the generator's function {name} returned rows that do not fit the schema: "
            f"{f'there is no column {error}' if missing else error}",
            record=str(block),
            hint="return a dict of equally long columns, a RecordBatch or a Polars DataFrame"
            + ("" if schema is None else f", with {', '.join(schema.names)}"),
        ) from error
    if batch.num_rows != block.rows:
        raise UserFunctionError(
            f"the generator's function {name} returned {batch.num_rows} rows, not {block.rows}",
            record=str(block),
            hint="return exactly block.rows rows",
        )
    return batch


_MISFITS = (
    *(pa.ArrowException, AttributeError, KeyError),
    *(TypeError, ValueError, OverflowError, TypeMismatch),
)


def _of_values(values: list[Any], type_: pa.DataType | None) -> pa.Array:
    if type_ is None:
        return pa.array(plain_inside(values))
    if pa.types.is_temporal(type_) and all(type(value) is int for value in values):
        return pa.array(values, pa.int64()).cast(type_)
    return column_of(values, pa.field("", type_))


def _array(values: Any, type_: pa.DataType | None) -> pa.Array:
    if isinstance(values, pl.Series):
        values = arrow_column(values)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, np.ndarray):
        values = pa.array(values)
    if not isinstance(values, pa.Array):
        return _of_values(list(values), type_)
    return values if type_ is None or values.type == type_ else cast_exactly(values, type_)
