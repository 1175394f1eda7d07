"""The columns of a joined row: which side each comes from, and how rows of both make a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.operators.contract import OutputType
from rheos.core.operators.records import with_hidden
from rheos.core.protocol.elements import Batch

LEFT, RIGHT = 0, 1
"""The ports, and the sides."""


@dataclass(frozen=True)
class JoinedColumn:
    """One column of the result."""

    name: str
    left: str | None
    """The column of the left side that it has; None where it is of the right one alone."""
    right: str | None
    """A key that both sides call the same has both: it is there where either side is."""


@dataclass(frozen=True)
class JoinedColumns:
    """All columns of the result, in their order."""

    columns: tuple[JoinedColumn, ...]

    def of(self, side: int) -> list[str]:
        """The columns of one side that are wanted."""
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
        """Rows with their hidden columns. A side that is None has no partner for any of them; `more`
        are columns that stand behind those of both."""
        left, right = sides
        shown = [
            self._values(column, left, right, output.type.schema.field(column.name).type, len(stamps))
            for column in self.columns
        ]
        rows = pa.RecordBatch.from_arrays([*shown, *more], schema=output.type.schema)
        return with_hidden(rows, output.schema, stamps, None, reached)

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
    """Whether rows of the left, and of the right side, are there without a partner, too."""
    return how in ("left", "full"), how in ("right", "full")
