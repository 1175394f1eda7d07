"""The table with the state of reduced aggregates: one row per key and pane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import numpy as np
import polars as pl

from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.contract import (
    SQUARES,
    UNITS,
    ArrayLayout,
    Column,
    DecimalSum,
    Deviations,
    ExactSum,
    IntegerSum,
    NanColumn,
    OneRowState,
    Part,
    given,
    input_name,
)
from rheos.core.aggregates.count import ROWS, count_column
from rheos.core.aggregates.integer_sum import beyond, each_as_int64, may_be_beyond, wrapped
from rheos.core.aggregates.mean import means
from rheos.core.aggregates.sum import limit_of, sums_of_decimals
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.aggregates.units import Units, mean_type, sum_type
from rheos.core.operators.window.address_merging import merged_by_address, pays_for_rows
from rheos.core.operators.window.arrays import has_nan
from rheos.core.operators.window.contract import Ints
from rheos.core.operators.window.exact_limbs import (
    BIN,
    COLUMN,
    EXACT,
    LIMB_VALUE,
    carried,
    limb_columns,
    limbs_of,
    limbs_of_values,
    summed_column,
)
from rheos.core.operators.window.table_contract import AggregateTable, Grouping

_LACKS = "__lacks."
"""Prefix of columns that mark panes written before an aggregate was added to the program. A mark is a
count that is stored among the limbs of exact sums, because these may be missing and are added up."""


_BEYOND = "beyond."


class TotalsTable(AggregateTable):
    """The state of reduced aggregates. It has a row for every key and pane that had any row.

    In `partial`, `spans` compute the columns of the pane if all rows of a key share one.
    """

    name = "totals"
    sums_name = "sums"
    """Name of the limbs of exact sums in snapshots, one row each."""
    limb_order = (COLUMN, BIN)

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
        return keys | {COLUMN: pl.String(), BIN: pl.Int32(), LIMB_VALUE: pl.Int64()}

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
            if has_nan(rows[input_name(of.column)]):
                makes[place] = of.make.alias(self._names[place])
        limbs = self._limbs_of_rows(rows)
        if limbs:
            rows = rows.hstack(limbs)
            makes = makes + [pl.col(limb.name).sum() for limb in limbs]
        large = [column for column in self._integers if may_be_beyond(rows[input_name(column)])]
        makes = makes + [beyond(given(column)).alias(_BEYOND + column) for column in large]
        index = [*self.keys, *by]
        made = rows.group_by(index).agg(makes) if index else rows.select(makes)
        return carried(_without_zeros(made, large))

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
            limbs.extend(limbs_of_values(column, rows[input_name(summed_column(column))]))
        return limbs

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        if not by and len(self.keys) == 1:
            merged = self._by_address(frames)
            if merged is not None:
                return merged
        return self._merged(frames, by, [*self._merges])

    def reduce_of(self, name: str) -> np.ufunc | None:
        """Return the reduction of a numeric column, by its name; None if NumPy lacks it."""
        return np.add if name.startswith(EXACT) else self._reduces.get(name)

    def _by_address(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
        """Return the frames merged by key as arrays, if that is possible."""
        if not self._are_arrays:
            return None
        for column in self._integers:
            sums = pl.concat([frame[f"sum.{column}"] for frame in frames])
            if any(_BEYOND + column in frame for frame in frames) or may_be_beyond(sums):
                return None
        limbs = dict.fromkeys((name for frame in frames for name in limb_columns(frame)), np.add)
        merged = merged_by_address(frames, self.keys[0], {**self._reduces, **limbs})
        return None if merged is None else carried(merged)

    def _merged(
        self, frames: Sequence[pl.DataFrame], by: Sequence[str], merges: list[pl.Expr]
    ) -> pl.DataFrame:
        frame = pl.concat(frames, how="diagonal", rechunk=False)
        for place, of in self._of_nan if merges else ():
            if has_nan(frame[self._names[place]]):
                merges[place] = of.merge.alias(self._names[place])
        limbs = [pl.col(name).sum() for name in limb_columns(frame)]
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
        return carried(_without_zeros(frame.group_by([*self.keys, *by]).agg(*merges, *limbs), large))

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        for column in self._integers:
            if _BEYOND + column in frame.columns:
                raise SumTooLarge(int((frame[_BEYOND + column] != 0).arg_max() or 0), column)
        sums = [
            pl.Series(
                ExactSum(column).total.meta.output_name(),
                exact_sum.evaluate(limbs_of(frame, column), frame.height),
            )
            for column in self._exact
            if not column.startswith((SQUARES, UNITS))
        ]
        sums += [
            pl.Series(
                name,
                exact_sum.variances(
                    limbs_of(frame, part.column),
                    limbs_of(frame, part.squares),
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
        units, large = Units.of_limbs(limbs_of(frame, part.units), frame.height)
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
        limbs = [frame[[*index, *limb_columns(frame)]] for frame in frames]
        merged = self._merged(limbs, self.pane, [])
        long = merged.unpivot(
            on=limb_columns(merged), index=index, variable_name=COLUMN, value_name=LIMB_VALUE
        ).filter(pl.col(LIMB_VALUE) != 0)
        names = pl.col(COLUMN).cast(pl.String).str.strip_prefix(EXACT)
        return long.select(
            *index,
            names.str.replace(r"\.-?\d+$", "").alias(COLUMN),
            names.str.extract(r"(-?\d+)$").cast(pl.Int32).alias(BIN),
            pl.col(LIMB_VALUE).cast(pl.Int64),
        )

    def limbs(self, frame: pl.DataFrame) -> dict[tuple[str, int], Ints]:
        """Return the limbs of a frame: for each column and bin, one limb per row."""
        limbs: dict[tuple[str, int], Ints] = {}
        for name in limb_columns(frame):
            column, _, position = name.removeprefix(EXACT).rpartition(".")
            limbs[column, int(position)] = frame[name].to_numpy()
        return limbs

    def with_limbs(self, nothing: pl.DataFrame, long: pl.DataFrame) -> pl.DataFrame:
        """Return a frame of limbs, to be merged with the rows that they belong to. `long` is a result
        of `merge_limbs`; `nothing` is a frame of no input rows."""
        pane = self.pane
        frames = [self.partial(nothing.with_columns(long.clear()[name] for name in pane), pane)]
        for (name, position), part in long.partition_by(COLUMN, BIN, as_dict=True).items():
            if name.startswith(_LACKS):
                self._lacks = list(dict.fromkeys([*self._lacks, name.removeprefix(_LACKS)]))
            if name in self._exact or name.startswith(_LACKS):
                value = pl.col(LIMB_VALUE).alias(f"{EXACT}{name}.{position}")
                frames.append(part.select(*self.keys, *pane, value))
        return self.merge(frames, pane)


def _lacks_column(name: str) -> str:
    return f"{EXACT}{_LACKS}{name}.0"


def _without_zeros(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the frame without the columns `_BEYOND` in which no sum exceeds 64 bits."""
    if not columns:
        return frame
    return frame.drop(
        _BEYOND + column for column in columns if not (frame[_BEYOND + column] != 0).any()
    )
