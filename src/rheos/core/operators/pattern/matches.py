"""Output rows of matches: the key and, for each step, the row or rows that it took. For a preferring
pattern, the output has all rows of the match in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.pattern.automaton import Automaton
from rheos.core.operators.pattern.live_matches import MatchNode
from rheos.core.operators.pattern.match_rows import in_order_types, rows_in_order
from rheos.core.operators.pattern.matched_rows import MatchedRows
from rheos.core.operators.pattern.matcher import MatchOutcome
from rheos.core.operators.records import HiddenColumns, with_hidden
from rheos.core.protocol.elements import Batch, visible

TIMED_OUT = "timed_out"
"""Side output of partial matches that exceeded their time limit."""


class MatchRows:
    """Converter of one operator's matches to rows. The columns of steps follow the key, in the
    pattern's order."""

    def __init__(self, ctx: OperatorContext, automaton: Automaton) -> None:
        self._ctx = ctx
        self._automaton = automaton
        port = ctx.ports[0]
        self._keys = list(port.keys)
        self._columns = visible(port.schema).names
        self._taken_columns = list(dict.fromkeys([*self._keys, *self._columns]))

    def out(self, given: Sequence[MatchOutcome], kept: MatchedRows) -> Iterator[Out]:
        """Emit the outcomes in the order of their times. `kept` has all rows that they took."""
        in_order = sorted(given, key=lambda each: each.at_ms)
        for tag, timed_out in ((MAIN, False), (TIMED_OUT, True)):
            if tag not in self._ctx.outputs:
                continue
            chosen = [each for each in in_order if each.timed_out is timed_out]
            for first in range(0, len(chosen), self._ctx.batch_rows):
                yield Out(self._batch(tag, chosen[first : first + self._ctx.batch_rows], kept), tag)

    def _batch(self, tag: str, given: Sequence[MatchOutcome], kept: MatchedRows) -> Batch:
        output = self._ctx.outputs[tag]
        columns = self._in_order if self._automaton.preferring else self._by_step
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(columns(given, kept, tag), output.type.schema, strict=True)
        ]
        matches = pa.RecordBatch.from_arrays(arrays, schema=output.type.schema)
        stamps = np.array([each.at_ms for each in given], np.int64)
        return with_hidden(matches, output.schema, HiddenColumns(stamps))

    def _in_order(self, given: Sequence[MatchOutcome], kept: MatchedRows, tag: str) -> list[pa.Array]:
        rows_of = [each.node.rows() for each in given]
        events = [event for rows in rows_of for event, _ in rows]
        taken = kept.take(np.array(events, np.int64), self._taken_columns)
        firsts = pa.array([0, *accumulate(map(len, rows_of))][:-1], pa.int64())
        keys = [taken.column(key).take(firsts) for key in self._keys]
        positions = [[position for _, position in rows] for rows in rows_of]
        rows = rows_in_order(self._automaton, positions, taken.select(self._columns))
        return [*keys, rows, pa.array([each.at_ms for each in given], pa.int64())]

    def _by_step(self, given: Sequence[MatchOutcome], kept: MatchedRows, tag: str) -> list[pa.Array]:
        output = self._ctx.outputs[tag]
        taken: list[list[list[int]]] = [[] for _ in self._automaton.names]
        firsts = []
        for each in given:
            of_match = self._taken_by_step(each.node)
            firsts.append(min(events[0] for events in of_match if events))
            for step, events in enumerate(of_match):
                taken[step].append(events)
        # One take for all rows: a take costs more than copying the few rows of a typical match.
        events = [event for of_step in taken for of_match in of_step for event in of_match]
        rows = kept.take(np.array([*firsts, *events], np.int64), self._taken_columns)
        keys = [rows.column(key).slice(0, len(firsts)) for key in self._keys]
        steps = []
        place = len(firsts)
        for step, (name, of_step) in enumerate(zip(self._automaton.names, taken, strict=True)):
            count = sum(map(len, of_step))
            kind = output.type.schema.field(name).type
            steps.append(self._step(step, of_step, rows.slice(place, count), kind))
            place += count
        return [*keys, *steps]

    def _taken_by_step(self, node: MatchNode) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self._automaton.names]
        for event, position in node.rows():
            found[self._automaton.positions[position].step].append(event)
        return found

    def _step(
        self, step: int, taken: Sequence[Sequence[int]], rows: Batch, kind: pa.DataType
    ) -> pa.Array:
        """Return the column of a step: per match, its row as a struct, null, or a list of structs.
        `rows` are the rows that all matches took."""
        inner = kind.value_type if self._automaton.repeats[step] else kind
        fields = [inner.field(name) for name in self._columns]
        columns = [rows.column(name) for name in self._columns]
        structs = pa.StructArray.from_arrays(
            [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, fields, strict=True)
            ],
            fields=fields,
        )
        if self._automaton.repeats[step]:
            offsets = [0, *accumulate(map(len, taken))]
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=kind)
        there = np.array([bool(of_match) for of_match in taken])
        places = np.cumsum(there) - 1
        return structs.take(pa.array(places, mask=~there))


def match_types(automaton: Automaton, schema: pa.Schema) -> list[pa.Field]:
    """Return the columns that follow the key in the output, for rows with the columns of `schema`."""
    if automaton.preferring:
        return in_order_types(schema)
    row = pa.struct([field.with_nullable(True) for field in schema])
    return [
        pa.field(name, pa.list_(row) if repeats else row)
        for name, repeats in zip(automaton.names, automaton.repeats, strict=True)
    ]
