"""The state of a window operator's aggregates, as columns: its creation, merging and results.

Each aggregate declares the parts of its state (`aggregates/contract.py`). A *table* holds the state of
some aggregates by key and pane. `TotalsTable` has one row per key and pane, with the state of all
reduced aggregates. A `GatheredTable` has the values gathered for one state, a `CountedTable` the
counted values, and `KeptTable` whole rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, assert_never

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.contract import (
    COUNT,
    SQUARES,
    UNITS,
    VALUE,
    Agg,
    ArrayLayout,
    Column,
    CountedValues,
    DecimalSum,
    Deviations,
    ExactSum,
    IntegerSum,
    ManyRowsState,
    NanColumn,
    OneRowState,
    Part,
    RowLimit,
    RowsState,
    given,
    input_name,
    one_zero,
)
from rheos.core.aggregates.count import ROWS, count_column
from rheos.core.aggregates.integer_sum import beyond, each_as_int64, may_be_beyond, wrapped
from rheos.core.aggregates.mean import means
from rheos.core.aggregates.sum import limit_of, sums_of_decimals
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import Units, mean_type, sum_type
from rheos.core.graph.reducing import with_exact_decimals
from rheos.core.operators.window.address_merging import merged_by_address, pays_for_rows
from rheos.core.operators.window.contract import Ints
from rheos.core.protocol.elements import HIDDEN_PREFIX, TS

_EXACT = "exact."
_LACKS = "__lacks."
"""Prefix of columns that mark panes written before an aggregate was added to the program. A mark is a
count that is stored among the limbs of exact sums, because these may be missing and are added up."""
_BEYOND = "beyond."
LIMB = (_COLUMN, _BIN, _LIMB) = "column", "bin", "limb"
"""Columns of a table with one limb per row."""


class Grouping(Protocol):
    """Columns by which state and results are grouped, in addition to the key."""

    @property
    def pane(self) -> Sequence[str]:
        """Return the columns that identify a pane."""
        ...

    @property
    def window(self) -> Sequence[str]:
        """Return the columns that identify a window of a key."""
        ...


class AggregateTable(ABC):
    """One state. `keys` are the names of the key columns in its frames, empty if all rows have one key.
    `windows` names the columns that identify a pane and a window."""

    name: str
    """Name of the state in snapshots."""
    keeps_rows: bool = False
    """Whether the state has one row per input row, so that combining rows does not make it smaller."""

    def __init__(self, keys: Sequence[str], windows: Grouping) -> None:
        self.keys = list(keys)
        self.pane = windows.pane
        self.window = windows.window

    @abstractmethod
    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of input rows; `by` names the pane columns of `rows`."""

    def combined(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the state of input rows like `partial`, reduced as far as merging could reduce it."""
        return self.partial(rows, by)

    @abstractmethod
    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merge frames into one, with one row per key and `by` if the kind of state allows it."""

    @abstractmethod
    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the results, under their names in the output, per key and window. Raise SumTooLarge,
        with the row of `frame`, if a sum does not fit its type."""

    def kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """Return the types of the columns of key and state, from a frame without rows."""
        made = self.stored(self.partial(nothing, ())).schema
        return {name: made[name] for name in (*self.keys, *self.required, *self.optional)}

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the frame with all columns that are stored."""
        return frame

    @property
    @abstractmethod
    def required(self) -> list[str]:
        """Return the columns that the state must have, in addition to those of key and pane."""

    @property
    def optional(self) -> list[str]:
        """Return columns that are also stored, but that restored state may lack."""
        return []

    @abstractmethod
    def needs(self) -> dict[str, list[str]]:
        """Return, by aggregate, the names of the stored parts that its result requires."""

    def stored_of(self, columns: Iterable[str]) -> set[str]:
        """Return the names (as in `needs`) of the parts that state with these columns has."""
        return {self.name}


class TotalsTable(AggregateTable):
    """The state of reduced aggregates. It has a row for every key and pane that had any row.

    In `partial`, `spans` compute the columns of the pane if all rows of a key share one.
    """

    name = "totals"
    sums_name = "sums"
    """Name of the limbs of exact sums in snapshots, one row each."""
    limb_order = (_COLUMN, _BIN)

    def __init__(
        self, keys: Sequence[str], reduced: Mapping[str, OneRowState], windows: Grouping
    ) -> None:
        super().__init__(keys, windows)
        self._results = [state.result.alias(name) for name, state in reduced.items()]
        self._lacks: list[str] = []
        """Columns that some restored panes lack, by the names of `needs`."""
        self._integers: list[str] = []
        """Columns whose sums are kept as integers."""
        self._exact: list[str] = []
        """Columns whose sums are kept in limbs. Sums of squares have names of their own."""
        self._deviations: dict[str, Deviations] = {}
        self._decimals: dict[str, DecimalSum] = {}
        """Sums and means of decimals, by their names in results."""
        columns: dict[str, Column] = {}
        self._needs: dict[str, list[str]] = {}
        """Columns that each aggregate requires."""
        for name, state in reduced.items():
            of_state = [column for part in state.parts for column in self._columns_of(part)]
            self._needs[name] = [column.name for column in of_state]
            for column in of_state:
                known = columns.setdefault(column.name, column)
                assert known.make.meta.eq(column.make), f"{column.name!r} has two kinds"
        columns.pop(ROWS.name, None)
        kept = [ROWS, *(columns[name] for name in sorted(columns))]
        self._makes = [column.make.alias(column.name) for column in kept]
        self._merges = [column.merge.alias(column.name) for column in kept]
        self._names = [column.name for column in kept]
        self._of_nan: list[tuple[int, NanColumn]] = [
            (place, column.of_nan) for place, column in enumerate(kept) if column.of_nan is not None
        ]
        """Expressions to replace if there is a NaN, by position."""
        arrays = {column.name: column.array for column in kept if column.array is not None}
        self._reduces = {name: array.reduce for name, array in arrays.items()}
        """Reductions of columns that are stored as arrays."""
        self._each = [array.value.alias(name) for name, array in arrays.items()]

    def _columns_of(self, part: Part) -> Sequence[Column]:
        # A sum counts its values itself: state that lacks the count also lacks the sum.
        match part:
            case Column():
                return [part]
            case IntegerSum(column=column):
                if column not in self._integers:
                    self._integers.append(column)
                total = f"sum.{column}"
                each = ArrayLayout(each_as_int64(given(column)), np.add)
                sums = Column(total, wrapped(given(column)), pl.col(total).sum(), each)
                return [count_column("summed", column), sums]
            case ExactSum(column=column):
                self._sum_exactly(column)
                return [count_column("exactly", column)]
            case DecimalSum(column=column, units=units):
                self._sum_exactly(units)
                self._decimals.setdefault(part.total.meta.output_name(), part)
                return [count_column("exactly", column, units)]
            case Deviations(column=column):
                self._sum_exactly(column)
                self._sum_exactly(part.squares)
                self._deviations.setdefault(part.variance.meta.output_name(), part)
                # The count exists twice: state with only the sums lacks that of the squares.
                squares = count_column("exactly", column, part.squares)
                return [count_column("exactly", column), squares]
            case _:
                assert_never(part)

    def _sum_exactly(self, column: str) -> None:
        if column not in self._exact:
            self._exact.append(column)

    @property
    def required(self) -> list[str]:
        return self._names

    @property
    def optional(self) -> list[str]:
        """Return the columns with the multiples of 2**64 by which sums of integers exceed int64. Frames
        have them only if a sum does, snapshots always. Version 0.1.0 did not write them."""
        return [_BEYOND + column for column in self._integers]

    def limb_kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """Return the types of the columns of the limbs, as `kinds` does."""
        keys = {name: nothing.schema[name] for name in self.keys}
        return keys | {_COLUMN: pl.String(), _BIN: pl.Int32(), _LIMB: pl.Int64()}

    @property
    def has_exact(self) -> bool:
        return bool(self._exact)

    @property
    def has_limbs(self) -> bool:
        """Return whether the state stores anything in limbs."""
        return bool(self._exact or self._lacks)

    # --- aggregates that restored panes lack ------------------------------------------------------

    def needs(self) -> dict[str, list[str]]:
        return self._needs

    def stored_of(self, columns: Iterable[str]) -> set[str]:
        return set(columns)

    def completed(self, frame: pl.DataFrame, nothing: pl.DataFrame) -> pl.DataFrame:
        """Return restored panes with their missing columns added, as for panes without rows. `nothing`
        is a frame of no input rows."""
        missing = [
            make.alias(name)
            for name, make in zip(self._names, self._makes, strict=True)
            if name not in frame.columns
        ]
        if not missing:
            return frame
        neutral = nothing.select(missing)
        return frame.with_columns(
            pl.lit(value, neutral.schema[name]).alias(name)
            for name, value in neutral.row(0, named=True).items()
        )

    def marked(self, frame: pl.DataFrame, lacking: Sequence[str]) -> pl.DataFrame:
        """Return panes with marks that they lack these parts, by the names of `needs`."""
        self._lacks = list(dict.fromkeys([*self._lacks, *lacking]))
        return frame.with_columns(pl.lit(1, pl.Int64).alias(_lacks_column(name)) for name in lacking)

    def lacks(self, needs: Sequence[str]) -> pl.Expr | None:
        """Return which results of `finish` belong to panes that lack any of these parts, or None."""
        marks = [pl.col(_lacks_column(name)) > 0 for name in needs if name in self._lacks]
        return pl.any_horizontal(marks) if marks else None

    def partial(
        self, rows: pl.DataFrame, by: Sequence[str], spans: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        if not by and not spans and len(self.keys) == 1 and pays_for_rows(rows[self.keys[0]]):
            each = self.of_each(rows, ())
            merged = None if each is None else self._by_address([each])
            if merged is not None:
                return merged
        makes = [*self._makes, *spans]
        for place, of in self._of_nan:
            if _has_nan(rows[input_name(of.column)]):
                makes[place] = of.make.alias(self._names[place])
        limbs = self._limbs_of_rows(rows)
        if limbs:
            rows = rows.hstack(limbs)
            makes = makes + [pl.col(limb.name).sum() for limb in limbs]
        large = [column for column in self._integers if may_be_beyond(rows[input_name(column)])]
        makes = makes + [beyond(given(column)).alias(_BEYOND + column) for column in large]
        index = [*self.keys, *by]
        made = rows.group_by(index).agg(makes) if index else rows.select(makes)
        return _carried(_without_zeros(made, large))

    def of_each(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame | None:
        """Return the state of each single row, as `partial` does; None if arrays cannot hold it."""
        if not self._are_arrays:
            return None
        if any(may_be_beyond(rows[input_name(column)]) for column in self._integers):
            return None
        limbs = self._limbs_of_rows(rows)
        return rows.select(*self.keys, *by, *self._each).hstack(limbs)

    @property
    def _are_arrays(self) -> bool:
        return len(self._reduces) == len(self._names)

    def _limbs_of_rows(self, rows: pl.DataFrame) -> list[pl.Series]:
        limbs: list[pl.Series] = []
        for column in self._exact:
            limbs.extend(_limbs(column, rows[input_name(_summed_column(column))]))
        return limbs

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        if not by and len(self.keys) == 1:
            merged = self._by_address(frames)
            if merged is not None:
                return merged
        return self._merged(frames, by, [*self._merges])

    def reduce_of(self, name: str) -> np.ufunc | None:
        """Return the reduction of a numeric column, by its name; None if NumPy lacks it."""
        return np.add if name.startswith(_EXACT) else self._reduces.get(name)

    def _by_address(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        """Return the frames merged by key as arrays, if that is possible."""
        if not self._are_arrays:
            return None
        for column in self._integers:
            sums = pl.concat([frame[f"sum.{column}"] for frame in frames])
            if any(_BEYOND + column in frame for frame in frames) or may_be_beyond(sums):
                return None
        limbs = dict.fromkeys((name for frame in frames for name in _exact_columns(frame)), np.add)
        merged = merged_by_address(frames, self.keys[0], {**self._reduces, **limbs})
        return None if merged is None else _carried(merged)

    def _merged(
        self, frames: Sequence[pl.DataFrame], by: Sequence[str], merges: list[pl.Expr]
    ) -> pl.DataFrame:
        frame = pl.concat(frames, how="diagonal", rechunk=False)
        for place, of in self._of_nan if merges else ():
            if _has_nan(frame[self._names[place]]):
                merges[place] = of.merge.alias(self._names[place])
        limbs = [pl.col(name).sum() for name in _exact_columns(frame)]
        large: list[str] = []
        for column in self._integers if merges else ():
            name = _BEYOND + column
            known = name in frame.columns
            more = may_be_beyond(frame[f"sum.{column}"])
            if known or more:
                by_known = pl.col(name).sum() if known else pl.lit(0)
                by_sums = beyond(pl.col(f"sum.{column}")) if more else pl.lit(0)
                limbs.append((by_known + by_sums).alias(name))
                large.append(column)
        return _carried(_without_zeros(frame.group_by([*self.keys, *by]).agg(*merges, *limbs), large))

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        for column in self._integers:
            if _BEYOND + column in frame.columns:
                raise SumTooLarge(int((frame[_BEYOND + column] != 0).arg_max() or 0), column)
        sums = [
            pl.Series(
                ExactSum(column).total.meta.output_name(),
                exact_sum.evaluate(_limbs_of(frame, column), frame.height),
            )
            for column in self._exact
            if not column.startswith((SQUARES, UNITS))
        ]
        sums += [
            pl.Series(
                name,
                exact_sum.variances(
                    _limbs_of(frame, part.column),
                    _limbs_of(frame, part.squares),
                    frame[part.count.meta.output_name()].to_numpy(),
                    part.ddof,
                ),
            )
            for name, part in self._deviations.items()
        ]
        sums += [self._of_decimals(frame, name, part) for name, part in self._decimals.items()]
        lacks = [
            pl.col(name) if name in frame.columns else pl.lit(0, pl.Int64).alias(name)
            for name in map(_lacks_column, self._lacks)
        ]
        return frame.hstack(sums).select(*self.keys, *self.window, *self._results, *lacks)

    def _of_decimals(self, frame: pl.DataFrame, name: str, part: DecimalSum) -> pl.Series:
        """Return sums or means of decimals. Raise SumTooLarge if one does not fit."""
        units, large = Units.of_limbs(_limbs_of(frame, part.units), frame.height)
        sums = sum_type(part.kind)
        counts = frame[part.count.meta.output_name()].to_numpy()
        try:
            if large.any():
                raise SumTooLarge(int(large.argmax()), limit=limit_of(sums))
            made = sums_of_decimals(units, None, sums)
            if part.is_mean:
                kind = mean_type(part.kind)
                made = means(units, counts, None, kind, kind.scale - sums.scale)
        except SumTooLarge as error:
            raise error.of(part.column) from None
        return pl.Series(name, made)

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        missing = [name for name in self.optional if name not in frame.columns]
        return frame.with_columns(pl.lit(0, pl.Int64).alias(name) for name in missing)

    def merge_totals(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the snapshot's rows for the frames, without the limbs."""
        names = [*self.keys, *self.pane, *self.required, *self.optional]
        kept = [frame[[name for name in names if name in frame.columns]] for frame in frames]
        return self.stored(self._merged(kept, self.pane, [*self._merges]))

    def merge_limbs(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Return the limbs of the frames, with a row for each limb that is not zero."""
        index = [*self.keys, *self.pane]
        limbs = [frame[[*index, *_exact_columns(frame)]] for frame in frames]
        merged = self._merged(limbs, self.pane, [])
        long = merged.unpivot(
            on=_exact_columns(merged), index=index, variable_name=_COLUMN, value_name=_LIMB
        ).filter(pl.col(_LIMB) != 0)
        names = pl.col(_COLUMN).cast(pl.String).str.strip_prefix(_EXACT)
        return long.select(
            *index,
            names.str.replace(r"\.-?\d+$", "").alias(_COLUMN),
            names.str.extract(r"(-?\d+)$").cast(pl.Int32).alias(_BIN),
            pl.col(_LIMB).cast(pl.Int64),
        )

    def limbs(self, frame: pl.DataFrame) -> dict[tuple[str, int], Ints]:
        """Return the limbs of a frame: for each column and bin, one limb per row."""
        limbs: dict[tuple[str, int], Ints] = {}
        for name in _exact_columns(frame):
            column, _, position = name.removeprefix(_EXACT).rpartition(".")
            limbs[column, int(position)] = frame[name].to_numpy()
        return limbs

    def with_limbs(self, nothing: pl.DataFrame, long: pl.DataFrame) -> pl.DataFrame:
        """Return a frame of limbs, to be merged with the rows that they belong to. `long` is a result
        of `merge_limbs`; `nothing` is a frame of no input rows."""
        pane = self.pane
        frames = [self.partial(nothing.with_columns(long.clear()[name] for name in pane), pane)]
        for (name, position), part in long.partition_by(_COLUMN, _BIN, as_dict=True).items():
            if name.startswith(_LACKS):
                self._lacks = list(dict.fromkeys([*self._lacks, name.removeprefix(_LACKS)]))
            if name in self._exact or name.startswith(_LACKS):
                value = pl.col(_LIMB).alias(f"{_EXACT}{name}.{position}")
                frames.append(part.select(*self.keys, *pane, value))
        return self.merge(frames, pane)


class GatheredTable(AggregateTable):
    """The values that aggregates gather, as rows."""

    def __init__(
        self, keys: Sequence[str], gathered: Mapping[str, ManyRowsState], windows: Grouping
    ) -> None:
        super().__init__(keys, windows)
        first = next(iter(gathered.values()))
        self.name = first.state
        self._distinct = first.distinct
        self.keeps_rows = not first.distinct
        self._least = first.least
        self._worth_rows = _WORTH_ROWS
        """Number of rows from which a frame is reduced to the rows that must be kept."""
        self._value = first.value.alias(VALUE)
        self._results: list[pl.Expr] = []
        self._all = list(gathered)
        reduced: dict[str, OneRowState] = {}
        for name, state in gathered.items():
            if isinstance(state.result, OneRowState):
                reduced[name] = state.result
            else:
                self._results.append(state.result.alias(name))
        self._column = first.state.partition(".")[2]
        self._totals = TotalsTable(keys, reduced, windows) if reduced else None
        """Reduces the values of a key and window; None if no column can be reduced."""

    @property
    def required(self) -> list[str]:
        return [VALUE]

    def needs(self) -> dict[str, list[str]]:
        return {key: [self.name] for key in self._all}

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return self._kept(rows.select(*self.keys, *by, self._value).drop_nulls(VALUE), by)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return self._kept(pl.concat([frame[[*self.keys, *by, VALUE]] for frame in frames]), by)

    def _kept(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        if not self._distinct:
            return frame
        frame = frame.unique()
        if self._least is None or frame.height < self._worth_rows:
            return frame
        kept = _first(frame.sort(VALUE), [*self.keys, *by], self._least)
        self._worth_rows = _worth_rows(frame, kept)
        return kept

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        index = [*self.keys, *self.window]
        made = frame.group_by(index).agg(self._results)
        if self._totals is None:
            return made
        values = frame.select(*index, pl.col(VALUE).alias(input_name(VALUE)))
        totals = self._totals.partial(values, self.window)
        try:
            return made.join(self._totals.finish(totals), on=index, how="left")
        except SumTooLarge as error:
            of = frame.with_row_index(_PLACE).join(totals[[error.row]].select(index), on=index)
            raise error.of(self._column, of[_PLACE][0]) from None


_PLACE = "place"


class CountedTable(AggregateTable):
    """The values that aggregates count, as rows."""

    def __init__(
        self, keys: Sequence[str], counted: Mapping[str, CountedValues], windows: Grouping
    ) -> None:
        super().__init__(keys, windows)
        first = next(iter(counted.values()))
        self.name = first.state
        self._value = first.value.alias(VALUE)
        self._all = list(counted)
        self._results = [state.result.alias(name) for name, state in counted.items()]

    @property
    def required(self) -> list[str]:
        return [VALUE, COUNT]

    def needs(self) -> dict[str, list[str]]:
        return {key: [self.name] for key in self._all}

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        values = rows.select(*self.keys, *by, self._value).drop_nulls(VALUE)
        return values.group_by([*self.keys, *by, VALUE]).agg(pl.len().cast(pl.Int64).alias(COUNT))

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        values = [*self.keys, *by, VALUE]
        frame = pl.concat([frame[[*values, COUNT]] for frame in frames])
        return frame.group_by(values).agg(pl.col(COUNT).sum())

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by([*self.keys, *self.window]).agg(self._results)


_WORTH_ROWS = 1 << 14


def _first(frame: pl.DataFrame, index: Sequence[str], rows: int) -> pl.DataFrame:
    """Return the first rows of each combination of these columns, or of all rows without columns."""
    return frame.group_by(index).head(rows) if index else frame.head(rows)


def _worth_rows(frame: pl.DataFrame, kept: pl.DataFrame) -> int:
    """Return the number of rows from which it pays to reduce the frame again. It is larger if the last
    reduction kept nearly all rows, as for keys with few rows."""
    return 2 * frame.height if kept.height > frame.height * 3 // 4 else _WORTH_ROWS


class KeptTable(AggregateTable):
    """The columns that expressions read, of all rows or of the first ones in an order."""

    def __init__(self, keys: Sequence[str], kept: Mapping[str, RowsState], windows: Grouping) -> None:
        super().__init__(keys, windows)
        self._most = next(iter(kept.values())).most
        self.keeps_rows = self._most is None
        self._worth_rows = _WORTH_ROWS
        """Number of rows from which a frame is reduced to the rows that must be kept."""
        self.name = kept_name(self._most)
        self._columns = sorted({column for state in kept.values() for column in state.columns})
        self._needs = {
            name: [f"{self.name}: {input_name(column)}" for column in state.columns]
            for name, state in kept.items()
        }
        self._results = [state.result.alias(name) for name, state in kept.items()]

    @property
    def required(self) -> list[str]:
        return [input_name(column) for column in self._columns]

    def needs(self) -> dict[str, list[str]]:
        return self._needs

    def stored_of(self, columns: Iterable[str]) -> set[str]:
        return {f"{self.name}: {column}" for column in columns}

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        kept = rows.select(*self.keys, *by, *self.required)
        # Otherwise the result would show which of two equal zeros was first.
        return kept.with_columns(
            one_zero(pl.col(name)) for name in self.required if kept.schema[name].is_float()
        )

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        frame = pl.concat([frame[[*self.keys, *by, *self.required]] for frame in frames])
        if self._most is None or (frame.height < self._worth_rows and by == self.pane):
            return frame
        kept = self._foremost(frame, by)
        self._worth_rows = _worth_rows(frame, kept)
        return kept

    def combined(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return self._foremost(self.partial(rows, by), by)

    def _foremost(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the kept rows of each key and `by`."""
        assert self._most is not None
        return _first(self._in_order(frame, input_name), [*self.keys, *by], self._most.rows)

    def _in_order(self, frame: pl.DataFrame, name: Callable[[str], str]) -> pl.DataFrame:
        first = [] if self._most is None else [self._most.column]
        order = list(dict.fromkeys([*first, TS, *self._columns]))
        falling = [column in first and not (self._most and self._most.smallest) for column in order]
        return in_order(frame, [name(column) for column in order], falling)

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        # Input columns keep their names, so key and window columns are renamed: to hidden names, which
        # no user's column has.
        index = {f"{HIDDEN_PREFIX}{name}": name for name in (*self.keys, *self.window)}
        named = frame.select(
            *(pl.col(name).alias(hidden) for hidden, name in index.items()),
            *(pl.col(input_name(column)).alias(column) for column in self._columns),
        )
        # If not all rows are kept, merging has sorted them.
        rows = self._in_order(named, str) if self._most is None else named
        return rows.group_by(list(index)).agg(self._results).rename(index)


def kept_name(most: RowLimit | None) -> str:
    """Return the name of the state with the kept rows."""
    if most is None:
        return KEPT
    return f"{KEPT}, {most.rows} {'smallest' if most.smallest else 'largest'}.{most.column}"


KEPT = "kept"


def in_order(
    frame: pl.DataFrame, by: Sequence[str], falling: Sequence[bool] | None = None
) -> pl.DataFrame:
    """Return the frame sorted by columns, each descending if `falling`, nulls last. Numbers without
    nulls are sorted much faster than Polars sorts several columns of arbitrary types."""
    falling = [False] * len(by) if falling is None else falling
    keys: list[Any] = []
    for name, falls in zip(by, falling, strict=True):
        column = frame[name]
        whole = column.dtype.is_integer()
        if column.null_count() or not (whole or (column.dtype.is_float() and not _has_nan(column))):
            return frame.sort(by, descending=falling, nulls_last=True)
        numbers = column.to_numpy()
        keys.append((~numbers if whole else -numbers) if falls else numbers)
    return frame[np.lexsort(keys[::-1])]


class Tables:
    """The tables that a set of aggregates over rows of `schema` needs."""

    def __init__(
        self, keys: Sequence[str], aggregates: Mapping[str, Agg], schema: pa.Schema, windows: Grouping
    ) -> None:
        reduced: dict[str, OneRowState] = {}
        gathered: dict[str, dict[str, ManyRowsState]] = {}
        counted: dict[str, dict[str, CountedValues]] = {}
        kept: dict[str, dict[str, RowsState]] = {}
        for name, agg in aggregates.items():
            match with_exact_decimals(agg, schema).windowed(schema):
                case OneRowState() as state:
                    reduced[name] = state
                case ManyRowsState() as state:
                    gathered.setdefault(state.state, {})[name] = state
                case CountedValues() as state:
                    counted.setdefault(state.state, {})[name] = state
                case RowsState() as state:
                    kept.setdefault(kept_name(state.most), {})[name] = state
                case never:
                    assert_never(never)
        self.totals = TotalsTable(keys, reduced, windows)
        self.others: list[AggregateTable] = [
            GatheredTable(keys, states, windows) for states in gathered.values()
        ]
        self.others += [CountedTable(keys, states, windows) for states in counted.values()]
        self.others += [KeptTable(keys, states, windows) for states in kept.values()]
        self.of_nothing: dict[str, Any] = {
            name: state.of_nothing for states in gathered.values() for name, state in states.items()
        }
        """Results of aggregates in windows without a row in their table."""
        self.needs = {
            name: needs
            for table in (self.totals, *self.others)
            for name, needs in table.needs().items()
        }
        """By aggregate, the names of the stored parts that its result requires."""
        used = dict.fromkeys(column for agg in aggregates.values() for column in agg.columns)
        self.inputs = {input_name(column): column for column in used}
        """Input columns from which state is computed, by their names in frames."""


def _limbs(column: str, values: pl.Series) -> list[pl.Series]:
    # A null adds nothing.
    if column.startswith(UNITS):
        units = Units.of(values.to_arrow())
        return [pl.Series(f"{_EXACT}{column}.{bin}", limb) for bin, limb in units.limbs().items()]
    if values.dtype.is_decimal():
        values = values.cast(pl.Float64)
    numbers = (values.fill_null(0) if values.null_count() else values).to_numpy()
    squared = column.startswith(SQUARES)
    if values.dtype.is_integer():
        wide: Any = numbers.astype(np.uint64 if values.dtype == pl.UInt64 else np.int64, copy=False)
        whole = exact_sum.decompose_integer_squares if squared else exact_sum.decompose_integers
        limbs = whole(wide)
    else:
        floats = numbers.astype(np.float64, copy=False)
        limbs = exact_sum.decompose_squares(floats) if squared else exact_sum.decompose(floats)
    return [pl.Series(f"{_EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]


def _has_nan(values: pl.Series) -> bool:
    """Return whether a column of floats contains NaN."""
    if values.null_count() or not values.len():
        return bool(values.is_nan().any())
    return bool(np.isnan(values.to_numpy().max()))  # Several times faster than `is_nan().any()`.


def _summed_column(name: str) -> str:
    """Return the input column of an exact sum, by the name of its state."""
    if name.startswith(UNITS):
        return name.removeprefix(UNITS).partition(".")[2]
    return name.removeprefix(SQUARES)


def _lacks_column(name: str) -> str:
    return f"{_EXACT}{_LACKS}{name}.0"


def _without_zeros(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the frame without the columns `_BEYOND` in which no sum exceeds 64 bits."""
    if not columns:
        return frame
    return frame.drop(
        _BEYOND + column for column in columns if not (frame[_BEYOND + column] != 0).any()
    )


def _exact_columns(frame: pl.DataFrame) -> list[str]:
    return [name for name in frame.columns if name.startswith(_EXACT)]


def _limbs_of(frame: pl.DataFrame, column: str) -> exact_sum.Limbs:
    prefix = f"{_EXACT}{column}."
    return {
        int(name.removeprefix(prefix)): frame[name].to_numpy()
        for name in frame.columns
        if name.rpartition(".")[0] + "." == prefix
    }


def _carried(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with the limbs of exact sums in the range that may be stored."""
    large: dict[str, None] = {}
    for name in _exact_columns(frame):
        limb = frame[name].to_numpy()
        if len(limb) and max(int(limb.max()), -int(limb.min())) > exact_sum.STORED:
            large[name.removeprefix(_EXACT).rpartition(".")[0]] = None
    for column in large:
        limbs = exact_sum.carry(_limbs_of(frame, column))
        frame = frame.with_columns(
            [pl.Series(f"{_EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]
        )
    return frame
