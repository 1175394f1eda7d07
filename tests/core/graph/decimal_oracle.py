"""Decimals by Spark's rules, computed with fractions; it shares no code with Rheos."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

Digits = tuple[int, int]
"""Precision and scale."""


def bounded(precision: int, scale: int) -> Digits:
    if precision <= 38:
        return precision, scale
    whole = precision - scale
    return 38, max(38 - whole, min(scale, 6))


def result_type(sign: str, one: Digits, other: Digits) -> Digits:
    (p1, s1), (p2, s2) = one, other
    match sign:
        case "+" | "-":
            return bounded(max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))
        case "*":
            return bounded(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return bounded(p1 - s1 + s2 + scale, scale)
        case "//":
            return min(max(p1 - s1 + s2, 1), 38), 0
        case "%":
            return bounded(max(min(p1 - s1, p2 - s2) + max(s1, s2), 1), max(s1, s2))
    raise AssertionError(sign)


def wider_type(one: Digits, other: Digits) -> Digits:
    (p1, s1), (p2, s2) = one, other
    whole, scale = max(p1 - s1, p2 - s2), max(s1, s2)
    if whole + scale <= 38:
        return whole + scale, scale
    return 38, max(0, 38 - whole)


def rounded(value: Fraction, kind: Digits) -> Decimal | None:
    """Round half up; None if the result does not fit."""
    precision, scale = kind
    units = int(abs(value) * 10**scale + Fraction(1, 2))
    if units >= 10**precision:
        return None
    with localcontext() as context:
        context.prec = 80
        return Decimal(-units if value < 0 else units).scaleb(-scale)


def computed(sign: str, left: Decimal | None, right: Decimal | None, kind: Digits) -> Decimal | None:
    if left is None or right is None:
        return None
    one, other = Fraction(left), Fraction(right)
    if sign in ("/", "//", "%") and not other:
        return None
    match sign:
        case "+":
            exact = one + other
        case "-":
            exact = one - other
        case "*":
            exact = one * other
        case "/":
            exact = one / other
        case _:
            whole = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
            exact = Fraction(whole) if sign == "//" else one - whole * other
    return rounded(exact, kind)
