"""Rows of Spark's state as the columnar state of windows: totals, and limbs of exact sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.contract import Agg
from rheos.core.errors import ConfigurationError
from rheos.core.operators.contract import PortType
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.contract import FixedWindows, Ints
from rheos.core.operators.window.exact_limbs import BIN, COLUMN, carried, limbs_of_values
from rheos.core.operators.window.frames import KEY, KEY_GROUP, key_names
from rheos.core.operators.window.sessions import SessionWindows
from rheos.core.operators.window.totals_table import TotalsTable
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.key_groups import groups_of_columns
from rheos.ops.migration.buffers import Buffer, whole_sums
from rheos.ops.migration.running_encoder import null_key
from rheos.ops.migration.window_panes import panes_of_windows
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.state_layout import arrow_type

START, END = "window start", "window end"
"""Columns with the bounds of Spark's window, in ms since the epoch."""


@dataclass(frozen=True)
class WindowEncoder:
    """Encoder of the totals of each key and window, and of the limbs of exact sums if there are any."""

    port: PortType
    aggregates: Mapping[str, Agg]
    windows: FixedWindows | SessionWindows
    shape: StateShape
    buffers: Mapping[str, Buffer]
    max_parallelism: int
    has_sums: bool
    """Whether the state has limbs of exact sums."""

    @property
    def unique(self) -> dict[str, tuple[str, ...]]:
        index = (*key_names(self.port.keys), *self.windows.pane)
        sums = {TotalsTable.sums_name: (*index, COLUMN, BIN)} if self.has_sums else {}
        return {TotalsTable.name: index, **sums}

    def tables(self, rows: pa.RecordBatch) -> dict[str, pa.Table]:
        keys = KeyColumns(self.shape.key)
        columns = keys.batch(rows, keys.names).columns
        if any(column.null_count for column in columns):
            raise null_key(keys)
        index = {KEY + name: column for name, column in zip(keys.names, columns, strict=True)}
        index |= self._panes(rows)
        totals, limbs = self._totals(rows)
        made = {TotalsTable.name: self._grouped(pa.table(index | totals))}
        if self.has_sums:
            frame = pl.DataFrame(pa.table(index)).hstack(limbs)
            tables = Tables(key_names(self.port.keys), self.aggregates, self.port.schema, self.windows)
            of_limbs = arrow_table(tables.totals.merge_limbs([carried(frame)]))
            made[TotalsTable.sums_name] = self._grouped(of_limbs)
        return made

    def _grouped(self, table: pa.Table) -> pa.Table:
        """Return the table with the key group of each row as its first column."""
        names = KeyColumns(self.shape.key).names
        of_keys = [table.column(KEY + name).combine_chunks() for name in names]
        groups = groups_of_columns(of_keys, self.max_parallelism)
        return table.add_column(0, KEY_GROUP, pa.array(groups.astype(np.uint16)))

    def _panes(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        starts, ends = rows.column(START).to_numpy(), rows.column(END).to_numpy()
        panes = panes_of_windows(self.windows, starts, ends, self._row_counts(rows))
        return {name: pa.array(of) for name, of in zip(self.windows.pane, panes, strict=True)}

    def _row_counts(self, rows: pa.RecordBatch) -> Ints | None:
        """Return the number of rows in each window; None if no aggregate counts them."""
        for name, agg in self.aggregates.items():
            if agg.kind == "count" and agg.column is None:
                counts: Ints = self.buffers[name].counts(rows).to_numpy()
                return counts
        return None

    def _totals(self, rows: pa.RecordBatch) -> tuple[dict[str, pa.Array], list[pl.Series]]:
        """Return the columns of the totals, and the limbs of exact sums."""
        fields = {each.name: arrow_type(each.type.name) for each in self.shape.value.fields}
        made: dict[str, Any] = {"rows": pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)}
        limbs: dict[str, list[pl.Series]] = {}
        # Means come last: their counts are exact, and those of sums only show that there is a value.
        for name, agg in sorted(self.aggregates.items(), key=lambda each: each[1].kind == "mean"):
            buffer, column = self.buffers[name], agg.column
            counts = buffer.counts(rows)
            match agg.kind:
                case "count":
                    made["rows" if column is None else f"count.{column}"] = counts
                case "sum" | "mean":
                    assert column is not None
                    kind = self.port.schema.field(column).type
                    values = buffer.values(rows, "sum")
                    if self._is_exact(agg, kind):
                        made[f"exactly.{column}"] = counts
                        sums = pl.Series(values.cast(pa.float64()))
                        limbs.setdefault(column, limbs_of_values(column, sums))
                        continue
                    made[f"summed.{column}"] = counts
                    if f"sum.{column}" not in made:
                        whole = whole_sums(values, str(agg)) if agg.kind == "mean" else values
                        made[f"sum.{column}"] = pc.fill_null(pa.array(whole), 0).cast(pa.int64())
                case _:
                    assert column is not None
                    typed = buffer.values(rows, agg.kind).cast(self.port.schema.field(column).type)
                    made[f"{agg.kind}.{column}"] = typed
        totals = {name: pc.cast(made[name], kind) for name, kind in fields.items() if name in made}
        missing = [name for name in fields if name not in totals]
        assert not missing, missing
        return totals, [limb for of_column in limbs.values() for limb in of_column]

    def _is_exact(self, agg: Agg, kind: pa.DataType) -> bool:
        if pa.types.is_floating(kind):
            return True
        return agg.kind == "mean" and pa.types.is_integer(kind) and kind.bit_width == 64


def check_movable(aggregates: Mapping[str, Agg], schema: pa.Schema) -> None:
    """Raise ConfigurationError if an aggregate of windows cannot be moved."""
    for name, agg in aggregates.items():
        of = None if agg.column is None else schema.field(agg.column).type
        if agg.kind in ("sum", "mean") and of is not None and pa.types.is_decimal(of):
            raise ConfigurationError(
                f"{name}={agg} of decimals in windows cannot be moved",
                hint="let the query finish its open windows, and start the job without their state",
            )
