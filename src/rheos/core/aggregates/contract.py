"""The contract of an aggregate kind, and the forms in which windows keep its state.

Windows keep the *state* of an aggregate by key and pane. It is made from input rows, merged with state
of the same key and pane, or key and window, and finalised to a result. Merging is associative and
commutative to the bit, so results depend only on the rows and not on the batches in which they arrived.
There are four forms:

- `OneRowState`: one row per key and pane, which all such aggregates of an operator share. Its parts are
  columns (`Column`), or sums (`IntegerSum`, `ExactSum`); aggregates with equal parts share them.
- `ManyRowsState`: values of the input, all or only distinct ones, as rows of a separate state.
- `CountedValues`: distinct values of the input, with the number of occurrences of each.
- `RowsState`: rows of the input, over which an expression is computed when a window fires.

Columns are named by kind and column ("min.price"), so that state survives a program change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates.cells import Cell
from rheos.core.aggregates.frames import FrameState
from rheos.core.errors import SchemaError

_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)

VALUE = "value"
"""Column of gathered or counted values."""
COUNT = "count"
"""Column with the number of occurrences of each counted value."""

_INPUT = "in."


def input_name(column: str) -> str:
    """Return the name of an input column in the frames from which window state is made."""
    return _INPUT + column


def given_name(name: str) -> str:
    """Return the input column of an `input_name`."""
    return name.removeprefix(_INPUT)


def given(column: str) -> pl.Expr:
    """Return the expression of an input column, for use in `Column.make` and `ManyRowsState.value`."""
    return pl.col(input_name(column))


def one_zero(value: pl.Expr) -> pl.Expr:
    """Replace -0.0 by 0.0, under the same name. The two are equal, so otherwise the result would depend
    on which one came first. (Polars optimises `+ 0.0` away.)"""
    return pl.when(value.ne_missing(0.0)).then(value).otherwise(0.0)


# --- windows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArrayLayout:
    """Layout of a column of numbers as a NumPy array."""

    value: pl.Expr
    """Expression of the state of one row."""
    reduce: np.ufunc
    """Function that merges two values: `add`, `minimum` or `maximum`."""


@dataclass(frozen=True)
class NanColumn:
    """A slower way to compute a column that handles NaN correctly."""

    column: str
    """Input column that may have a NaN."""
    make: pl.Expr
    merge: pl.Expr


@dataclass(frozen=True)
class Column:
    """A column with a value for each key and pane."""

    name: str
    """ "kind.column". It must differ from the names of the window's own columns and of sums."""
    make: pl.Expr
    """Expression that aggregates the rows of a key and pane, whose columns are named by `given`."""
    merge: pl.Expr
    """Expression that aggregates several rows of state, with columns by their names."""
    array: ArrayLayout | None = None
    """NumPy form of `merge`; None if no NumPy function merges the column."""
    of_nan: NanColumn | None = None
    """Computation for columns with a NaN; None if `make` and `merge` handle NaN correctly."""


@dataclass(frozen=True)
class IntegerSum:
    """The sum of a column of integers or booleans, as int64, and the number of values. A result beyond
    64 bits ends the job with an error; intermediate sums may be larger."""

    column: str

    @property
    def total(self) -> pl.Expr:
        return pl.col(f"sum.{self.column}")

    @property
    def count(self) -> pl.Expr:
        return pl.col(f"summed.{self.column}")


@dataclass(frozen=True)
class ExactSum:
    """The exact sum of a column of floats or integers, rounded once, and the number of values."""

    column: str

    @property
    def total(self) -> pl.Expr:
        return pl.col(f"exact sum.{self.column}")

    @property
    def count(self) -> pl.Expr:
        return pl.col(f"exactly.{self.column}")


@dataclass(frozen=True)
class Deviations:
    """The exact sums of a column of numbers and of its squares, and the number of values. Squares
    beyond the range of float64 yield NaN."""

    column: str
    ddof: int
    """Number that is subtracted from the count. The sum of squared deviations is divided by the
    difference."""

    @property
    def squares(self) -> str:
        """Return the name under which the sum of the squares is stored among the sums of columns."""
        return SQUARES + self.column

    @property
    def variance(self) -> pl.Expr:
        return pl.col(f"variance {self.ddof}.{self.column}")

    @property
    def count(self) -> pl.Expr:
        return pl.col(f"exactly.{self.column}")


@dataclass(frozen=True)
class DecimalSum:
    """The exact sum of a column of decimals, or their mean, and the number of values. A result that its
    type cannot hold ends the job with an error; intermediate sums may be larger."""

    column: str
    kind: pa.DataType
    """Type of the values."""
    is_mean: bool = False

    @property
    def units(self) -> str:
        """Return the name under which the sum is stored. It contains the scale, so that state of
        another scale is not misread."""
        return f"{UNITS}{self.kind.scale}.{self.column}"

    @property
    def total(self) -> pl.Expr:
        return pl.col(f"decimal {'mean' if self.is_mean else 'sum'}.{self.column}")

    @property
    def count(self) -> pl.Expr:
        return pl.col(f"exactly.{self.units}")


SQUARES = "__squares."
UNITS = "__units of scale "

Part: TypeAlias = Column | IntegerSum | ExactSum | DecimalSum | Deviations


@dataclass(frozen=True)
class OneRowState:
    """State that consists of one row."""

    parts: Sequence[Part]
    result: pl.Expr
    """Expression that computes the result from the parts of a key and window."""


@dataclass(frozen=True)
class ManyRowsState:
    """State that consists of many rows, without nulls."""

    state: str
    """Name of the state in snapshots, "what.column". Equal names mean equal rows."""
    value: pl.Expr
    """Expression that computes the value from an input row."""
    distinct: bool
    """Whether equal values of a key are stored only once."""
    result: pl.Expr | OneRowState
    """Expression that aggregates the column VALUE of a key and window."""
    of_nothing: Any = None
    """Result of a window without values."""
    least: int | None = None
    """Number of smallest distinct values that suffice. The state may or may not hold others."""


@dataclass(frozen=True)
class CountedValues:
    """State that counts occurrences: one row for each distinct non-null value."""

    state: str
    """Name of the state in snapshots, "what.column". Equal names mean equal rows."""
    value: pl.Expr
    """Expression that computes the value from an input row."""
    result: pl.Expr
    """Expression that aggregates the columns VALUE and COUNT of a key and window."""


@dataclass(frozen=True)
class RowLimit:
    """A limit on the rows of a key and window. It keeps the rows with the largest, or the smallest,
    values of a column; nulls come last."""

    column: str
    rows: int
    smallest: bool


@dataclass(frozen=True)
class RowsState:
    """State of rows, shared by all such aggregates of an operator with equal `most`. Its columns
    include the time, so all distinguishable rows have a defined order; -0.0 is stored as 0.0."""

    columns: Sequence[str]
    """Input columns that the result needs, including the event time."""
    result: pl.Expr
    """Expression that aggregates these columns of a key and window, under their names in the input.
    Rows are sorted by event time and then by the columns; with `most`, first by its column."""
    most: RowLimit | None = None
    """Limit on the rows to keep; None: all rows."""


State: TypeAlias = OneRowState | ManyRowsState | CountedValues | RowsState


# --- running ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunningForm:
    """State that updates an aggregate row by row, in constant space."""

    cell: Callable[[], Cell]
    stored: pa.DataType
    """Type of the state, with which a changed program is compared."""


# --- kinds --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agg(ABC):
    """One aggregate of a column. Nulls are ignored, except by `count()` without a column."""

    kind: ClassVar[str]
    """Name in programs and in stored state."""
    in_sql: ClassVar[bool] = False
    """Whether SQL calls it by this name. Functions of the SQL standard have other names there."""
    of_no_rows: ClassVar[Any] = None
    """Result over no rows."""

    column: str | None = None
    written: str | None = field(default=None, compare=False, repr=False, kw_only=True)
    """Call as the user wrote it in SQL, for use in errors."""

    def __str__(self) -> str:
        return f"{self.kind}({self.column or ''})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the aggregate reads."""
        return () if self.column is None else (self.column,)

    @abstractmethod
    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the result over rows of `schema`. Raise SchemaError."""

    @abstractmethod
    def windowed(self, schema: pa.Schema) -> State:
        """Return the state that windows over rows of `schema` keep for the aggregate."""

    def running(self, schema: pa.Schema) -> RunningForm | None:
        """Return the running form of the aggregate; None if it is not supported."""
        return None

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState] | None:
        """Return a function that creates the state of a frame of rows, for OVER and MATCH_RECOGNIZE.
        Return None if frames are not supported."""
        return None

    @staticmethod
    def running_type(stored: pa.DataType) -> pa.DataType:
        """Return the type of `running_value`, given the type that is `stored`."""
        return stored

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        """Return the values of running cells, from the columns that the cells froze. `kind` is their
        `running_type`. Readers of savepoints call it, and only for kinds with a running form."""
        raise NotImplementedError

    @classmethod
    def can_frame(cls) -> bool:
        """Return whether frames are supported."""
        return cls.frame is not Agg.frame

    @classmethod
    def can_run(cls) -> bool:
        """Return whether a running form is supported."""
        return cls.running is not Agg.running

    # --- helpers for kinds ------------------------------------------------------------------------

    def _type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the column. Raise SchemaError if the column is missing."""
        assert self.column is not None
        if self.column not in schema.names:
            raise SchemaError(
                f"unknown column {self.column!r} in {self.kind}()",
                hint=f"the columns here are {', '.join(schema.names)}",
            )
        return schema.field(self.column).type

    def _comparable(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the column. Raise SchemaError if its values cannot be compared."""
        kind = self._type(schema)
        if pa.types.is_nested(kind):
            raise SchemaError(
                f"{self.kind}() cannot compare the values of {self.column!r}, which is {kind}",
                hint="name a column of single values",
            )
        return kind

    def _number(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the column. Raise SchemaError if it is not numeric."""
        kind = self._comparable(schema)
        if not any(is_one(kind) for is_one in _NUMBERS):
            raise SchemaError(
                f"{self.kind}() needs a number, and column {self.column!r} is {kind}",
                hint="name a numeric column, or cast it first",
            )
        return kind
