"""Conversion of times and decimals to and from strings, for all text formats."""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import ARROW_TEXT, refuse_times_outside

_DIGITS = 38
"""Maximum digits of a decimal. Arrow scales numbers of up to this many digits correctly in 256 bits."""
_WIDE_DIGITS = 76
"""Maximum digits of a decimal of 256 bits."""
_MAX_CHARS = 4096
"""Maximum characters of one number."""
_EXACT = Context(prec=_MAX_CHARS, rounding=ROUND_DOWN, Emin=-999_999_999, Emax=999_999_999)
_IN_NUMBER = np.isin(np.arange(256), np.frombuffer(b"0123456789.", np.uint8))
_AFTER_E = np.isin(np.arange(256), np.frombuffer(b"0123456789+-", np.uint8))
_STRIDE = 13
_E, _LOWER = b"e"[0], 32


def decimals_of(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the strings as decimals. Raises ArrowInvalid if a value would lose digits."""
    # Shorter strings cannot have too many digits before or after the point.
    long = pc.greater(pc.binary_length(texts), _DIGITS - type_.scale)
    suspects = pc.or_(long, pc.match_substring(texts, "e", ignore_case=True))
    if pc.any(suspects).as_py():
        written = [
            _plain(text, type_) if suspect else text
            for text, suspect in zip(texts.to_pylist(), suspects.to_pylist(), strict=True)
        ]
        texts = pa.array(written, texts.type)
    return texts.cast(type_)


def cast_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the strings as values of the type. Raises ArrowInvalid if one does not fit."""
    return decimals_of(texts, type_) if pa.types.is_decimal(type_) else texts.cast(type_)


def unfit_decimal(text: str, type_: pa.DataType) -> str | None:
    """Return why the column cannot hold the number; None if it can, or if `text` is not a number."""
    if len(text) > _MAX_CHARS:
        return f"has more than {_MAX_CHARS} characters"
    number = _number(text)
    if not number:
        return None
    if -_exponent(number) > type_.scale:
        return f"has more digits after the point than {type_} allows"
    if number.adjusted() >= type_.precision - type_.scale:
        return f"has more digits before the point than {type_} allows"
    return None


def unscalable(text: str, type_: pa.DataType) -> str | None:
    """Return why Arrow must not read the number in 256 bits, although the column can hold it."""
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        return None
    far = isinstance(exponent, int) and -exponent - type_.scale > _WIDE_DIGITS
    return f"has more than {_WIDE_DIGITS} digits after the point" if far else None


def suspect_numbers(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return positions within numbers that Arrow may scale wrongly, even in 256 bits: numbers with an
    exponent, or of more than 38 digits. `raw` is text such as JSON; some positions may be outside of
    numbers."""
    e = np.flatnonzero((raw[1:-1] | _LOWER) == _E) + 1
    e = e[_IN_NUMBER[raw[e - 1]]]
    e = e[_AFTER_E[raw[e + 1]]]
    # Every 13th byte hits a run of more than 38 digits three times.
    met = _IN_NUMBER[raw[::_STRIDE]]
    runs = np.flatnonzero(met[:-2] & met[1:-1] & met[2:]) * _STRIDE
    if len(runs):
        within = raw[runs[:, np.newaxis] + np.arange(2 * _STRIDE)]
        runs = runs[_IN_NUMBER[within].all(axis=1)]
    return np.concatenate([e, runs])


def _plain(text: str, type_: pa.DataType) -> str:
    """Return the number as digits, no more than the column holds. Raises ArrowInvalid."""
    if (what := unfit_decimal(text, type_)) is not None:
        raise pa.ArrowInvalid(f"'{text[:40]}' {what}")
    number = _number(text)
    # If it is not a number, Arrow reports the error.
    return text if number is None else format(number, "f")


def _number(text: str) -> Decimal | None:
    """Return the number without trailing zeros; None if `text` is not a number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    return number.normalize(_EXACT) if number else Decimal(0)


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


# --- times --------------------------------------------------------------------------------------------


def with_writable_times(rows: Batch, form: str) -> Batch:
    """Return the rows with times in UTC if they have a zone. Raises InputError, naming column and
    record, for a time that cannot be written as a string. `form` names the format in the error:
    "CSV"."""
    refuse_times_outside(rows, ARROW_TEXT, form)
    kinds = rows.schema.types
    if all(getattr(kind, "tz", None) in (None, "UTC") for kind in kinds):
        return rows
    columns = [_in_utc(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _in_utc(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column
