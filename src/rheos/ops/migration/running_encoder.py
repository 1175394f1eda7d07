"""Rows of Spark's state as the columnar state of running aggregates and of `dedup`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.contract import Agg
from rheos.core.aggregates.extremes import ExtremeCell
from rheos.core.aggregates.units import Units
from rheos.core.errors import InputError
from rheos.core.operators.running import STATE
from rheos.core.operators.running_state import AGG, KeptAggregates, RunningState
from rheos.core.operators.window.frames import KEY
from rheos.core.protocol.hashing import NullKeyError
from rheos.core.protocol.shapes import StateShape
from rheos.ops.migration.buffers import Buffer, Parts, whole_sums
from rheos.runtimes.state_tables.key_columns import KeyColumns


@dataclass(frozen=True)
class RunningEncoder:
    """Encoder of running aggregates. It fills the cells of the operator's own state."""

    shape: StateShape
    kept: KeptAggregates
    buffers: Mapping[str, Buffer]
    max_parallelism: int

    @property
    def unique(self) -> dict[str, tuple[str, ...]]:
        return {STATE: tuple(KEY + key for key in self.kept.keys)}

    def tables(self, rows: pa.RecordBatch) -> dict[str, pa.Table]:
        parts: Parts = {}
        for name, agg in self.kept.aggregates.items():
            made = cell_parts(agg, self.kept.schema, self.buffers[name], rows)
            parts |= {f"{AGG}{name}.{part}": values for part, values in made.items()}
        keys = KeyColumns(self.shape.key)
        return {STATE: _filled(self.kept, keys, rows, parts, self.max_parallelism)}


@dataclass(frozen=True)
class DedupEncoder:
    """Encoder of the times until which rows of a key are duplicates."""

    shape: StateShape
    kept: KeptAggregates
    part: str
    """Column of the time in the operator's state."""
    until_ms: str | None
    """Column of the time in ms since the epoch; None: rows of a known key are always duplicates."""
    max_parallelism: int

    @property
    def unique(self) -> dict[str, tuple[str, ...]]:
        return {STATE: tuple(KEY + key for key in self.kept.keys)}

    def tables(self, rows: pa.RecordBatch) -> dict[str, pa.Table]:
        always = pa.scalar(np.iinfo(np.int64).max, pa.int64())
        until = (
            pa.repeat(always, rows.num_rows) if self.until_ms is None else rows.column(self.until_ms)
        )
        keys = KeyColumns(self.shape.key)
        parts = {self.part: until}
        return {STATE: _filled(self.kept, keys, rows, parts, self.max_parallelism)}


def _filled(
    kept: KeptAggregates, keys: KeyColumns, rows: pa.RecordBatch, parts: Parts, max_parallelism: int
) -> pa.Table:
    """Return the table of a state whose cells have these parts, one row for each key."""
    state = RunningState(kept)
    try:
        slots = state.slots_of(keys.batch(rows, keys.names).columns)
    except NullKeyError:
        raise null_key(keys) from None
    if len(state) != rows.num_rows:
        raise InputError(
            "the checkpoint has the same key twice",
            hint="declare the key columns with the types that they have in the query",
        )
    state.put(slots.astype(np.int64), parts)
    tables = state.freeze().tables(max_parallelism)
    return tables if isinstance(tables, pa.Table) else pa.concat_tables(tables)


def null_key(keys: KeyColumns) -> InputError:
    return InputError(
        f"the checkpoint has a group whose key ({', '.join(keys.names)}) is null",
        hint="Spark groups null keys, and Rheos refuses them: let the query run once with a filter "
        "and a state that lacks them, or replace nulls in both programs",
    )


def cell_parts(agg: Agg, schema: pa.Schema, buffer: Buffer, rows: pa.RecordBatch) -> Parts:
    """Return the parts of an aggregate's cells for Spark's buffers."""
    counts = buffer.counts(rows)
    seen = pc.greater(counts, 0)
    form = agg.running(schema)
    assert form is not None
    match agg.kind:
        case "count":
            return {"count": counts}
        case "sum" if pa.types.is_decimal(form.stored):
            return {**_units(buffer.values(rows, "sum"), form.stored), "seen": seen}
        case "sum":
            return {"sum": buffer.values(rows, "sum").fill_null(0).cast(form.stored), "seen": seen}
        case "mean" if pa.types.is_decimal(form.stored):
            return {**_units(buffer.values(rows, "sum"), form.stored), "count": counts}
        case "mean" if pa.types.is_floating(form.stored):
            sums = buffer.values(rows, "sum").fill_null(0.0).cast(pa.float64())
            return {"sum": sums, "seen": seen, "count": counts}
        case "mean":
            whole = pa.array(whole_sums(buffer.values(rows, "sum"), str(agg)))
            return {"sum": whole, "beyond": _zeros(rows), "count": counts}
        case _:
            return _extreme(agg, schema, buffer.values(rows, agg.kind), seen)


def _units(sums: pa.Array, kind: pa.DataType) -> Parts:
    units = Units.of(sums.cast(kind).fill_null(0))
    low, beyond = units.words()
    return {"sum": pa.array(low), "beyond": pa.array(beyond)}


def _zeros(rows: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)


def _extreme(agg: Agg, schema: pa.Schema, values: pa.Array, seen: pa.Array) -> Parts:
    assert agg.column is not None
    typed = values.cast(schema.field(agg.column).type)
    form = agg.running(schema)
    assert form is not None
    cell = form.cell()
    if not isinstance(cell, ExtremeCell):
        return {"best": typed}
    best = typed.view(cell.storage)
    return {"best": pc.fill_null(best, pa.scalar(0, best.type)), "seen": seen}
