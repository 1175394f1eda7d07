"""Tables with several rows per key and pane: gathered values, counted values, and rows of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from rheos.core.aggregates.contract import (
    COUNT,
    VALUE,
    CountedValues,
    ManyRowsState,
    OneRowState,
    RowLimit,
    RowsState,
    input_name,
    one_zero,
)
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.operators.window.address_merging import foremost_candidates
from rheos.core.operators.window.frames import in_order
from rheos.core.operators.window.table_contract import AggregateTable, Grouping
from rheos.core.operators.window.totals_table import TotalsTable
from rheos.core.protocol.elements import HIDDEN_PREFIX, TS

_PLACE = "place"


_WORTH_ROWS = 1 << 14


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
        return self._reduce_values(rows.select(*self.keys, *by, self._value).drop_nulls(VALUE), by)

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        return self._reduce_values(pl.concat([frame[[*self.keys, *by, VALUE]] for frame in frames]), by)

    def _reduce_values(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
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
        most = self._most
        if not by and len(self.keys) == 1:
            first = input_name(most.column)
            frame = foremost_candidates(frame, self.keys[0], first, most.rows, smallest=most.smallest)
        return _first(self._in_order(frame, input_name), [*self.keys, *by], most.rows)

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


def _first(frame: pl.DataFrame, index: Sequence[str], rows: int) -> pl.DataFrame:
    """Return the first rows of each combination of these columns, or of all rows without columns."""
    return frame.group_by(index).head(rows) if index else frame.head(rows)


def _worth_rows(frame: pl.DataFrame, kept: pl.DataFrame) -> int:
    """Return the number of rows from which it pays to reduce the frame again. It is larger if the last
    reduction kept nearly all rows, as for keys with few rows."""
    return 2 * frame.height if kept.height > frame.height * 3 // 4 else _WORTH_ROWS


KEPT = "kept"


def kept_name(most: RowLimit | None) -> str:
    """Return the name of the state with the kept rows."""
    if most is None:
        return KEPT
    return f"{KEPT}, {most.rows} {'smallest' if most.smallest else 'largest'}.{most.column}"
