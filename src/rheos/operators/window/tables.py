"""The state of a window operator's aggregates, as columns: how it is made, merged and finished.

What is kept is what the aggregates say (`aggregates/contract.py`). A *table* holds the state of some of
them by key and pane: `TotalsTable` that of all that are reduced, a row per key and pane; a
`GatheredTable` the values that are gathered for one state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.aggregates import exact_sum
from rheos.aggregates.contract import (
    VALUE,
    Agg,
    Column,
    ExactSum,
    Gathered,
    IntegerSum,
    Part,
    Reduced,
    given,
    input_name,
)
from rheos.aggregates.count import ROWS, count_column
from rheos.aggregates.integer_sum import SumTooLarge, beyond, may_be_beyond, wrapped
from rheos.operators.window.contract import Windows

_EXACT = "exact."
_BEYOND = "beyond."
_COLUMN, _BIN, _LIMB = "column", "bin", "limb"


class AggregateTable(ABC):
    """One state. `keys` are the names of the key columns in its frames; `windows` say which columns
    name a pane, and a window."""

    name: str
    """The name of the state in snapshots."""

    def __init__(self, keys: Sequence[str], windows: Windows) -> None:
        self.keys = list(keys)
        self.pane = windows.pane
        self.window = windows.window

    @abstractmethod
    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The state of input rows; `by` names the columns of the pane that `rows` has."""

    @abstractmethod
    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """One frame of several, with one row per key and `by`, where the kind of state allows it."""

    @abstractmethod
    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The results, under their names in the output, per key and window. Raises SumTooLarge, with
        the row of `frame`."""

    def kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """The types of the columns of key and state, given a frame without rows."""
        made = self.stored(self.partial(nothing, ())).schema
        return {name: made[name] for name in (*self.keys, *self.required, *self.optional)}

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with all columns that are stored."""
        return frame

    @property
    @abstractmethod
    def required(self) -> list[str]:
        """The columns that its state must have, without those of key and pane."""

    @property
    def optional(self) -> list[str]:
        """Columns that are stored besides; what was written without them is read."""
        return []


class TotalsTable(AggregateTable):
    """The state of reduced aggregates. A row exists for every key and pane that had any row.

    In `partial`, `spans` make the columns of the pane where all rows of a key share one.
    """

    name = "totals"
    sums_name = "sums"
    """The limbs of exact sums stand apart in snapshots, a row each."""
    limb_order = (_COLUMN, _BIN)

    def __init__(self, keys: Sequence[str], reduced: Mapping[str, Reduced], windows: Windows) -> None:
        super().__init__(keys, windows)
        self._results = [state.result.alias(name) for name, state in reduced.items()]
        self._integers: list[str] = []
        """The columns whose sums are kept as integers."""
        self._exact: list[str] = []
        """The columns whose sums are kept in limbs."""
        columns: dict[str, Column] = {}
        for part in (part for state in reduced.values() for part in state.parts):
            for column in self._columns_of(part):
                known = columns.setdefault(column.name, column)
                assert known.make.meta.eq(column.make), f"{column.name!r} is of two kinds"
        columns.pop(ROWS.name, None)
        kept = [ROWS, *(columns[name] for name in sorted(columns))]
        self._makes = [column.make.alias(column.name) for column in kept]
        self._merges = [column.merge.alias(column.name) for column in kept]
        self._names = [column.name for column in kept]

    def _columns_of(self, part: Part) -> Sequence[Column]:
        # Sums count their values themselves: state without that count is state without that sum.
        match part:
            case Column():
                return [part]
            case IntegerSum(column=column):
                if column not in self._integers:
                    self._integers.append(column)
                total = f"sum.{column}"
                sums = Column(total, wrapped(given(column)), pl.col(total).sum())
                return [count_column("summed", column), sums]
            case ExactSum(column=column):
                if column not in self._exact:
                    self._exact.append(column)
                return [count_column("exactly", column)]
            case _:
                assert_never(part)

    @property
    def required(self) -> list[str]:
        return self._names

    @property
    def optional(self) -> list[str]:
        """By how many times 2**64 a sum of integers is beyond its int64: in frames only where some is,
        in snapshots always. 0.1.0 did not write it."""
        return [_BEYOND + column for column in self._integers]

    def limb_kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """`kinds` of the limbs."""
        keys = {name: nothing.schema[name] for name in self.keys}
        return keys | {_COLUMN: pl.String(), _BIN: pl.Int32(), _LIMB: pl.Int64()}

    @property
    def has_exact(self) -> bool:
        return bool(self._exact)

    def partial(
        self, rows: pl.DataFrame, by: Sequence[str], spans: Sequence[pl.Expr] = ()
    ) -> pl.DataFrame:
        makes = [*self._makes, *spans]
        limbs: list[pl.Series] = []
        for column in self._exact:
            limbs.extend(_limbs(column, rows[input_name(column)]))
        if limbs:
            rows = rows.hstack(limbs)
            makes = makes + [pl.col(limb.name).sum() for limb in limbs]
        large = [column for column in self._integers if may_be_beyond(rows[input_name(column)])]
        makes = makes + [beyond(given(column)).alias(_BEYOND + column) for column in large]
        return _carried(_without_zeros(rows.group_by([*self.keys, *by]).agg(makes), large))

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return self._merged(frames, by, self._merges)

    def _merged(
        self, frames: Sequence[pl.DataFrame], by: Sequence[str], merges: list[pl.Expr]
    ) -> pl.DataFrame:
        frame = pl.concat(frames, how="diagonal", rechunk=False)
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
        ]
        return frame.hstack(sums).select(*self.keys, *self.window, *self._results)

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        missing = [name for name in self.optional if name not in frame.columns]
        return frame.with_columns(pl.lit(0, pl.Int64).alias(name) for name in missing)

    def merge_totals(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """What a snapshot keeps of the frames, without the limbs."""
        names = [*self.keys, *self.pane, *self.required, *self.optional]
        kept = [frame[[name for name in names if name in frame.columns]] for frame in frames]
        return self.stored(self._merged(kept, self.pane, self._merges))

    def merge_limbs(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The limbs of the frames, a row for each that is not zero."""
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

    def with_limbs(self, nothing: pl.DataFrame, long: pl.DataFrame) -> pl.DataFrame:
        """Limbs as `merge_limbs` gave them, as a frame to be merged with the rows they belong to;
        `nothing` is a frame of no input rows."""
        pane = self.pane
        frames = [self.partial(nothing.with_columns(long.clear()[name] for name in pane), pane)]
        for (name, position), part in long.partition_by(_COLUMN, _BIN, as_dict=True).items():
            if name in self._exact:
                value = pl.col(_LIMB).alias(f"{_EXACT}{name}.{position}")
                frames.append(part.select(*self.keys, *pane, value))
        return self.merge(frames, pane)


class GatheredTable(AggregateTable):
    """The values that aggregates gather, as rows."""

    def __init__(self, keys: Sequence[str], gathered: Mapping[str, Gathered], windows: Windows) -> None:
        super().__init__(keys, windows)
        first = next(iter(gathered.values()))
        self.name = first.state
        self._distinct = first.distinct
        self._value = first.value.alias(VALUE)
        self._results = [state.result.alias(name) for name, state in gathered.items()]

    @property
    def required(self) -> list[str]:
        return [VALUE]

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return self._kept(rows.select(*self.keys, *by, self._value).drop_nulls(VALUE))

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return self._kept(pl.concat([frame[[*self.keys, *by, VALUE]] for frame in frames]))

    def _kept(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.unique() if self._distinct else frame

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by([*self.keys, *self.window]).agg(self._results)


class Tables:
    """The tables that a set of aggregates over rows of `schema` needs."""

    def __init__(
        self, keys: Sequence[str], aggregates: Mapping[str, Agg], schema: pa.Schema, windows: Windows
    ) -> None:
        reduced: dict[str, Reduced] = {}
        gathered: dict[str, dict[str, Gathered]] = {}
        for name, agg in aggregates.items():
            match agg.windowed(schema):
                case Reduced() as state:
                    reduced[name] = state
                case Gathered() as state:
                    gathered.setdefault(state.state, {})[name] = state
                case never:
                    assert_never(never)
        self.totals = TotalsTable(keys, reduced, windows)
        self.others: list[AggregateTable] = [
            GatheredTable(keys, states, windows) for states in gathered.values()
        ]
        self.of_nothing: dict[str, Any] = {
            name: state.of_nothing for states in gathered.values() for name, state in states.items()
        }
        """The results of aggregates in windows that have no row in their table."""
        used = dict.fromkeys(column for agg in aggregates.values() for column in agg.columns)
        self.inputs = {input_name(column): column for column in used}
        """The columns of the input that state is made of, by their names in frames."""


def _limbs(column: str, values: pl.Series) -> list[pl.Series]:
    # A null adds nothing.
    numbers = (values.fill_null(0) if values.null_count() else values).to_numpy()
    if values.dtype.is_integer():
        limbs = exact_sum.decompose_integers(numbers)
    else:
        limbs = exact_sum.decompose(numbers.astype(np.float64, copy=False))
    return [pl.Series(f"{_EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]


def _without_zeros(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Without what says of no sum that it is beyond 64 bits."""
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
    """The frame with the limbs of exact sums within what may be stored."""
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
