"""Java's arithmetic, which Spark's results follow: parsing, formatting, rounding and remainders of
numbers. Row functions (`rheos.core.graph.row_functions`)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import polars as pl

WHITESPACE = "".join(map(chr, (*range(33), 127)))
"""Characters that Spark strips from both ends of a string before it parses it."""


# --- reading ------------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[dDfF]?", re.ASCII
)
_NAMED = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}


def reals_of_texts(columns: Sequence[pl.Series]) -> pl.Series:
    """Parse doubles as `Double.parseDouble` does, and Spark's names of infinities in any case; null for
    other strings."""
    texts = columns[0].str.strip_chars(WHITESPACE)
    made = texts.cast(pl.Float64, strict=False)
    unread = (made.is_null() & texts.is_not_null()) | made.is_nan()
    if not unread.any():
        return made
    rest = texts.filter(unread).unique()
    read = [_real(text) for text in rest]
    found = texts.replace_strict(rest, pl.Series(read, dtype=pl.Float64), default=None)
    return made.zip_with(~unread, found)


def _real(text: str) -> float | None:
    sign = -1.0 if text.startswith("-") else 1.0
    named = _NAMED.get(text.lower().lstrip("+-") if len(text.lstrip("+-")) > len(text) - 2 else "")
    if named is not None:
        return sign * named
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("dDfF"))
    if _HEXADECIMAL.fullmatch(text):
        digits = text.rstrip("dDfF") if re.search(r"[pP][+-]?\d+[dDfF]$", text) else text
        try:
            return float.fromhex(digits)
        except OverflowError:
            return sign * math.inf
    return None


# --- writing ------------------------------------------------------------------------------------------


def texts_of_reals(columns: Sequence[pl.Series]) -> pl.Series:
    """Format as `Double.toString` and `Float.toString`: with exponents from 10^7 on and below 0.001."""
    [values] = columns
    bits = values.to_numpy().view(np.int32 if values.dtype == pl.Float32 else np.int64)
    # By their bits, as -0.0 equals 0.0.
    different, inverse = np.unique(bits, return_inverse=True)
    shortest = pl.Series(different.view(values.to_numpy().dtype)).cast(pl.String)
    spelled = pl.Series([_spelled(each) for each in shortest], dtype=pl.String)
    return _null_as(values, spelled.gather(inverse))


def _null_as(column: pl.Series, made: pl.Series) -> pl.Series:
    """Return `made` with null where the column is null; NumPy has NaN there."""
    if column.null_count() == 0:
        return made
    return made.zip_with(column.is_not_null(), pl.Series([None], dtype=made.dtype))


def _spelled(shortest: str) -> str:
    match shortest:
        case "NaN" | "nan":
            return "NaN"
        case "5e-324" | "-5e-324":
            return shortest.upper().replace("5E", "4.9E")
        case "1e-45" | "-1e-45":
            return shortest.upper().replace("1E", "1.4E")
        case "inf" | "-inf":
            return shortest.replace("inf", "Infinity")
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    exponent += len(digits) - len(text) if any(digits) else 0
    point = len(text) + exponent if any(digits) else 1
    minus = "-" if sign else ""
    if -3 < point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        rest = (text[point:] if point > 0 else text.rjust(len(text) - point, "0")) or "0"
        return f"{minus}{whole}.{rest}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


# --- computing ----------------------------------------------------------------------------------------


def remainder(columns: Sequence[pl.Series]) -> pl.Series:
    """Return the exact remainder of two columns of floats, with the sign of the dividend."""
    one, other = columns
    with np.errstate(all="ignore"):
        made = pl.Series(np.fmod(one.to_numpy(), other.to_numpy()), dtype=one.dtype)
    if one.null_count() == other.null_count() == 0:
        return made
    return made.zip_with(one.is_not_null() & other.is_not_null(), pl.Series([None], dtype=made.dtype))


_MOST_EXACT = 22
"""The largest power of ten that a double holds exactly."""


def rounded(columns: Sequence[pl.Series], places: int) -> pl.Series:
    """Round each double, by the decimal number that it prints as, to `places` digits after the point
    (before it, if negative). Halves are rounded away from zero; there is no negative zero."""
    [column] = columns
    values = column.to_numpy()
    scale = 10.0 ** min(abs(places), _MOST_EXACT)
    with np.errstate(all="ignore"):
        size = np.abs(values)
        scaled = size * scale if places >= 0 else size / scale
        whole = np.floor(scaled)
        part = scaled - whole
        steps = whole + (part >= 0.5)
        made = np.copysign(steps / scale if places >= 0 else steps * scale, values)
        made[steps == 0] = 0.0
        # A double has 17 digits: of the larger ones all are before that place.
        kept = ~np.isfinite(values) | ((scaled >= 1e18) & (abs(places) <= _MOST_EXACT))
        close = np.abs(part - 0.5) <= scaled * 2.0**-50
        unsure = ~kept & (close | (scaled >= 2.0**53) | (abs(places) > _MOST_EXACT))
    made[kept] = values[kept]
    if unsure.any():
        different, inverse = np.unique(values[unsure], return_inverse=True)
        made[unsure] = np.array([_half_up(each, places) for each in different.tolist()])[inverse]
    return _null_as(column, pl.Series(made, dtype=pl.Float64))


def _half_up(value: float, places: int) -> float:
    number = Decimal(repr(value))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent >= -places:
        return value + 0.0
    if number.adjusted() < -places - 1:
        return 0.0
    return float(number.quantize(Decimal((0, (1,), -places)), ROUND_HALF_UP)) + 0.0


def best_real(columns: Sequence[pl.Series], *, greatest: bool) -> pl.Series:
    """Return the greatest or least float of each row, without nulls; the first of equal ones. NaN is
    greater than all numbers."""
    rows = max(map(len, columns)) if all(map(len, columns)) else 0
    best, *others = (each if len(each) == rows else each.new_from_index(0, rows) for each in columns)
    for each in others:
        is_better = each > best if greatest else each < best
        best = each.zip_with(is_better.fill_null(False) | best.is_null(), best)
    return best
