"""What operators share that call the user's function per record: errors with the record, outputs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.errors import RheosError, Site, UserFunctionError
from rheos.operators.contract import OperatorContext
from rheos.protocol.elements import MIN_TIMESTAMP_MS, TS, WM, Batch
from rheos.protocol.types import TypeMismatch, batch_of

_OURS = str(Path(__file__).parents[1])
_SHOWN_CHARACTERS = 500


def shown(value: Any) -> str:
    """A record or key as an error shows it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def user_error(
    ctx: OperatorContext, error: Exception, *, record: Any = None, key: Any = None
) -> RheosError:
    """What the user's function raised, at the user's own line, with record and key."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    site = Site(frames[-1].filename, frames[-1].lineno or 0) if frames else ctx.site
    record_text = None if record is None else shown(record)
    key_text = None if key is None else shown(key)
    if isinstance(error, RheosError):
        error.record = error.record or record_text
        error.key = error.key or key_text
        return error.located(site=site, operator=ctx.name)
    return UserFunctionError(
        f"{type(error).__name__}: {error}",
        site=site,
        operator=ctx.name,
        record=record_text,
        key=key_text,
        hint="mend the function, or keep such records from it with a filter before",
        detail="".join(traceback.format_list(frames)) or None,
    )


def not_iterable(ctx: OperatorContext, given: Any, *, record: Any, key: Any = None) -> RheosError:
    """The function gave a single thing where its outputs are expected."""
    return UserFunctionError(
        f"the function gave {type(given).__name__}, where it should yield its outputs: {shown(given)}",
        site=ctx.site,
        operator=ctx.name,
        record=shown(record),
        key=None if key is None else shown(key),
        hint="write `yield record`, or return a list of records; None gives nothing",
    )


def wrong_type(
    ctx: OperatorContext, mismatch: TypeMismatch, *, record: Any = None, key: Any = None
) -> RheosError:
    """An output does not have the declared type."""
    return UserFunctionError(
        f"the function gave a wrong output: {mismatch}",
        site=ctx.site,
        operator=ctx.name,
        record=None if record is None else shown(record),
        key=None if key is None else shown(key),
        hint="give what the output type declares, or declare what is given (returns=)",
    )


def with_hidden(
    batch: Batch,
    schema: pa.Schema,
    timestamps: npt.NDArray[np.int64] | None,
    watermarks: npt.NDArray[np.int64] | None,
) -> Batch:
    """The batch with the hidden columns that `schema` asks for; no watermarks means the least."""
    columns = list(batch.columns)
    if TS in schema.names:
        assert timestamps is not None, "a stream with event time has timestamps"
        columns.append(pa.array(timestamps, pa.int64()))
    if WM in schema.names:
        if watermarks is None:
            watermarks = np.full(batch.num_rows, MIN_TIMESTAMP_MS, np.int64)
        columns.append(pa.array(watermarks, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def hidden_column(batch: Batch, name: str) -> npt.NDArray[np.int64] | None:
    if name not in batch.schema.names:
        return None
    column: npt.NDArray[np.int64] = batch.column(name).to_numpy()
    return column


def rows_to_batches(
    rows: Sequence[Any], schema: pa.Schema, batch_rows: int
) -> Iterator[tuple[int, Batch]]:
    """The rows as visible batches of bounded size, each with the index of its first row.

    Raises TypeMismatch, whose index counts from the first row of all.
    """
    for start in range(0, len(rows), batch_rows):
        try:
            yield start, batch_of(rows[start : start + batch_rows], schema)
        except TypeMismatch as mismatch:
            mismatch.index += start
            raise
