"""Rows from records that a library decodes one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.formats.contract import BadPayload, Decoded
from rheos.formats.sifting import sift
from rheos.protocol.elements import Batch


def decoded_from(
    records: Sequence[Any],
    kept: Sequence[int],
    bad: Sequence[BadPayload],
    payloads: pa.Array,
    schema: pa.Schema,
    columns: Callable[[Sequence[Any]], Sequence[pa.Array]],
) -> Decoded:
    """Rows of the records, which are of the payloads at `kept`; the others are `bad`.

    `columns` makes the columns of some records, nulls not yet checked, or raises RowsError.
    """
    nullable = pa.schema([field.with_nullable(True) for field in schema])

    def decode(i: int, j: int) -> Batch:
        return pa.RecordBatch.from_arrays(list(columns(records[i:j])), schema=nullable)

    rows, good, unfit = sift(len(records), decode, schema)
    bad = [*bad, *(BadPayload(kept[i], payloads[kept[i]].as_py(), what) for i, what in unfit)]
    if not bad:
        return Decoded(rows, None, [])
    origin = np.array(kept, np.int64)
    return Decoded(
        rows, origin if good is None else origin[good], sorted(bad, key=lambda each: each.at)
    )
