"""The condition of a join on pairs of rows of one key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.graph.expression_trees import spell_expression
from rheos.core.operators.joins.joined_columns import JoinedColumns
from rheos.core.operators.records import LocatedName
from rheos.core.operators.row_expressions import EVALUATION_FAILURES, RowExpressions
from rheos.core.protocol.elements import Batch
from rheos.core.state.marked_rows import Mask


@dataclass(frozen=True, eq=False)
class PairCondition:
    """An expression over pairs of rows. Two rows are partners if it is true for them."""

    expr: pl.Expr
    columns: JoinedColumns
    """Columns that the expression reads."""
    schema: pa.Schema
    """Types of these columns."""

    def __str__(self) -> str:
        return spell_expression(self.expr)

    def digest(self) -> str:
        """Return a short hash of the expression. It is part of the names of states that depend on the
        condition."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:8]

    def evaluation(self, ctx: LocatedName) -> PairEvaluation:
        return PairEvaluation(self, ctx)


class PairEvaluation:
    """Evaluation of a condition in a subtask."""

    def __init__(self, condition: PairCondition, ctx: LocatedName) -> None:
        self.columns = condition.columns
        self._schema = condition.schema
        self._holds = RowExpressions([condition.expr], condition.schema)
        self._ctx = ctx

    def holds(self, sides: Sequence[Batch], rows: int) -> Mask:
        """Return a mask of the pairs for which the condition is true. `rows` is the number of pairs.
        Raise UserFunctionError, with the first pair, if the expression fails."""
        pairs = self.columns.visible(sides, self._schema, rows)
        try:
            [found] = self._holds.values(pairs)
        except EVALUATION_FAILURES as error:
            raise self._holds.failure(pairs, error, self._ctx, "join()", len) from None
        mask: Mask = found.fill_null(False).to_numpy().astype(np.bool_)
        return mask
