"""Shared code of operators that call the user's function per record: errors and outputs."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.error_hints import hint_for_error
from rheos.core.errors import (
    LESS_MEMORY,
    OutOfMemoryError,
    RheosError,
    Site,
    UserFunctionError,
    is_out_of_memory,
)
from rheos.core.operators.contract import OperatorContext
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, WM, Batch
from rheos.core.protocol.types import Row, TypeMismatch
from rheos.core.safe_strings import is_error, named_error, shown, traceback_of
from rheos.core.site import PACKAGE, is_users

UserRaised = (Exception, SystemExit)
"""Errors that calls of the user's function may raise. The exception of `sys.exit()` is among them:
otherwise it would end the worker without a message, and the job would restart endlessly."""

Stamps: TypeAlias = npt.NDArray[np.int64]


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the error outside of Rheos, outermost first."""
    frames = traceback.extract_tb(traceback_of(error))
    return [frame for frame in frames if not frame.filename.startswith(PACKAGE)]


def call_user(ctx: LocatedName, method: Callable[[], object]) -> None:
    """Call a method of the user's function that belongs to no record, such as `close`."""
    try:
        method()
    except UserRaised as error:
        raise user_error(ctx, error) from error


def has_user_frames(error: BaseException) -> bool:
    """Return whether the error was raised in the user's code, or in code that it called."""
    return bool(_user_frames(error))


def _site(frames: list[traceback.FrameSummary]) -> Site | None:
    """Return the innermost line that the user wrote, or else of the code that it called."""
    for frame in reversed(frames):
        return user_site(frames) or Site(frame.filename, frame.lineno or 0)
    return None


def user_site(frames: Sequence[traceback.FrameSummary]) -> Site | None:
    """Return the innermost line of a stack that the user wrote."""
    for frame in reversed(frames):
        if is_users(frame.filename):
            return Site(frame.filename, frame.lineno or 0)
    return None


class LocatedName(Protocol):
    """An object that an error message names, with the line where it was written."""

    @property
    def site(self) -> Site: ...
    @property
    def name(self) -> str: ...


def user_error(
    ctx: LocatedName,
    error: Exception | SystemExit,
    *,
    record: Any = None,
    key: Any = None,
    columns: Sequence[str] = (),
) -> RheosError:
    """Return an error with the user's line, record and key, for an exception of the user's function.

    `columns` are those of the batch that the function was called with, if it takes batches.
    """
    frames = _user_frames(error)
    site = _site(frames) or ctx.site
    record_text = None if record is None else shown(record)
    key_text = None if key is None else shown(key)
    if is_error(error, RheosError) and type(error).__str__ is RheosError.__str__:
        error.record = error.record or record_text
        error.key = error.key or key_text
        return error.located(site=site, operator=ctx.name)
    kind: type[RheosError] = UserFunctionError
    if is_out_of_memory(error):
        kind, hint = OutOfMemoryError, LESS_MEMORY
    elif is_error(error, SystemExit):
        hint = "a user function must not end the program: return, or raise an error"
    elif advice := hint_for_error(error, columns):
        hint = advice
    elif record is None and key is None:
        hint = "correct the function"
    else:
        hint = "correct the function, or filter out such records upstream"
    return kind(
        named_error(error),
        site=site,
        operator=ctx.name,
        record=record_text,
        key=key_text,
        hint=hint,
        detail="".join(traceback.format_list(frames)) or None,
    )


def is_single(given: Any) -> bool:
    """Return whether this is a single record and no iterable of records, even if it is iterable."""
    if isinstance(given, str | bytes | dict | Row) or hasattr(given, "_fields"):
        return True
    return dataclasses.is_dataclass(given) or not hasattr(given, "__iter__")


def not_iterable(ctx: OperatorContext, given: Any, *, record: Any, key: Any = None) -> RheosError:
    """Return the error for a single value that was returned instead of an iterable of records."""
    return UserFunctionError(
        f"the function returned {type(given).__name__}, but must yield its outputs: {shown(given)}",
        site=ctx.site,
        operator=ctx.name,
        record=shown(record),
        key=None if key is None else shown(key),
        hint="write `yield record`, or return a list of records; None emits nothing",
    )


def wrong_type(
    ctx: OperatorContext, mismatch: TypeMismatch, *, record: Any = None, key: Any = None
) -> RheosError:
    """Return the error for a record that does not have the declared type."""
    return UserFunctionError(
        f"the function returned an invalid output: {mismatch}",
        site=ctx.site,
        operator=ctx.name,
        record=None if record is None else shown(record),
        key=None if key is None else shown(key),
        hint=_awaited(mismatch.given)
        or "return the declared output type, or declare the type that is returned (returns=)",
    )


def _awaited(given: Any) -> str | None:
    """Return a hint if the function returned a coroutine, and close it, as nobody will await it."""
    if not inspect.iscoroutine(given):
        return None
    given.close()
    return "the function is asynchronous: write .map_async(...)"


def check_kept(
    ctx: OperatorContext, column: str, before: pa.Array, after: pa.Array, record: Callable[[int], Any]
) -> None:
    """Raise an error if a function changed the column from which event time was taken. `record` returns
    the function's input at a position. Event times are in ms, so smaller changes are permitted."""
    if after.equals(before):
        return
    if pa.types.is_timestamp(before.type):
        milliseconds = pa.timestamp("ms", before.type.tz)
        before, after = (c.cast(milliseconds, safe=False) for c in (before, after))
    at: int = pc.index(pc.fill_null(pc.not_equal(before, after), True), True).as_py()
    if at < 0:
        return
    raise UserFunctionError(
        f"the function changed {column!r} ({after[at]} instead of {before[at]}), but operators "
        f"downstream use the event time read from that column",
        site=ctx.site,
        operator=ctx.name,
        record=shown(record(at)),
        hint="to use the new times, write "
        ".with_event_time(rh.Watermark.bounded_out_of_orderness(...)) after it; to use the old "
        "ones, rename the computed column",
    )


class HiddenColumns(NamedTuple):
    """The hidden columns of rows; None for a column that the stream does not have."""

    stamps: Stamps | None = None
    """Event times of the rows."""
    marks: Stamps | None = None
    """Watermarks of the splits of the rows, which outputs inherit."""
    reached: Stamps | None = None
    """Watermark of the stream before each row. It never falls."""

    @classmethod
    def of(cls, batch: Batch) -> HiddenColumns:
        """Return the hidden columns of a batch."""
        return cls(*(hidden_column(batch, name) for name in (TS, WM, SWM)))

    def at(self, rows: Any) -> HiddenColumns:
        """Return the hidden columns of some rows, given by positions or as a slice."""
        return HiddenColumns(*(None if column is None else column[rows] for column in self))


NOTHING_HIDDEN = HiddenColumns()


def with_hidden(batch: Batch, schema: pa.Schema, hidden: HiddenColumns) -> Batch:
    """Return the batch with the hidden columns that `schema` has.

    Without marks, the rows have the least watermark. If `hidden.reached` is None, rows are emitted as
    the watermark advances: their stream watermark is then just before each row's timestamp.
    """
    timestamps, watermarks, reached = hidden
    columns = list(batch.columns)
    if TS in schema.names:
        assert timestamps is not None, "a stream with event time has timestamps"
        columns.append(pa.array(timestamps, pa.int64()))
    if WM in schema.names:
        if watermarks is None:
            watermarks = np.full(batch.num_rows, MIN_TIMESTAMP_MS, np.int64)
        columns.append(pa.array(watermarks, pa.int64()))
    if SWM in schema.names:
        assert timestamps is not None
        columns.append(pa.array(timestamps - 1 if reached is None else reached, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def hidden_column(batch: Batch, name: str) -> npt.NDArray[np.int64] | None:
    if name not in batch.schema.names:
        return None
    column: npt.NDArray[np.int64] = batch.column(name).to_numpy()
    return column
