"""Matches of a preferring pattern as columns: their rows in order, each with the step that took it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa

from rheos.core.operators.pattern.automaton import Automaton
from rheos.core.protocol.elements import Batch

ROWS = "rows of the match"
"""Name of the column with a list of structs, which have the fields STEP, SHOWN and ROW."""
STEP, SHOWN, ROW = "step", "shown", "row"
"""Name of the step; whether the output contains rows of the step (`PatternStep.shown`); the columns of
the row."""
CERTAIN_MS = "time of the match"
"""Name of the column with the event time at which the match became certain."""


def in_order_types(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns that follow the key in the output, for rows with the columns of `schema`."""
    row = pa.struct([field.with_nullable(True) for field in schema])
    taken = pa.struct([(STEP, pa.string()), (SHOWN, pa.bool_()), (ROW, row)])
    return [pa.field(ROWS, pa.list_(taken)), pa.field(CERTAIN_MS, pa.int64())]


def rows_in_order(automaton: Automaton, positions: Sequence[Sequence[int]], rows: Batch) -> pa.Array:
    """Return the column ROWS. `positions` lists the positions that took the rows of each match; `rows`
    has the rows of all matches."""
    flat = [automaton.positions[each] for of_match in positions for each in of_match]
    names = pa.array(automaton.names, pa.string())
    steps = names.take(pa.array([position.step for position in flat], pa.int32()))
    shown = pa.array([position.shown for position in flat], pa.bool_())
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))
    taken = pa.StructArray.from_arrays([steps, shown, structs], names=[STEP, SHOWN, ROW])
    offsets = pa.array([0, *accumulate(map(len, positions))], pa.int32())
    return pa.ListArray.from_arrays(offsets, taken)
