"""Types of decimal results: Spark's rules, without its ANSI mode.

| operation | digits before the point | scale |
|---|---|---|
| a + b, a - b | one more than the larger operand's | the larger |
| a * b | one more than both operands' together | the sum |
| a / b | those of a, plus the scale of b | max(6, scale of a + digits of b + 1) |
| a // b | those of a, plus the scale of b | 0 |
| a % b | the smaller operand's | the larger |

A type has at most 38 digits. If a result needs more, its scale is reduced, down to 6 digits after the
point. Integers are decimals of scale 0. A constant has as many digits as it needs, and a column as many
as the widest value of its type.
"""

from __future__ import annotations

from typing import Final

import polars as pl

MOST_DIGITS: Final = 38
"""Number of digits of the widest decimal."""
LEAST_SCALE: Final = 6
"""Digits after the point that a computed decimal keeps, if it would have more than 38 in all."""

_INTEGER_DIGITS: Final[dict[type[pl.DataType], int]] = {
    pl.Int8: 3,
    pl.Int16: 5,
    pl.Int32: 10,
    pl.Int64: 20,
    pl.UInt8: 5,
    pl.UInt16: 10,
    pl.UInt32: 20,
    pl.UInt64: 20,
    pl.Int128: MOST_DIGITS,
    pl.UInt128: MOST_DIGITS,
}


def as_decimal(kind: pl.DataType) -> pl.Decimal | None:
    """Return the decimal type that holds values of `kind`; None unless it is decimal or integer."""
    if isinstance(kind, pl.Decimal):
        return kind
    digits = _INTEGER_DIGITS.get(type(kind))
    return None if digits is None else pl.Decimal(digits, 0)


def of_constant(unscaled: int, scale: int = 0) -> pl.Decimal | None:
    """Return the narrowest type of a constant; None if it has more than 38 digits."""
    digits = max(len(str(abs(unscaled))), scale)
    return pl.Decimal(digits, scale) if digits <= MOST_DIGITS else None


def whole_digits(kind: pl.Decimal) -> int:
    """Return the number of digits before the point."""
    return kind.precision - kind.scale


def adjusted(digits: int, scale: int) -> pl.Decimal:
    """Return the type of a computed value, with a reduced scale if it has too many digits."""
    if digits <= MOST_DIGITS:
        return pl.Decimal(digits, scale)
    whole = digits - scale
    return pl.Decimal(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, LEAST_SCALE)))


def of_sum(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of a sum or a difference."""
    scale = max(one.scale, other.scale)
    return adjusted(max(whole_digits(one), whole_digits(other)) + 1 + scale, scale)


def is_wider(kind: pl.Decimal, one: pl.Decimal, other: pl.Decimal) -> bool:
    """Return whether a type has more digits before the point than both others, and no fewer after
    it."""
    whole = max(whole_digits(one), whole_digits(other))
    return kind.scale >= max(one.scale, other.scale) and whole_digits(kind) > whole


def of_product(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of a product."""
    return adjusted(one.precision + other.precision + 1, one.scale + other.scale)


def of_quotient(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of `one / other`."""
    scale = max(LEAST_SCALE, one.scale + other.precision + 1)
    return adjusted(whole_digits(one) + other.scale + scale, scale)


def of_whole_quotient(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of `one // other`, the quotient without its fraction."""
    return pl.Decimal(min(max(whole_digits(one) + other.scale, 1), MOST_DIGITS), 0)


def of_remainder(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of `one % other`, which has the sign of `one`."""
    scale = max(one.scale, other.scale)
    return adjusted(max(min(whole_digits(one), whole_digits(other)) + scale, 1), scale)


def of_whole(kind: pl.Decimal) -> pl.Decimal:
    """Return the type of the nearest integer, rounded down or up."""
    return pl.Decimal(min(whole_digits(kind) + 1, MOST_DIGITS), 0)


def common(one: pl.Decimal, other: pl.Decimal) -> pl.Decimal:
    """Return the type of a single column for values of both types.

    If both together need more than 38 digits, digits after the point are dropped first.
    """
    scale = max(one.scale, other.scale)
    whole = max(whole_digits(one), whole_digits(other))
    return pl.Decimal(
        min(whole + scale, MOST_DIGITS), max(0, scale - max(0, whole + scale - MOST_DIGITS))
    )


def holds_both(one: pl.Decimal, other: pl.Decimal) -> bool:
    """Return whether every value of either type fits their common type."""
    whole = max(whole_digits(one), whole_digits(other))
    return whole + max(one.scale, other.scale) <= MOST_DIGITS
