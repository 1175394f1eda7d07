"""The columns of a joined row: the side of each column, and the assembly of a batch from both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.operators.contract import OutputType
from rheos.core.operators.records import HiddenColumns, with_hidden
from rheos.core.protocol.elements import Batch

LEFT, RIGHT = 0, 1
"""Numbers of the ports, which are also those of the sides."""


@dataclass(frozen=True)
class JoinedColumn:
    """One column of the result."""

    name: str
    left: str | None
    """Column of the left side; None if the result column comes from the right side alone."""
    right: str | None
    """Column of the right side. A key with the same name on both sides has both columns, so it has a
    value if either row exists."""


@dataclass(frozen=True)
class JoinedColumns:
    """All columns of the result, in their order."""

    columns: tuple[JoinedColumn, ...]

    def of(self, side: int) -> list[str]:
        """Return the columns that the result needs from one side."""
        names = (column.left if side == LEFT else column.right for column in self.columns)
        return [name for name in names if name is not None]

    def batch(
        self,
        sides: Sequence[Batch | None],
        output: OutputType,
        stamps: npt.NDArray[np.int64],
        reached: npt.NDArray[np.int64] | None = None,
        more: Sequence[pa.Array] = (),
    ) -> Batch:
        """Return the joined rows with their hidden columns. If a side is None, its columns are null in
        all rows. `more` are columns that follow those of both sides."""
        shown = self._column_values(sides, output.type.schema, len(stamps))
        rows = pa.RecordBatch.from_arrays([*shown, *more], schema=output.type.schema)
        return with_hidden(rows, output.schema, HiddenColumns(stamps, reached=reached))

    def visible(self, sides: Sequence[Batch], schema: pa.Schema, rows: int) -> Batch:
        """Return the pairs of these rows, with the columns of `schema` alone."""
        return pa.RecordBatch.from_arrays(self._column_values(sides, schema, rows), schema=schema)

    def _column_values(
        self, sides: Sequence[Batch | None], schema: pa.Schema, rows: int
    ) -> list[pa.Array]:
        left, right = sides
        return [
            self._values(column, left, right, schema.field(column.name).type, rows)
            for column in self.columns
        ]

    @staticmethod
    def _values(
        column: JoinedColumn, left: Batch | None, right: Batch | None, kind: pa.DataType, rows: int
    ) -> pa.Array:
        if left is not None and column.left is not None:
            found = left.column(column.left)
            if found.null_count and right is not None and column.right is not None:
                # Both rows of a pair have the key; in an unmatched right row only that side has it.
                other = right.column(column.right)
                found = pc.coalesce(found.cast(kind), other.cast(kind))
        elif right is not None and column.right is not None:
            found = right.column(column.right)
        else:
            return pa.nulls(rows, kind)
        return found if found.type == kind else found.cast(kind)


def kept(how: str) -> tuple[bool, bool]:
    """Return, for the left and the right side, whether the result depends on which of its rows have no
    partner."""
    return how in ("left", "full", "semi", "anti"), how in ("right", "full")
