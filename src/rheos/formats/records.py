"""Conversion between rows and records, for libraries that decode and encode one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.formats.contract import MAX_VALUES, BadPayload, Decoded
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.types import read_column
from rheos.formats.bad_rows import RowsError, sift


def decoded_records(
    payloads: pa.Array,
    schema: pa.Schema,
    read: Callable[[bytes], tuple[Any, int]],
    columns: Callable[[Sequence[Any]], Sequence[pa.Array]],
) -> Decoded:
    """Decode payloads one by one.

    Records need many times the memory of their payloads. So a group of them is converted to columns as
    soon as it contains `MAX_VALUES` values.

    Args:
        read: returns the record of a payload, and a bound of the number of values in it.
        columns: converts some records to columns, without a check for nulls.

    `read` and `columns` raise RowsError.
    """
    groups: list[tuple[Batch, npt.NDArray[np.int64]]] = []
    records: list[Any] = []
    kept: list[int] = []
    bad: list[BadPayload] = []
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    held = 0

    def decode(i: int, j: int) -> Batch:
        return pa.RecordBatch.from_arrays(list(columns(records[i:j])), schema=nullable)

    def end_group() -> None:
        rows, good, unfit = sift(len(records), decode, schema)
        bad.extend(BadPayload(kept[i], payloads[kept[i]].as_py(), what) for i, what in unfit)
        places = np.array(kept, np.int64)
        groups.append((rows, places if good is None else places[good]))
        records.clear()
        kept.clear()

    for place, payload in enumerate(payloads.to_pylist()):
        try:
            record, values = read(payload)
        except RowsError as error:
            bad.append(BadPayload(place, payload, str(error)))
            continue
        if held + values > MAX_VALUES and records:
            end_group()
            held = 0
        records.append(record)
        kept.append(place)
        held += values
    end_group()
    rows = groups[0][0] if len(groups) == 1 else pa.concat_batches([batch for batch, _ in groups])
    if not bad:
        return Decoded(rows, None, [])
    origin = np.concatenate([places for _, places in groups])
    return Decoded(rows, origin, sorted(bad, key=lambda each: each.at))


def records_of(rows: Batch) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict of its columns."""
    names = rows.schema.names
    columns = [read_column(rows, name) for name in names]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
