"""Decimals from text, for every border where text becomes a decimal column.

Arrow scales what it has read by a table with an entry for each of 38 digits, and does not check that
the table is long enough. Text such as "1e-60" or with sixty zeros behind the point is so read as an
arbitrary number, and "1e-99999999" ends the process. This module gives Arrow only what it can scale.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_TABLE_DIGITS = 38
_SMALL = rf"\.\d{{{_TABLE_DIGITS + 1}}}|[eE]-"
"""What text must match for Arrow to scale it too far."""
_EXACT = Context(prec=80, rounding=ROUND_DOWN, Emin=-999_999_999, Emax=999_999_999)
_POINT, _MINUS, _ZERO, _NINE = b".-09"
_LETTERS = np.frombuffer(b"eE", np.uint8)


def decimals_of(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the text as decimals. Raises ArrowInvalid where a value would lose digits."""
    small = pc.match_substring_regex(texts, _SMALL)
    if pc.any(small).as_py():
        written = [
            _plain(text, type_) if suspect else text
            for text, suspect in zip(texts.to_pylist(), small.to_pylist(), strict=True)
        ]
        texts = pa.array(written, texts.type)
    return texts.cast(type_)


def cast_text(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the text as values of the type. Raises ArrowInvalid where one does not fit."""
    return decimals_of(texts, type_) if pa.types.is_decimal(type_) else texts.cast(type_)


def is_safe(text: str, type_: pa.DataType) -> bool:
    """Return whether Arrow may read the text, and any other that is no decimal at all."""
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        return True
    return not isinstance(exponent, int) or -exponent - type_.scale <= _TABLE_DIGITS


def maybe_small(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the places in JSON or CSV where a number may begin that Arrow must not read."""
    minus = np.flatnonzero(raw == _MINUS)
    exponents = minus[np.isin(raw[np.maximum(minus - 1, 0)], _LETTERS)]
    points = np.flatnonzero(raw[: max(len(raw) - _TABLE_DIGITS - 1, 0)] == _POINT)
    ends = raw[points + _TABLE_DIGITS + 1]
    long = points[(ends >= _ZERO) & (ends <= _NINE)]
    return np.concatenate([exponents, long])


def _plain(text: str, type_: pa.DataType) -> str:
    """Return the number as digits with no more than the scale's behind the point."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text  # Arrow says what is wrong with it.
    if not number.is_finite():
        return text
    if len(number.as_tuple().digits) > _EXACT.prec:
        raise pa.ArrowInvalid(f"'{text[:40]}...' has more than {_EXACT.prec} digits")
    number = number.normalize(_EXACT)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent > type_.scale:
        raise pa.ArrowInvalid(f"'{text[:40]}' has more digits behind the point than {type_} holds")
    return format(number, "f")
