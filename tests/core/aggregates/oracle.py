"""The result of every aggregate of a few values, computed by plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.core.aggregates import Agg

WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
NAN, INF = float("nan"), float("inf")


def order(value: Any) -> tuple[bool, Any]:
    """Return a sort key by which NaN is the greatest."""
    return value != value, value


def different(values: Sequence[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault("nan" if value != value else value, value)
    return list(found.values())


def exact_sum(values: Sequence[Any]) -> Any:
    """Return the sum, rounded once; None without values."""
    if not values:
        return None
    if isinstance(values[0], float):
        odd = [value for value in values if not math.isfinite(value)]
        if odd:
            return math.fsum(odd) if len(set(odd)) == 1 else NAN
        try:
            return float(sum(map(Fraction, values)))
        except OverflowError:
            return INF if sum(map(Fraction, values)) > 0 else -INF
    if isinstance(values[0], Decimal):
        total = Decimal(0).scaleb(values[0].as_tuple().exponent)
        for value in values:
            total = WIDE.add(total, value)
        return total
    return sum(map(int, values))


def sum_in_order(values: Sequence[Any]) -> Any:
    """Return the sum of floats added one after the other."""
    if not values or not isinstance(values[0], float):
        return exact_sum(values)
    total = 0.0
    for value in values:
        total += value
    return total


def mean_of(total: Any, count: int) -> Any:
    if not count:
        return None
    if isinstance(total, Decimal):
        scale = min(-int(total.as_tuple().exponent) + 4, 38)
        return WIDE.divide(total, Decimal(count)).quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return float(total) / count


def variance(values: Sequence[Any]) -> float | None:
    if len(values) < 2:
        return None
    if not all(math.isfinite(value) for value in values):
        return NAN
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers) / len(numbers)
    try:
        return float(sum((each - mean) ** 2 for each in numbers) / (len(numbers) - 1))
    except OverflowError:
        return INF


def quantile(values: Sequence[Any]) -> float | None:
    if not values:
        return None
    floats = sorted(map(float, values), key=order)
    place = (len(floats) - 1) / 2
    low, high = floats[math.floor(place)], floats[math.ceil(place)]
    return low if order(low) == order(high) or place % 1 == 0 else low * 0.5 + high * 0.5


def approx_quantile(values: Sequence[Any]) -> float | None:
    if not values:
        return None
    value = sorted(map(float, values), key=order)[(len(values) - 1) // 2]
    if value != value or 0 < abs(value) < 2.2250738585072014e-308:
        # Numbers that have lost digits count as 0.
        return value if value != value else 0.0
    return max(min(value, 1.7976931348623157e308), -1.7976931348623157e308)


@dataclass(frozen=True)
class Case:
    """Kind of aggregate, and its expected result."""

    agg: Agg | Any
    expected: Callable[[Sequence[Any]], Any]
    """Of the values that are not null, in the order of their time."""
    in_sql: str | None
    of_numbers: bool = False
    near: float = 0.0
    """The relative difference that is allowed, of floats."""
    adds: bool = False
    """Whether the sum must fit its type."""


CASES: dict[str, Case] = {
    "count": Case(rh.agg.count("v"), len, "COUNT(v)"),
    "sum": Case(rh.agg.sum("v"), exact_sum, "SUM(v)", of_numbers=True, adds=True),
    "mean": Case(
        rh.agg.mean("v"),
        lambda values: mean_of(exact_sum(values), len(values)),
        "AVG(v)",
        of_numbers=True,
    ),
    "min": Case(rh.agg.min("v"), lambda values: min(values, key=order, default=None), "MIN(v)"),
    "max": Case(rh.agg.max("v"), lambda values: max(values, key=order, default=None), "MAX(v)"),
    "variance": Case(rh.agg.variance("v"), variance, "VARIANCE(v)", of_numbers=True, near=1e-9),
    "stddev": Case(
        rh.agg.stddev("v"),
        lambda values: None if (found := variance(values)) is None else math.sqrt(found),
        "STDDEV(v)",
        of_numbers=True,
        near=1e-9,
    ),
    "first": Case(rh.agg.first("v"), lambda values: values[0] if values else None, "FIRST(v)"),
    "last": Case(rh.agg.last("v"), lambda values: values[-1] if values else None, "LAST(v)"),
    "quantile": Case(
        rh.agg.quantile("v", 0.5), quantile, "PERCENTILE(v, 0.5)", of_numbers=True, near=1e-12
    ),
    "count_distinct": Case(
        rh.agg.count_distinct("v"), lambda values: len(different(values)), "COUNT(DISTINCT v)"
    ),
    "sum_distinct": Case(
        rh.agg.sum_distinct("v"),
        lambda values: exact_sum(different(values)),
        "SUM(DISTINCT v)",
        of_numbers=True,
        near=1e-12,
        adds=True,
    ),
    "mean_distinct": Case(
        rh.agg.mean_distinct("v"),
        lambda values: mean_of(exact_sum(different(values)), len(different(values))),
        "AVG(DISTINCT v)",
        of_numbers=True,
        near=1e-12,
    ),
    "collect": Case(rh.agg.collect("v"), list, "COLLECT_LIST(v)"),
    "top_k": Case(
        rh.agg.top_k("v", 3), lambda values: sorted(values, key=order, reverse=True)[:3], None
    ),
    "expression": Case(rh.col("v").count(), len, None),
    "approx_count_distinct": Case(
        rh.agg.approx_count_distinct("v"),
        lambda values: len(different(values)),
        "APPROX_COUNT_DISTINCT(v)",
    ),
    "approx_quantile": Case(
        rh.agg.approx_quantile("v", 0.5), approx_quantile, None, of_numbers=True, near=0.011
    ),
}


def sum_fits(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Return whether all sums of some of the values, and their means, fit their types."""
    if pa.types.is_floating(kind) or not is_number(kind):
        return True
    for some in ([v for v in values if v > 0], [v for v in values if v < 0]):
        total = exact_sum(some)
        if isinstance(total, Decimal):
            mean = mean_of(max(some, key=abs), 1)
            if any(len(each.as_tuple().digits) > 38 for each in (total, mean)):
                return False
        elif total is not None and not -(2**63) <= total < 2**63:
            return False
    return True


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def same(got: Any, want: Any, near: float) -> bool:
    if isinstance(want, list):
        return (
            isinstance(got, list)
            and len(got) == len(want)
            and all(same(one, other, near) for one, other in zip(got, want, strict=True))
        )
    if got is None or want is None:
        return got is want
    if isinstance(want, float) and isinstance(got, float):
        if want != want or got != got or math.isinf(want) or math.isinf(got) or not near:
            return order(got) == order(want) or (got != got and want != want)
        return math.isclose(got, want, rel_tol=near)
    return type(got) is type(want) and bool(got == want)
