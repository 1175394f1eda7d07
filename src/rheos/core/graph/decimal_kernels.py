"""Operations on decimal columns, as functions that Polars calls with series and that return a series.

If a value does not fit the result's type, a strict operation raises `ComputeError`; otherwise the value
becomes null. A division by 0 is null in both cases.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any, Final

import numpy as np
import polars as pl

from rheos.core.graph.decimal_columns import (
    Array,
    DecimalColumn,
    WholeUnits,
    both_valid,
    column_of,
    decimals_of,
)

_EXACT: Final = Context(prec=800, rounding=ROUND_HALF_UP)
"""Context with enough digits for any float, and for any string that fits a decimal."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


@dataclass(frozen=True)
class DecimalArithmetic:
    """A sum, a difference, a product, a quotient or a remainder."""

    op: str
    """Polars' name of the operator: "Plus" ..., or "FloorDivide" for a quotient without fraction."""
    kind: pl.Decimal
    strict: bool

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        one, other = map(column_of, columns)
        valid = both_valid(one.valid, other.valid)
        if self.op in ("Plus", "Minus"):
            scale = max(one.scale, other.scale)
            made = _units_at(one, scale).plus(_units_at(other, scale), -1 if self.op == "Minus" else 1)
            return _fitted(made, scale, valid, self.kind, self.strict)
        if self.op == "Multiply":
            made = one.units.times(other.units)
            return _fitted(made, one.scale + other.scale, valid, self.kind, self.strict)
        zero = other.units.values == 0
        if zero.any():
            zero = zero.astype(bool)
            valid = both_valid(valid, ~zero)
            divisors = np.where(zero, 1, other.units.values)
            other = DecimalColumn(WholeUnits(divisors, max(other.units.most, 1)), other.scale, None)
        if self.op == "Modulus":
            scale = max(one.scale, other.scale)
            made = _units_at(one, scale).remainders(_units_at(other, scale))
            return _fitted(made, scale, valid, self.kind, self.strict)
        scale = self.kind.scale
        places = scale - one.scale + other.scale
        made = one.units.scaled(max(places, 0)).divided(
            other.units.scaled(max(-places, 0)), half_up=self.op != "FloorDivide"
        )
        return _fitted(made, scale, valid, self.kind, self.strict)


@dataclass(frozen=True)
class WholeDecimals:
    """The nearest integers of decimals, rounded down or up."""

    kind: pl.Decimal
    above: bool

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        column = column_of(columns[0])
        units = column.units
        if self.above:
            units = units.negated().floored(column.scale).negated()
        else:
            units = units.floored(column.scale)
        return _fitted(units, 0, column.valid, self.kind, strict=True)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
    "EqValidity": operator.eq,
    "NotEqValidity": operator.ne,
}


@dataclass(frozen=True)
class DecimalComparison:
    """A comparison of decimals for which no common type exists."""

    op: str

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        one, other = map(column_of, columns)
        scale = max(one.scale, other.scale)
        left, right = _units_at(one, scale), _units_at(other, scale)
        made = np.asarray(_COMPARISONS[self.op](left.values, right.values)).astype(bool)
        valid = both_valid(one.valid, other.valid)
        if valid is None:
            return pl.Series(made)
        if self.op.endswith("Validity"):
            there = [each.valid if each.valid is not None else np.True_ for each in (one, other)]
            neither, differ = ~(there[0] | there[1]), there[0] != there[1]
            made = (made & valid) | (neither if self.op == "EqValidity" else differ)
            return pl.Series(made)
        found = pl.Series(made)
        return found.set(pl.Series(~np.broadcast_to(valid, made.shape)), None)


@dataclass(frozen=True)
class ToDecimal:
    """A cast of decimals, integers, floats or strings to decimals."""

    kind: pl.Decimal
    strict: bool

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        (series,) = columns
        if not (series.dtype.is_float() or series.dtype == pl.String):
            column = column_of(series)
            return _fitted(column.units, column.scale, column.valid, self.kind, self.strict)
        # A float stands for the shortest decimal that is read back as the same float.
        texts = map(repr, series.cast(pl.Float64).to_list()) if series.dtype.is_float() else series
        units = [self._units(text) for text in texts]
        missing = np.array([unit is None for unit in units], dtype=bool)
        if self.strict and int(missing.sum()) > series.null_count():
            at = int(np.argmax(missing & series.is_not_null().to_numpy()))
            raise pl.exceptions.ComputeError(f"{series[at]!r} does not fit {_name(self.kind)}")
        values = np.array([unit or 0 for unit in units], dtype=object)
        valid = ~missing if missing.any() else None
        return decimals_of(WholeUnits(values, 10**self.kind.precision), valid, self.kind)

    def _units(self, text: str | None) -> int | None:
        if text is None or _NUMBER.fullmatch(text := text.strip()) is None:
            return None
        number = Decimal(text)
        # A number with too many digits before the point needs no computation.
        if number.adjusted() >= self.kind.precision - self.kind.scale and number:
            return None
        with localcontext(_EXACT):
            if number.adjusted() < -self.kind.scale - 1:
                return 0
            made = int(number.scaleb(self.kind.scale).to_integral_value(ROUND_HALF_UP))
        return made if abs(made) < 10**self.kind.precision else None


@dataclass(frozen=True)
class ToInteger:
    """A cast to integers, which drops the fraction."""

    kind: pl.DataType
    strict: bool
    wraps: bool
    """Whether a number that does not fit the type keeps its lowest bits."""

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        column = column_of(columns[0])
        units = column.units.truncated(column.scale)
        least, most = _bounds(self.kind)
        values, valid = units.values, column.valid
        if units.most > most or least == 0:
            if self.wraps:
                values = (values.astype(object) - least) % (most - least + 1) + least
            else:
                fits = ((values >= least) & (values <= most)).astype(bool)
                _refuse(units, 0, valid, fits, str(self.kind), self.strict)
                values, valid = np.where(fits, values, 0), both_valid(valid, fits)
        made = pl.Series(values.astype(np.uint64 if most >= 1 << 63 else np.int64)).cast(self.kind)
        return made if valid is None else made.set(pl.Series(~valid), None)


@dataclass(frozen=True)
class ToFloat:
    """A cast to the nearest floats."""

    kind: pl.DataType

    def __call__(self, columns: Sequence[pl.Series]) -> pl.Series:
        column = column_of(columns[0])
        values = column.units.values
        if column.units.most < 1 << 53 and column.scale <= 22:
            # Both are exact as floats, so their quotient is the nearest float.
            made = values.astype(np.float64) / float(10**column.scale)
        else:
            made = (values.astype(object) / 10**column.scale).astype(np.float64)
        series = pl.Series(made).cast(self.kind)
        return series if column.valid is None else series.set(pl.Series(~column.valid), None)


def _units_at(column: DecimalColumn, scale: int) -> WholeUnits:
    return column.units.scaled(scale - column.scale)


def _fitted(
    units: WholeUnits, scale: int, valid: Array | None, kind: pl.Decimal, strict: bool
) -> pl.Series:
    """Convert units of `scale` to decimals of `kind`."""
    if scale > kind.scale:
        made = units.rounded(scale - kind.scale)
    else:
        made = units.scaled(kind.scale - scale)
    fits = made.fits(kind.precision)
    if fits is not None:
        _refuse(made, kind.scale, valid, fits, _name(kind), strict)
        valid = both_valid(valid, fits)
    return decimals_of(made, valid, kind)


def _refuse(
    units: WholeUnits, scale: int, valid: Array | None, fits: Array, name: str, strict: bool
) -> None:
    """Raise an error for the first valid value that does not fit, if `strict`."""
    wrong = ~fits if valid is None else ~fits & valid
    if strict and wrong.any():
        at = int(np.argmax(wrong))
        value = Decimal(int(units.values[at])).scaleb(-scale, _EXACT)
        raise pl.exceptions.ComputeError(f"{value} does not fit {name}")


def _bounds(kind: pl.DataType) -> tuple[int, int]:
    return (
        int(pl.select(kind.min()).item()),  # type: ignore[attr-defined]
        int(pl.select(kind.max()).item()),  # type: ignore[attr-defined]
    )


def _name(kind: pl.Decimal) -> str:
    return f"DECIMAL({kind.precision}, {kind.scale})"
