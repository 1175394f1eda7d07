"""The layouts of open windows: the contents of each pane so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.spark.spark_types import spark_arrow_type
from rheos.core.aggregates import exact_sum
from rheos.core.aggregates.contract import VALUE, given_name
from rheos.core.operators.window.contract import Windows
from rheos.core.operators.window.frames import KEY
from rheos.core.operators.window.kinds import stored_windows
from rheos.core.operators.window.late_candidates import STATE as UNDECIDED
from rheos.core.operators.window.process import STATE as WINDOW_ROWS
from rheos.core.operators.window.row_tables import KEPT
from rheos.core.operators.window.totals_table import TotalsTable
from rheos.core.protocol.elements import TS
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.shapes import StateShape
from rheos.runtimes.state_tables.key_columns import KeyColumns, plain_column
from rheos.runtimes.state_tables.state_layout import StateLayout, arrow_type, column_schema, unique

TOTALS, SUMS = TotalsTable.name, TotalsTable.sums_name

PANE = ("pane_start", "pane_end", "first_window_end")
TIME = pa.timestamp("us", tz="UTC")


def window_layout(state: str, shape: StateShape, fired: StateShape) -> StateLayout:
    windows = stored_windows(fired.value.label, cut_of(fired))
    if state == SUMS:
        return SumsLayout(shape, windows)
    if state == TOTALS:
        return TotalsLayout(shape, windows)
    if state in (WINDOW_ROWS, UNDECIDED):
        return _WindowRows(shape, windows)
    if state.partition(",")[0] == KEPT:
        return _KeptLayout(shape, windows)
    return _GatheredLayout(shape, windows)


def cut_of(fired: StateShape) -> dict[str, int | str]:
    """Return how the windows of a state are divided. Numbers are in ms."""
    return {
        field.name: field.type.label if field.type.name == "word" else int(field.type.label)
        for field in fired.value.fields
        if field.name != "lateness"
    }


class _PanesLayout(StateLayout):
    def __init__(self, shape: StateShape, windows: Windows) -> None:
        self._keys = KeyColumns(shape.key)
        self._windows = windows

    def _index(self) -> list[pa.Field]:
        self._pane = list(unique(self._keys.names, PANE).values())
        return [*self._keys.shown, *(pa.field(name, TIME) for name in self._pane)]

    def _indexed(self, table: pa.Table) -> list[pa.Array]:
        """Return the key and the pane."""
        start, end = self._windows.span(lambda name: table.column(name).to_numpy())
        opened = table.column(self._windows.pane[1]).to_numpy()
        return [*self._keys.of_table(table, KEY), _time(start), _time(end), _time(opened)]


_MOST_MS = 2**63 // 1000 - 1


def _time(ms: Any) -> pa.Array:
    """Return times as timestamps. Those beyond the range of a timestamp become its bounds."""
    return pa.array(np.clip(ms, -_MOST_MS, _MOST_MS) * 1000).view(pa.timestamp("us")).cast(TIME)


class _WindowRows(_PanesLayout):
    """Layout of rows for a window function, or of rows that a session may still include."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        columns = column_schema(shape.value.fields)
        self._stored = [KEY + n if n in self._keys.names else f"row.{n}" for n in columns.names]
        self._pane = list(unique(columns.names, PANE).values())
        self.schema = pa.schema([*columns, *(pa.field(name, TIME) for name in self._pane)])

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [plain_column(table, name) for name in self._stored]
        pane = self._indexed(table)[len(self._keys.names) :]
        return pa.table([*columns, *pane], names=self.schema.names)


class TotalsLayout(_PanesLayout):
    """Partial aggregates with one row per key and pane. Exact sums have a state of their own."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        self._fields = {field.name: arrow_type(field.type.name) for field in shape.value.fields}
        self.exact = [name.removeprefix("exactly.") for name in self._fields if _is(name, "exactly")]
        """The columns with exact sums, whose counts are in separate columns."""
        made: dict[str, pa.DataType] = {}
        for name, kind in self._fields.items():
            part, _, column = name.partition(".")
            if part == "summed":
                made[f"mean_{column}"] = pa.float64()
            elif part == "exactly":
                made[f"exactly {column}"] = pa.int64()
            else:
                made[f"{part}_{column}" if column else part] = spark_arrow_type(kind, name)
        index = self._index()
        self.names = unique([field.name for field in index], made)
        self.schema = pa.schema([*index, *(pa.field(self.names[n], kind) for n, kind in made.items())])

    def exact_of(self, name: str) -> str | None:
        """Return the column whose exact sum this column counts; None for other columns."""
        return next((c for c in self.exact if self.names[f"exactly {c}"] == name), None)

    def rows(self, table: pa.Table) -> pa.Table:
        made: list[pa.Array] = []
        for name in self._fields:
            part, _, column = name.partition(".")
            value = plain_column(table, name)
            if part in ("summed", "sum"):
                count = plain_column(table, f"summed.{column}")
                some = pc.if_else(pc.greater(count, 0), count, pa.scalar(None, count.type))
                total, beyond = plain_column(table, f"sum.{column}"), _overflow_of(table, column)
                if part == "summed":
                    whole = pc.add(
                        total.cast(pa.float64(), safe=False),
                        pc.multiply(beyond.cast(pa.float64(), safe=False), 2.0**64),
                    )
                    value = pc.divide(whole, some.cast(pa.float64()))
                else:
                    known = pc.and_(some.is_valid(), pc.equal(beyond, 0))
                    value = pc.if_else(known, total, pa.scalar(None, total.type))
            made.append(value)
        return pa.table([*self._indexed(table), *made], names=self.schema.names)


def _overflow_of(table: pa.Table, column: str) -> pa.Array:
    """Return how many times 2**64 a column's sums exceed 64 bits. State of 0.1.0 has no such column."""
    name = f"beyond.{column}"
    if name in table.column_names:
        return pc.fill_null(plain_column(table, name), 0)
    return pa.array(np.zeros(table.num_rows, dtype=np.int64))


def _is(name: str, part: str) -> bool:
    return name.partition(".")[0] == part


class SumsLayout(_PanesLayout):
    """Layout of exact sums of floats: a row for each summed column."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        index = self._index()
        made = {"column": pa.string(), "sum": pa.float64()}
        names = unique([field.name for field in index], made)
        self.schema = pa.schema([*index, *(pa.field(names[n], kind) for n, kind in made.items())])

    def rows(self, table: pa.Table) -> pa.Table:
        frame = pl.DataFrame(table)
        by = [*(KEY + name for name in self._keys.names), *self._windows.pane, "column"]
        sums = frame.select(by).unique(maintain_order=True).with_row_index("at")
        placed = frame.join(sums, on=by, how="left", maintain_order="left")
        limbs: exact_sum.Limbs = {}
        for (bin,), part in placed.partition_by("bin", as_dict=True).items():
            limb = np.zeros(sums.height, dtype=np.int64)
            np.add.at(limb, part["at"].to_numpy(), part["limb"].to_numpy())
            limbs[int(bin)] = limb
        found = arrow_table(sums)
        columns = [plain_column(found, "column"), pa.array(exact_sum.evaluate(limbs, sums.height))]
        return pa.table([*self._indexed(found), *columns], names=self.schema.names)


class _KeptLayout(_PanesLayout):
    """Layout of the input columns and times of expressions that are computed later."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        columns = column_schema(shape.value.fields)
        self._stored = columns.names
        named = {
            name: "event_time" if given_name(name) == TS else given_name(name) for name in columns.names
        }
        index = self._index()
        names = unique([field.name for field in index], list(named.values()))
        kept = [
            pa.field(names[named[field.name]], TIME if given_name(field.name) == TS else field.type)
            for field in columns
        ]
        self.schema = pa.schema([*index, *kept])

    def rows(self, table: pa.Table) -> pa.Table:
        columns = [
            _time(table.column(name).to_numpy())
            if given_name(name) == TS
            else plain_column(table, name)
            for name in self._stored
        ]
        return pa.table([*self._indexed(table), *columns], names=self.schema.names)


class _GatheredLayout(_PanesLayout):
    """Layout of the values that a pane has seen (for quantiles), or of its distinct values. If they are
    counted, each has its count."""

    def __init__(self, shape: StateShape, windows: Windows) -> None:
        super().__init__(shape, windows)
        self._columns = column_schema(shape.value.fields)
        index = self._index()
        names = unique([field.name for field in index], ["values", "counts"]).values()
        lists = [
            pa.field(name, pa.list_(pa.field("element", column.type)))
            for name, column in zip(names, self._columns, strict=False)
        ]
        self.schema = pa.schema([*index, *lists])

    def rows(self, table: pa.Table) -> pa.Table:
        # All values of a key and pane become one row.
        by = [*(KEY + name for name in self._keys.names), *self._windows.pane]
        names = self._columns.names
        of_pane = [pl.col(name).sort_by(VALUE) for name in names]
        gathered = pl.DataFrame(table).group_by(by, maintain_order=True).agg(of_pane)
        found = arrow_table(gathered)
        columns = [plain_column(found, name) for name in names]
        return pa.table([*self._indexed(found), *columns], names=self.schema.names)
