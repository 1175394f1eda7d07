"""Rows of a changelog: their columns, which of them delete, and the error for a missing row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.graph.changelog import DELETE, OP, UPDATE_BEFORE
from rheos.core.operators.records import LocatedName
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.shown_rows import row_values
from rheos.core.safe_strings import shown
from rheos.core.state.key_limit import KeyLimit
from rheos.core.state.keys import Key
from rheos.core.state.stores import MapStore


def table_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table whose changelog has this schema."""
    return pa.schema([field for field in visible(schema) if field.name != OP])


def goes(batch: Batch) -> npt.NDArray[np.bool_]:
    """Return which rows delete or retract a row."""
    found: npt.NDArray[np.bool_]
    found = pc.is_in(batch.column(OP), pa.array([UPDATE_BEFORE, DELETE])).to_numpy(zero_copy_only=False)
    return found


def store_row(state: MapStore, limit: KeyLimit, key: Key, item: str, row: Any, count: int) -> None:
    """Store a row of a key, which then has `count` rows. Raise InputError if these are too many."""
    if count > limit.due:
        limit.see(count, key)
    known = state.values.get(key)
    if known is None:
        known = state.enter(key)
    known[item] = row
    state.changed[key].add(item)


def missing_row_error(ctx: LocatedName, batch: Batch, at: int, keys: Sequence[str]) -> InputError:
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
