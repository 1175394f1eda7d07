"""The rows of calls and their answers, as `call_once` stores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.formats.arrow_bytes import table_of
from rheos.core.operators.fitting import fitted
from rheos.core.protocol.elements import Batch

StoredRow: TypeAlias = tuple[Batch, int]
"""A row: a batch without hidden columns, and the position of the row in it."""


def gathered_rows(rows: Sequence[StoredRow], schema: pa.Schema) -> Batch:
    """Return the rows as one batch."""
    pieces: list[Batch] = []
    begin = 0
    while begin < len(rows):
        batch, places = rows[begin][0], [rows[begin][1]]
        begin += 1
        while begin < len(rows) and rows[begin][0] is batch:
            places.append(rows[begin][1])
            begin += 1
        pieces.append(batch.take(pa.array(places, pa.int64())))
    return pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema)


def decoded_answer(answer: bytes, schema: pa.Schema) -> Batch:
    """Return the row that `table_bytes` stored, with the columns of `schema`. Raise CheckpointError
    if a changed program declares columns that the stored ones do not fit."""
    table = table_of(answer)
    return fitted(table, schema, "remembered answers").combine_chunks().to_batches()[0]
