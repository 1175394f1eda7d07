"""The partial states of the built-in aggregates, as columns: how they are made, merged and finished.

A *table* holds the state of some aggregates by key and pane. Its rows are made from input rows
(`partial`), combined with others of the same key and pane, or key and window (`merge`), and turned
into results (`finish`). Merging is associative and commutative to the bit, so results depend on the
rows alone, not on how they came in batches:

- `Totals` has a row per key and pane with counts, integer sums, extremes, and the limbs of exact sums;
- `Values` keeps every value of a column, for quantiles;
- `Distinct` keeps the different values of a column, to count them.

Columns are named by kind and column ("sum.price"), so that state outlives a changed program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.graph.aggregates import Agg, AggKind
from rheos.operators.window import exact_sum
from rheos.operators.window.frames import INPUT
from rheos.operators.window.segments import END, PANE

ROWS = "rows"
_VALUE = "value"
_EXACT = "exact."
_COLUMN, _BIN, _LIMB = "column", "bin", "limb"


class Table(ABC):
    """One kind of partial state. `keys` are the names of the key columns in its frames."""

    name: str
    """The name of the state in snapshots."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)

    @abstractmethod
    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """The state of input rows; `by` names the columns of the pane that `rows` has."""

    @abstractmethod
    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """One frame of several, with one row per key and `by`, where the kind of state allows it."""

    @abstractmethod
    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The results, under their names in the output, per key and END."""

    def kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """The types of the columns of key and state, given a frame without rows."""
        made = self.partial(nothing, ()).schema
        return {name: made[name] for name in (*self.keys, *self.required)}

    @property
    @abstractmethod
    def required(self) -> list[str]:
        """The columns that its state must have, without those of key and pane."""


class Totals(Table):
    """Counts, sums, means and extremes. A row exists for every key and pane that had any row."""

    name = "totals"
    sums_name = "sums"
    """The limbs of exact sums stand apart in snapshots, a row each."""
    limb_order = (_COLUMN, _BIN)

    def __init__(self, keys: Sequence[str], aggregates: Mapping[str, Agg], schema: pa.Schema) -> None:
        super().__init__(keys)
        self._aggregates = {
            name: agg
            for name, agg in aggregates.items()
            if agg.kind not in (AggKind.QUANTILE, AggKind.COUNT_DISTINCT)
        }
        self._counts: set[str] = set()
        self._sums: set[str] = set()
        self._exact: set[str] = set()
        self._extremes: set[tuple[str, str]] = set()
        self._floats = {field.name for field in schema if pa.types.is_floating(field.type)}
        for agg in self._aggregates.values():
            if agg.column is None:
                continue
            match agg.kind:
                case AggKind.COUNT:
                    self._counts.add(agg.column)
                case AggKind.MIN | AggKind.MAX:
                    self._extremes.add((agg.kind.value, agg.column))
                case _:
                    kind = schema.field(agg.column).type
                    # The mean of 64-bit integers may be of values whose sum is beyond int64.
                    wide = (
                        agg.kind is AggKind.MEAN and pa.types.is_integer(kind) and kind.bit_width == 64
                    )
                    exact = wide or agg.column in self._floats
                    (self._exact if exact else self._sums).add(agg.column)
        self._merges = [pl.col(ROWS).sum()]
        self._makes = [pl.len().cast(pl.Int64).alias(ROWS)]
        # Sums count their values themselves: state without that count is state without that sum.
        counts = [("count", self._counts), ("summed", self._sums), ("exactly", self._exact)]
        for name, column in [(name, column) for name, columns in counts for column in sorted(columns)]:
            self._makes.append(pl.col(INPUT + column).count().cast(pl.Int64).alias(f"{name}.{column}"))
            self._merges.append(pl.col(f"{name}.{column}").sum())
        for column in sorted(self._sums):
            self._makes.append(
                pl.col(INPUT + column).cast(pl.Int64, wrap_numerical=True).sum().alias(f"sum.{column}")
            )
            self._merges.append(pl.col(f"sum.{column}").sum())
        for kind, column in sorted(self._extremes):
            self._makes.append(getattr(pl.col(INPUT + column), kind)().alias(f"{kind}.{column}"))
            self._merges.append(getattr(pl.col(f"{kind}.{column}"), kind)())

    @property
    def required(self) -> list[str]:
        return [ROWS, *(expr.meta.output_name() for expr in self._makes[1:])]

    def limb_kinds(self, nothing: pl.DataFrame) -> dict[str, pl.DataType]:
        """`kinds` of the limbs."""
        keys = {name: nothing.schema[name] for name in self.keys}
        return keys | {_COLUMN: pl.String(), _BIN: pl.Int32(), _LIMB: pl.Int64()}

    @property
    def has_exact(self) -> bool:
        return bool(self._exact)

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        makes = self._makes
        limbs: list[pl.Series] = []
        for column in self._exact:
            limbs.extend(_limbs(column, rows[INPUT + column]))
        if limbs:
            rows = rows.hstack(limbs)
            makes = makes + [pl.col(limb.name).sum() for limb in limbs]
        return _carried(rows.group_by([*self.keys, *by]).agg(makes))

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return self._merged(frames, by, self._merges)

    def _merged(
        self, frames: Sequence[pl.DataFrame], by: Sequence[str], merges: list[pl.Expr]
    ) -> pl.DataFrame:
        frame = pl.concat(frames, how="diagonal", rechunk=False)
        limbs = [pl.col(name).sum() for name in _exact_columns(frame)]
        return _carried(frame.group_by([*self.keys, *by]).agg(*merges, *limbs))

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        sums = {
            column: pl.Series(exact_sum.evaluate(_limbs_of(frame, column), frame.height))
            for column in self._exact
        }
        results: list[pl.Expr] = []
        for name, agg in self._aggregates.items():
            column = agg.column
            if column is None:
                results.append(pl.col(ROWS).alias(name))
                continue
            match agg.kind:
                case AggKind.COUNT | AggKind.MIN | AggKind.MAX:
                    result = pl.col(f"{agg.kind.value}.{column}")
                    if agg.kind is not AggKind.COUNT and column in self._floats:
                        result = _one_zero(result)
                case kind:
                    exact = column in self._floats or (kind is AggKind.MEAN and column in sums)
                    total = pl.lit(sums[column]) if exact else pl.col(f"sum.{column}")
                    count = pl.col(f"exactly.{column}" if exact else f"summed.{column}")
                    if kind is AggKind.MEAN:
                        total = total.cast(pl.Float64) / count
                    result = pl.when(count > 0).then(total)
            results.append(result.alias(name))
        return frame.select(*self.keys, END, *results)

    def merge_totals(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """What a snapshot keeps of the frames, without the limbs."""
        names = [*self.keys, *PANE, *self.required]
        return self._merged([frame[names] for frame in frames], PANE, self._merges)

    def merge_limbs(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The limbs of the frames, a row for each that is not zero."""
        index = [*self.keys, *PANE]
        merged = self._merged([frame[[*index, *_exact_columns(frame)]] for frame in frames], PANE, [])
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
        frames = [self.partial(nothing.with_columns(long.clear()[name] for name in PANE), PANE)]
        for (name, position), part in long.partition_by(_COLUMN, _BIN, as_dict=True).items():
            if name in self._exact:
                value = pl.col(_LIMB).alias(f"{_EXACT}{name}.{position}")
                frames.append(part.select(*self.keys, *PANE, value))
        return self.merge(frames, PANE)


class Values(Table):
    """Every value of a column, for its quantiles."""

    def __init__(self, keys: Sequence[str], column: str, quantiles: Mapping[str, float]) -> None:
        super().__init__(keys)
        self.name = f"values.{column}"
        self._column = column
        self._results = [
            _one_zero(pl.col(_VALUE).quantile(q, interpolation="linear")).alias(name)
            for name, q in quantiles.items()
        ]

    @property
    def required(self) -> list[str]:
        return [_VALUE]

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        value = pl.col(INPUT + self._column).cast(pl.Float64).alias(_VALUE)
        return rows.select(*self.keys, *by, value).drop_nulls(_VALUE)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return _values(frames, [*self.keys, *by])

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by([*self.keys, END]).agg(self._results)


class Distinct(Table):
    """The different values of a column, to count them."""

    def __init__(self, keys: Sequence[str], column: str, results: Sequence[str]) -> None:
        super().__init__(keys)
        self.name = f"distinct.{column}"
        self._value = pl.col(INPUT + column).alias(_VALUE)
        self._results = [pl.len().cast(pl.Int64).alias(name) for name in results]

    @property
    def required(self) -> list[str]:
        return [_VALUE]

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        return rows.select(*self.keys, *by, self._value).drop_nulls(_VALUE).unique()

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return _values(frames, [*self.keys, *by]).unique()

    def finish(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.group_by([*self.keys, END]).agg(self._results)


def tables_of(
    keys: Sequence[str], aggregates: Mapping[str, Agg], schema: pa.Schema
) -> tuple[Totals, list[Table]]:
    """The tables that a set of aggregates over rows of `schema` needs."""
    quantiles: dict[str, dict[str, float]] = {}
    distincts: dict[str, list[str]] = {}
    for name, agg in aggregates.items():
        if agg.column is not None and agg.kind is AggKind.QUANTILE:
            quantiles.setdefault(agg.column, {})[name] = agg.q
        if agg.column is not None and agg.kind is AggKind.COUNT_DISTINCT:
            distincts.setdefault(agg.column, []).append(name)
    others: list[Table] = [Values(keys, column, names) for column, names in quantiles.items()]
    others += [Distinct(keys, column, names) for column, names in distincts.items()]
    return Totals(keys, aggregates, schema), others


def _one_zero(value: pl.Expr) -> pl.Expr:
    """-0.0 and 0.0 are equal, so which one came first would show. (Polars leaves out `+ 0.0`.)"""
    return pl.when(value == 0).then(0.0).otherwise(value)


def _values(frames: Sequence[pl.DataFrame], index: Sequence[str]) -> pl.DataFrame:
    return pl.concat([frame[[*index, _VALUE]] for frame in frames])


def _limbs(column: str, values: pl.Series) -> list[pl.Series]:
    # A null adds nothing.
    numbers = (values.fill_null(0) if values.null_count() else values).to_numpy()
    if values.dtype.is_integer():
        limbs = exact_sum.decompose_integers(numbers)
    else:
        limbs = exact_sum.decompose(numbers.astype(np.float64, copy=False))
    return [pl.Series(f"{_EXACT}{column}.{bin}", limb) for bin, limb in limbs.items()]


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
