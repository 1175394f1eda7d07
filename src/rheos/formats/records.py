"""Rows from records that a library decodes one by one, and records from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.formats.contract import BadPayload, Decoded
from rheos.formats.sifting import RowsError, sift
from rheos.protocol.columns import columns_to_python
from rheos.protocol.elements import Batch


def decoded_records(
    payloads: pa.Array,
    schema: pa.Schema,
    read: Callable[[bytes], Any],
    columns: Callable[[Sequence[Any]], Sequence[pa.Array]],
) -> Decoded:
    """`read` makes a record of one payload, `columns` the columns of some records, nulls not yet
    checked. Both raise RowsError."""
    records: list[Any] = []
    kept: list[int] = []
    bad: list[BadPayload] = []
    for place, payload in enumerate(payloads.to_pylist()):
        try:
            records.append(read(payload))
            kept.append(place)
        except RowsError as error:
            bad.append(BadPayload(place, payload, str(error)))
    nullable = pa.schema([field.with_nullable(True) for field in schema])

    def decode(i: int, j: int) -> Batch:
        return pa.RecordBatch.from_arrays(list(columns(records[i:j])), schema=nullable)

    rows, good, unfit = sift(len(records), decode, schema)
    bad += [BadPayload(kept[i], payloads[kept[i]].as_py(), what) for i, what in unfit]
    if not bad:
        return Decoded(rows, None, [])
    origin = np.array(kept, np.int64)
    return Decoded(
        rows, origin if good is None else origin[good], sorted(bad, key=lambda each: each.at)
    )


def records_of(rows: Batch) -> Iterator[dict[str, Any]]:
    """Each row by the names of its columns."""
    names = rows.schema.names
    columns = [columns_to_python(column) for column in rows.columns]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
