"""The conditions of a pattern. Expressions are computed as bits for the rows of a whole batch;
functions are called row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import UserFunctionError
from rheos.core.graph.patterns import Function
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.pattern.automaton import EVERY, Automaton
from rheos.core.operators.pattern.compiled_conditions import CompiledConditions
from rheos.core.operators.pattern.live_matches import MatchNode
from rheos.core.operators.pattern.matched_rows import MatchedRows
from rheos.core.operators.records import UserRaised, user_error
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import row_values
from rheos.core.protocol.types import rows_of
from rheos.core.safe_strings import shown

_AT_ONCE = 32
"""Number of neighbouring rows that are converted to records together, if few of a batch are needed."""

Bits: TypeAlias = npt.NDArray[np.uint64]


class ConditionBits:
    """Computes the expressions of all conditions at once."""

    def __init__(self, ctx: OperatorContext, automaton: Automaton, columns: pa.Schema) -> None:
        self._ctx = ctx
        asked = [
            (bit, condition)
            for bit, condition in zip(automaton.bits, automaton.conditions, strict=True)
            if condition.exprs
        ]
        self._bits = [bit for bit, _ in asked]
        exprs = [
            reduce(and_, condition.exprs).alias(str(number))
            for number, (_, condition) in enumerate(asked)
        ]
        self._expressions = RowExpressions(exprs, columns)

    def of(self, batch: Batch) -> Bits:
        """Return for each row the bits of the conditions whose expressions hold, and EVERY."""
        bits: Bits = np.full(batch.num_rows, EVERY, np.uint64)
        if not batch.num_rows:
            return bits
        try:
            computed = self._expressions.values(batch)
        except EVALUATION_FAILURES as error:
            raise self._expressions.failure(
                batch, error, self._ctx, "a condition of the pattern", lambda series: None
            ) from None
        for bit, series in zip(self._bits, computed, strict=True):
            # Filling nulls is a query of its own, which costs more than the condition.
            holds = (series.fill_null(False) if series.null_count() else series).to_numpy()
            bits[holds] |= np.uint64(bit)
        return bits


class EarlierRows(dict[str, list[Any]]):
    """The rows that a match has taken so far, by step."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, []) for name in names)
        self.in_order: list[tuple[str, Any]] = []
        """Rows of all steps, each with its step."""


class ConditionFunctions:
    """Calls the functions of conditions, and converts rows to records. The matcher calls `holds`."""

    def __init__(
        self,
        ctx: OperatorContext,
        automaton: Automaton,
        kept: MatchedRows,
        compiled: CompiledConditions,
    ) -> None:
        self._ctx = ctx
        self._compiled = compiled
        self._automaton = automaton
        self._functions = [condition.functions for condition in automaton.conditions]
        self._kept = kept
        self._rows: Batch | None = None
        self._first = 0
        self._at_once = _AT_ONCE
        self._converted = 0
        """Number of rows of the batch that were converted to records."""
        self._records: dict[type | None, dict[int, Any]] = {}
        """Records built so far, by class and then by row number."""

    def begin(self, rows: Batch, first: int) -> None:
        """Start with these rows; `first` is the number of the first row."""
        # If functions needed most of the last batch, all rows of this one are converted together.
        self._at_once = rows.num_rows if 2 * self._converted >= rows.num_rows else _AT_ONCE
        self._converted = 0
        self._rows, self._first = rows, first
        self._compiled.begin(rows, first)

    def end(self) -> None:
        """Release the batch: `kept` has all rows that matches have taken."""
        self._rows = None
        self._records = {}
        self._compiled.end()

    def holds(self, condition: int, event: int, node: MatchNode | None) -> bool:
        for function in self._functions[condition]:
            answer = self._compiled.answer(function, event)
            if answer is None:
                answer = self._call(function, event, node)
            if not answer:
                return False
        return True

    def _call(self, function: Function, event: int, node: MatchNode | None) -> bool:
        known = self._records.get(function.record)
        if known is None or event not in known:
            known = self._with_records([event], function.record)
        record = known[event]
        try:
            if function.sees_earlier:
                answer = function.call(record, self._rows_before(node, function.record))
            else:
                answer = function.call(record)
        except UserRaised as error:
            raise user_error(self._ctx, error, record=record, key=self._key(event)) from error
        if answer is True or answer is False or isinstance(answer, np.bool_):
            return bool(answer)
        raise UserFunctionError(
            f"a condition of the pattern returned {shown(answer)}, but must return True or False",
            site=function.site,
            operator=self._ctx.name,
            record=shown(record),
            key=shown(self._key(event)),
            hint="return a bool, as in `return row.price > 10`",
        )

    def _row(self, event: int) -> Batch:
        if self._rows is not None and event >= self._first:
            return self._rows.slice(event - self._first, 1)
        return self._kept.take(np.array([event], np.int64), self._kept.schema.names)

    def _with_records(self, events: Sequence[int], record: type | None) -> dict[int, Any]:
        """Return records by row number, with those of these rows. Rows of the batch are converted with
        their neighbours: a single record costs as much as about ten together."""
        known = self._records.setdefault(record, {})
        missing = [event for event in events if event not in known]
        kept = [event for event in missing if self._rows is None or event < self._first]
        if kept:
            rows = self._kept.take(np.array(kept, np.int64), self._kept.schema.names)
            known.update(zip(kept, rows_of(rows, record), strict=True))
        for event in missing:
            if event not in known:
                assert self._rows is not None
                begin = (event - self._first) // self._at_once * self._at_once
                made = rows_of(self._rows.slice(begin, self._at_once), record)
                self._converted += len(made)
                known.update(enumerate(made, self._first + begin))
        return known

    def _key(self, event: int) -> Any:
        row = row_values(self._row(event).select(self._ctx.ports[0].keys), 0)
        values = tuple(row.values())
        return values[0] if len(values) == 1 else values

    def _rows_before(self, node: MatchNode | None, record: type | None) -> EarlierRows:
        automaton = self._automaton
        found = EarlierRows(automaton.names)
        if node is None:
            return found
        taken = node.rows()
        known = self._with_records([event for event, _ in taken], record)
        for event, position in taken:
            step = automaton.names[automaton.positions[position].step]
            found[step].append(known[event])
            found.in_order.append((step, known[event]))
        return found
