"""Rows from records that were decoded one by one, for formats whose library gives no columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.formats.contract import BadPayload, Decoded
from rheos.formats.sifting import RowsError, sift
from rheos.protocol.columns import TypeMismatch, column_of
from rheos.protocol.elements import Batch


def rows_from(
    records: Sequence[Mapping[str, Any]],
    kept: Sequence[int],
    bad: Sequence[BadPayload],
    payloads: pa.Array,
    schema: pa.Schema,
) -> Decoded:
    """Records by the names of columns, of the payloads at `kept`; the others are bad. Fields that the
    schema does not name are ignored, and those that are missing are null."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])

    def decode(i: int, j: int) -> Batch:
        try:
            columns = [
                column_of([record.get(field.name) for record in records[i:j]], field)
                for field in nullable
            ]
        except TypeMismatch as error:
            raise RowsError(str(error)) from None
        return pa.RecordBatch.from_arrays(columns, schema=nullable)

    rows, good, unfit = sift(len(records), decode, schema)
    bad = [*bad, *(BadPayload(kept[i], payloads[kept[i]].as_py(), what) for i, what in unfit)]
    origin = np.array(kept, np.int64) if good is None else np.array(kept, np.int64)[good]
    return Decoded(rows, None if not bad else origin, sorted(bad, key=lambda each: each.at))
