"""The functions of conditions in compiled form: a function answers for all rows of a batch at once.

Python calls a function only for rows that its step may take. If it does so seldom, all rows of a batch
would cost more. So the share of these rows in the last batch decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from rheos.core.compiler.eligibility import Automatic
from rheos.core.compiler.forms import RESULT
from rheos.core.graph.patterns import Function
from rheos.core.operators.automatic_rows import (
    AutomaticRows,
    automatic_rows,
    predicate_typing,
)
from rheos.core.operators.contract import OperatorContext
from rheos.core.protocol.elements import Batch

_SELDOM = 16
"""Number of rows for which compiled code costs at least as much as one call of Python."""


class _ConditionForm:
    """A function, and the number of its calls since the last batch began."""

    def __init__(self, rows: AutomaticRows) -> None:
        self.rows = rows
        self.calls = 0
        self.answers: npt.NDArray[Any] | None = None


class CompiledConditions:
    """The functions of one subtask's conditions, some of which can be compiled."""

    def __init__(self, ctx: OperatorContext, automatic: Mapping[Function, Automatic]) -> None:
        self._first = 0
        self._functions: dict[Function, _ConditionForm] = {}
        for function, how in automatic.items():
            typing = predicate_typing(ctx.ports[0].schema, function.record)
            rows = automatic_rows(ctx, function.call, how, typing)
            if rows is not None:
                self._functions[function] = _ConditionForm(rows)

    def begin(self, rows: Batch, first: int) -> None:
        """Start with these rows; `first` is the number of the first row."""
        self._first = first
        for compiled in self._functions.values():
            often = compiled.calls * _SELDOM >= rows.num_rows
            compiled.calls = 0
            results = compiled.rows.results(rows) if often else None
            if results is not None:
                compiled.answers = results[0].column(RESULT).to_numpy(zero_copy_only=False)

    def end(self) -> None:
        """Release the answers for the rows."""
        for compiled in self._functions.values():
            compiled.answers = None

    def answer(self, function: Function, event: int) -> bool | None:
        """Return whether the function accepts a row, given by its number. Return None if Python must
        call the function."""
        compiled = self._functions.get(function)
        if compiled is None:
            return None
        compiled.calls += 1
        if compiled.answers is None or event < self._first:
            return None
        return bool(compiled.answers[event - self._first])
