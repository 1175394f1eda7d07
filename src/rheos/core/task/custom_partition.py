"""Divides the batches of a `partition_by`: the program computes the subtask of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import UserFunctionError
from rheos.core.graph.exact_decimals import ExactExpression
from rheos.core.graph.expression_trees import FAILURES
from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.operators.records import UserRaised, user_error
from rheos.core.protocol.elements import Batch, strip_hidden
from rheos.core.protocol.polars_frames import arrow_column, polars_frame
from rheos.core.protocol.shown_rows import row_values, shown_record
from rheos.core.protocol.types import read_column
from rheos.core.safe_strings import shown
from rheos.core.task.partition import cut


class CustomPartitioner:
    """The partition function of one edge in a sending subtask, over `width` receiving subtasks."""

    def __init__(self, by: PartitionBy, width: int) -> None:
        self.width = width
        self.site = by.site
        self.name = f"partition_by {by.name}"
        self._by = by
        expr = by.expression(width)
        self._expr = None if expr is None else ExactExpression(expr)

    def split(self, batch: Batch) -> list[Batch | None]:
        """Return the rows for each subtask, in order; None for a subtask without rows. Raise
        UserFunctionError, with the record, if the program computes an invalid subtask."""
        if not batch.num_rows:
            return [None] * self.width
        rows = strip_hidden(batch)
        targets = self._function(rows) if self._expr is None else self._computed(rows, self._expr)
        return cut(batch, self._checked(rows, targets), self.width)

    def _computed(self, rows: Batch, expr: ExactExpression) -> pa.Array:
        frame = polars_frame(rows)
        try:
            computed = expr.values(frame)
        except FAILURES as error:
            raise UserFunctionError(
                f"{self.name} failed: {str(error).strip().partition(chr(10))[0]}",
                site=self.site,
                operator=self.name,
                record=f"one of {rows.num_rows}, the first of which is {shown_record(rows, 0)}",
            ) from None
        if len(computed) != rows.num_rows:
            computed = computed.new_from_index(0, rows.num_rows)
        return arrow_column(computed)

    def _function(self, rows: Batch) -> pa.Array:
        to, width = self._by.to, self.width
        assert not isinstance(to, pl.Expr)
        columns = [read_column(rows, name) for name in self._by.on]
        targets: list[Any] = []
        try:
            if len(columns) == 1:
                targets.extend(to(value, width) for value in columns[0])
            else:
                targets.extend(to(values, width) for values in zip(*columns, strict=True))
        except UserRaised as error:
            raise user_error(self, error, record=row_values(rows, len(targets))) from error
        for at, target in enumerate(targets):
            if type(target) is not int:
                raise self._refused(rows, at, target)
        try:
            return pa.array(targets, pa.int64())
        except (pa.ArrowInvalid, OverflowError):
            at = next(at for at, target in enumerate(targets) if not 0 <= target < self.width)
            raise self._refused(rows, at, targets[at]) from None

    def _checked(self, rows: Batch, targets: pa.Array) -> npt.NDArray[np.uint16]:
        found = pc.and_(pc.greater_equal(targets, 0), pc.less(targets, self.width)).fill_null(False)
        at = pc.index(found, False).as_py()
        if at >= 0:
            raise self._refused(rows, at, targets[at].as_py())
        owners: npt.NDArray[np.uint16] = targets.cast(pa.uint16()).to_numpy()
        return owners

    def _refused(self, rows: Batch, at: int, target: Any) -> UserFunctionError:
        return UserFunctionError(
            f"{self.name} returned {shown(target)}, but the subtasks are 0 to {self.width - 1}",
            site=self.site,
            operator=self.name,
            record=shown_record(rows, at),
            hint="return an integer below the number of subtasks, which the function receives, as "
            'in partition_by(lambda subtasks: col("shard") % subtasks)',
        )
