"""Rows of a changelog: their columns, which of them delete, and the error for a missing row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.graph.changelog import DELETE, OP, UPDATE_BEFORE
from rheos.core.operators.records import LocatedName
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.shown_rows import row_values
from rheos.core.shown import shown

_GOES = pa.array([UPDATE_BEFORE, DELETE])


def table_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table whose changelog has this schema."""
    return pa.schema([field for field in visible(schema) if field.name != OP])


def goes(batch: Batch) -> npt.NDArray[np.bool_]:
    """Return which rows are deletions or retractions."""
    found: npt.NDArray[np.bool_] = pc.is_in(batch.column(OP), _GOES).to_numpy(zero_copy_only=False)
    return found


def was_not_there(ctx: LocatedName, batch: Batch, at: int, keys: Sequence[str]) -> InputError:
    """Return the error for a retracted row that never arrived."""
    record = row_values(batch, at)
    return InputError(
        "a change retracts a row that does not exist",
        site=ctx.site,
        operator=ctx.name,
        record=shown(record),
        key=", ".join(repr(record[key]) for key in keys),
        hint="the changes of a row must arrive in order: declare the key of the table, "
        ".upserts(key=...).retractions()",
    )
