"""Evaluation of expressions over the rows of batches, for all operators that do so.

The result for a row does not depend on the other rows of its batch. Polars treats a column of a single
value as a constant, and computes differently with constants: `x / 3` becomes `x * (1 / 3)`, except if
`x` is the single value. So Polars never receives a single row: a batch of one row is passed twice. If
expressions compute with list elements, every batch is passed twice, because a list may have a single
element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from rheos.core.errors import InputError, RheosError, UserFunctionError
from rheos.core.graph.exact_decimals import exact
from rheos.core.graph.expression_trees import FAILURES, computes, computes_on_elements
from rheos.core.graph.types import columns_read, empty_frame
from rheos.core.operators.records import LocatedName
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import polars_frame
from rheos.core.protocol.shown_rows import shown_record

EVALUATION_FAILURES = (*FAILURES, pa.ArrowException)


_REFUSED = "refused: "


def refusing(where: pl.Expr, text: str, kind: pl.DataType) -> pl.Expr:
    """Return an expression of type `kind` that is null, or fails the job. It fails if `where` is true
    for a row; `text` is the error message and, after "; ", the hint."""
    # A strict cast is how a Polars expression can fail on chosen rows.
    return pl.when(where).then(pl.lit(_REFUSED + text)).cast(pl.Int64).cast(kind)


def refusal(text: str, hint: str) -> pl.exceptions.ComputeError:
    """Return the error that a function of rows raises to reject them, with a message and a hint."""
    return pl.exceptions.ComputeError(f"{_REFUSED}{text}; {hint}")


def refused(error: BaseException) -> tuple[str, str] | None:
    """Return message and hint of an error from `refusing` or `refusal`; None for other errors."""
    found = re.search(rf'{_REFUSED}(.+); (.+?)("\]|\n|$)', str(error))
    return None if found is None else (found[1], found[2])


class RowExpressions:
    """Row-separable expressions over batches. Polars receives only the columns that they read."""

    def __init__(self, exprs: Sequence[pl.Expr], columns: pa.Schema) -> None:
        self._exprs = tuple(exprs)
        read = columns_read(self._exprs, columns.names)
        self._reads = [name for name in columns.names if name in read]
        frame = empty_frame(columns).lazy()
        self._evaluated = [exact([expr], frame) for expr in self._exprs]
        """Per expression, the expressions that Polars evaluates: one with exact decimals, or one for
        each selected column."""
        computing = [expr for expr in self._exprs if computes(expr)]
        # Batches with fewer rows are passed twice.
        self._enough_rows: float = 2 if computing else 0
        if any(computes_on_elements(expr, frame) for expr in computing):
            self._enough_rows = math.inf

    def values(self, batch: Batch) -> list[pl.Series]:
        """Return the values of each expression, one for each row."""
        return self._values(self._evaluated, batch)

    def _values(self, given: Sequence[Sequence[pl.Expr]], batch: Batch) -> list[pl.Series]:
        exprs = [expr for several in given for expr in several]
        if not exprs:
            return []
        rows, frame = batch.num_rows, pl.DataFrame()
        if self._reads:
            read = batch.select(self._reads)
            frame = polars_frame(read if rows >= self._enough_rows else pa.concat_batches([read, read]))
        computed = frame.select(exprs).get_columns()
        # A constant has one row unless a longer column is evaluated with it.
        return [
            series
            if len(series) == rows
            else series.head(rows)
            if len(series) > rows
            else series.new_from_index(0, rows)
            for series in computed
        ]

    def failure(
        self,
        batch: Batch,
        error: BaseException,
        ctx: LocatedName,
        what: str,
        uses: Callable[[pl.Series], object],
    ) -> RheosError:
        """Return the error with the first record that fails, and the expression that fails on it.
        `uses` is what the caller does with the values; it may fail, too."""

        def fails(exprs: Sequence[Sequence[pl.Expr]], rows: Batch) -> bool:
            try:
                for series in self._values(exprs, rows):
                    uses(series)
            except EVALUATION_FAILURES:
                return True
            return False

        fine, failing = 0, batch.num_rows
        while failing - fine > 1:
            middle = (fine + failing) // 2
            if fails(self._evaluated, batch.slice(fine, middle - fine)):
                failing = middle
            else:
                fine = middle
        record = batch.slice(fine, 1)
        known = refused(error)
        if known is not None:
            return InputError(
                known[0],
                site=ctx.site,
                operator=ctx.name,
                record=shown_record(record, 0),
                hint=known[1],
            )
        guilty = [
            expr
            for expr, evaluated in zip(self._exprs, self._evaluated, strict=True)
            if fails([evaluated], record)
        ]
        spelled = ", ".join(str(expr.meta.undo_aliases()) for expr in guilty[:1] or self._exprs)
        first_line = str(error).strip().partition("\n")[0]
        return UserFunctionError(
            f"{what} failed at {spelled}: {first_line}",
            site=ctx.site,
            operator=ctx.name,
            record=shown_record(record, 0),
            hint="drop or repair such records upstream, or use an expression that returns null "
            "instead, such as cast(..., strict=False)",
        )
