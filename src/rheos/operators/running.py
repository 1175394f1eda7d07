"""Running aggregates per key: every row leaves at once, with its key's new values.

Rows keep their order, and the input's columns pass through untouched; only the aggregates are made.
The state is numpy arrays by key slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from rheos.errors import CheckpointError
from rheos.graph.aggregates import Agg
from rheos.graph.nodes import MAIN, RunningSpec
from rheos.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.operators.running_cells import make_cell
from rheos.operators.segments import Segments
from rheos.protocol.elements import Batch
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.state.key_groups import NullKeyError, groups_of_columns
from rheos.state.key_index import KeyIndex, sort_order

STATE = "running"


def running_schema(schema: pa.Schema, aggregates: Mapping[str, Agg]) -> pa.Schema:
    """What leaves, of the visible columns that arrive: those that no aggregate replaces, then the
    aggregates. Raises SchemaError."""
    kept = [field for field in schema if field.name not in aggregates]
    made = [pa.field(name, agg.result_type(schema)) for name, agg in aggregates.items()]
    return pa.schema(kept + made)


class RunningOperator(Operator):
    """Adds count, sum, min, max and mean so far to each row of a keyed stream."""

    def __init__(self, ctx: OperatorContext, spec: RunningSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._keys = port.keys
        self._index = KeyIndex([port.schema.field(key).type for key in port.keys])
        self._aggregates = dict(spec.aggregates)
        self._cells = {
            name: make_cell(agg, None if agg.column is None else port.schema.field(agg.column).type)
            for name, agg in spec.aggregates.items()
        }
        output = ctx.outputs.get(MAIN)
        self._schema = None if output is None else output.schema

    def open(self, restored: Restored) -> None:
        for table in restored.get(STATE, ()):
            self._restore(table)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows == 0:
            return
        try:
            slots = self._index.lookup_or_add([batch.column(key) for key in self._keys])
        except NullKeyError as error:
            raise error.located_in(batch, self._keys) from None
        size = len(self._index)
        rows = Segments(slots, size)
        made: dict[str, pa.Array] = {}
        for name, cell in self._cells.items():
            cell.grow(size)
            column = self._aggregates[name].column
            made[name] = cell.run(rows, None if column is None else batch.column(column))
        if self._schema is not None:
            arrays = [made[name] if name in made else batch.column(name) for name in self._schema.names]
            yield Out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        size = len(self._index)
        keys = self._index.columns()
        frozen: dict[str, pa.Array] = {}
        for name, cell in self._cells.items():
            cell.grow(size)
            frozen |= {f"agg.{name}.{part}": values for part, values in cell.freeze(size).items()}
        max_parallelism = self.ctx.max_parallelism

        def write() -> pa.Table:
            groups = groups_of_columns(keys, max_parallelism)
            columns = {"key_group": pa.array(groups)}
            columns |= {f"key.{key}": column for key, column in zip(self._keys, keys, strict=True)}
            return pa.table(columns | frozen).take(sort_order(groups, keys))

        return Snapshot([SnapshotPart(STATE, StateKind.KEYED, write)])

    def _restore(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        missing = [key for key in self._keys if f"key.{key}" not in columns]
        if missing:
            raise CheckpointError(
                f"the restored state is not keyed by {missing[0]!r}",
                hint="give the operator another uid where its keys change: it then starts afresh",
            )
        slots = self._index.lookup_or_add([columns[f"key.{key}"] for key in self._keys]).astype(
            np.int64
        )
        for name, cell in self._cells.items():
            cell.grow(len(self._index))
            parts = {
                column.rpartition(".")[2]: values
                for column, values in columns.items()
                if column.rpartition(".")[0] == f"agg.{name}"
            }
            # An aggregate that the program did not have before starts from nothing.
            if not parts:
                continue
            try:
                cell.thaw(slots, parts)
            except (KeyError, TypeError, ValueError) as error:
                raise CheckpointError(
                    f"in the restored state {name!r} was another aggregate or of another type",
                    hint="give the changed aggregate another name, or the operator another uid",
                ) from error
