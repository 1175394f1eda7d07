"""Decodes many rows at once, and finds the bad ones if that fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.elements import Batch


class RowsError(Exception):
    """Error for rows that were decoded together, if some of them do not fit the schema."""


def sift(
    rows: int,
    decode: Callable[[int, int], Batch],
    schema: pa.Schema,
    *,
    all_bad: bool = True,
    suspects: Callable[[], npt.NDArray[np.int64]] | None = None,
) -> tuple[Batch, npt.NDArray[np.int64] | None, list[tuple[int, str]]]:
    """Decode rows together; if that fails, find the bad rows by bisection.

    `decode(i, j)` returns rows i to j by `schema`, nulls not yet checked, or raises RowsError; the
    result for one row does not depend on its neighbours. If rows fail together, `suspects` is called
    once for the rows that look bad, in ascending order. These are decoded alone, and the rows between
    two of them together. `suspects` need not be exact: only the result of `decode` counts.

    Returns the good rows, their indices (None for all), and the bad ones with their errors; without
    `all_bad` only the first bad row is certain.
    """
    pieces: list[Batch] = []
    kept: list[npt.NDArray[np.int64]] = []
    bad: list[tuple[int, str]] = []
    open_ranges = [(0, rows)] if rows else []
    while open_ranges:
        i, j = open_ranges.pop()
        try:
            pieces.append(decode(i, j))
            kept.append(np.arange(i, j))
        except RowsError as error:
            if j - i == 1:
                bad.append((i, str(error)))
                if not all_bad:
                    break
            elif suspects is not None:
                open_ranges += _split_ranges(suspects(), i, j)
                suspects = None
            else:
                middle = (i + j) // 2
                open_ranges += [(middle, j), (i, middle)]
    if not pieces:
        return (
            pa.RecordBatch.from_pylist([], schema=schema),
            np.empty(0, np.int64) if rows else None,
            bad,
        )
    batch = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    good = np.concatenate(kept)
    missing = _missing(batch, schema)
    if missing:
        bad = sorted(bad + [(int(good[row]), what) for row, what in missing.items()])
        valid = np.ones(batch.num_rows, np.bool_)
        valid[list(missing)] = False
        good = good[valid]
        batch = batch.filter(pa.array(valid))
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return batch, None if len(good) == rows else good, bad


def _split_ranges(alone: npt.NDArray[np.int64], i: int, j: int) -> list[tuple[int, int]]:
    """Return the ranges into which rows i to j are split, the last first: each row in `alone` is a
    range, and so are the rows between two of them."""
    if not len(alone):
        return _split_ranges(np.array([(i + j) // 2]), i, j)
    ends = np.unique(np.concatenate([[i, j], alone, alone + 1]))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))[::-1]


def _missing(batch: Batch, schema: pa.Schema) -> dict[int, str]:
    """Return the rows with a null in a non-nullable column, with the error."""
    found: dict[int, str] = {}
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            for row in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist():
                found.setdefault(row, f"column {field.name!r} is missing or null")
    return found
