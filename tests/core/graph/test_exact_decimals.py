"""Decimals in expressions, compared with an oracle of fractions over random types and values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rheos.core.graph.exact_decimals import exact, exact_one
from tests.core.graph.decimal_oracle import Digits, computed, result_type, rounded, wider_type

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INTEGERS: dict[pl.DataType, tuple[int, int, int]] = {
    pl.Int8(): (3, -(1 << 7), (1 << 7) - 1),
    pl.Int16(): (5, -(1 << 15), (1 << 15) - 1),
    pl.Int32(): (10, -(1 << 31), (1 << 31) - 1),
    pl.Int64(): (20, -(1 << 63), (1 << 63) - 1),
    pl.UInt8(): (5, 0, (1 << 8) - 1),
    pl.UInt16(): (10, 0, (1 << 16) - 1),
    pl.UInt32(): (20, 0, (1 << 32) - 1),
    pl.UInt64(): (20, 0, (1 << 64) - 1),
}


@st.composite
def digits(draw: st.DrawFn) -> Digits:
    precision = draw(st.sampled_from([1, 2, 9, 10, 18, 19, 20, 28, 37, 38]) | st.integers(1, 38))
    scale = draw(st.sampled_from([0, 1, precision // 2, precision]) | st.integers(0, precision))
    return precision, min(scale, precision)


def units(precision: int) -> st.SearchStrategy[int]:
    most = 10**precision - 1
    edges = [0, 1, 2, 5, most, most // 2, most // 2 + 1, (1 << 63) - 1, 1 << 63, 10 ** (precision - 1)]
    near = [each for each in edges if each <= most]
    drawn = st.integers(0, precision).flatmap(lambda size: st.integers(0, 10**size - 1))
    return st.tuples(st.sampled_from([1, -1]), st.sampled_from(near) | drawn).map(lambda p: p[0] * p[1])


@st.composite
def columns(draw: st.DrawFn) -> tuple[pl.Series, Digits]:
    precision, scale = draw(digits())
    drawn = draw(st.lists(st.none() | units(precision), min_size=6, max_size=6))
    values = [None if each is None else Decimal((each < 0, _metrics(each), -scale)) for each in drawn]
    return pl.Series(values, dtype=pl.Decimal(precision, scale)), (precision, scale)


@st.composite
def operands(draw: st.DrawFn) -> tuple[pl.Series, Digits]:
    if draw(st.integers(0, 4)):
        return draw(columns())
    kind = draw(st.sampled_from(list(INTEGERS)))
    width, least, most = INTEGERS[kind]
    edges = st.sampled_from([least, most, 0, 1]) | st.integers(least, most)
    values = draw(st.lists(st.none() | edges, min_size=6, max_size=6))
    return pl.Series(values, dtype=kind), (width, 0)


def _metrics(whole: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(whole))))


def _pairs(frame: pl.DataFrame) -> list[tuple[Decimal | None, Decimal | None]]:
    def plain(value: Any) -> Decimal | None:
        return None if value is None else Decimal(value)

    return [(plain(left), plain(right)) for left, right in frame.select("a", "b").rows()]


def _evaluated(frame: pl.DataFrame, expr: pl.Expr) -> pl.Series:
    """Return the values, after a check that they have the predicted type."""
    (made,) = exact([expr.alias("made")], frame.lazy())
    promised = frame.lazy().select(made).collect_schema()["made"]
    found = frame.select(made).to_series()
    assert found.dtype == promised
    return found


@settings(max_examples=60, deadline=None)
@given(columns(), operands(), st.booleans())
@example(
    (pl.Series([Decimal(10**38 - 1)] * 6, dtype=pl.Decimal(38, 0)), (38, 0)),
    (pl.Series([Decimal((0, (9,) * 38, -38))] * 6, dtype=pl.Decimal(38, 38)), (38, 38)),
    False,
)
def test_arithmetic(one: Any, other: Any, swapped: bool) -> None:
    if swapped:
        one, other = other, one
    frame = pl.DataFrame({"a": one[0], "b": other[0]})
    for sign, compute in OPERATORS.items():
        kind = result_type(sign, one[1], other[1])
        expected = [computed(sign, left, right, kind) for left, right in _pairs(frame)]
        expr = compute(pl.col("a"), pl.col("b"))
        found = _evaluated(frame, expr.cast(pl.Decimal(*kind), strict=False))
        assert found.dtype == pl.Decimal(*kind)
        assert found.to_list() == expected, sign
        impossible = [
            each is None and None not in pair and not (sign in ("/", "//", "%") and not pair[1])
            for each, pair in zip(expected, _pairs(frame), strict=True)
        ]
        if any(impossible):
            with pytest.raises(pl.exceptions.ComputeError, match="does not fit DECIMAL"):
                _evaluated(frame, expr)
        else:
            assert _evaluated(frame, expr).to_list() == expected, sign


@settings(max_examples=40, deadline=None)
@given(columns(), operands())
def test_comparisons(one: Any, other: Any) -> None:
    frame = pl.DataFrame({"a": one[0], "b": other[0]})
    a, b = pl.col("a"), pl.col("b")
    for sign, compare in COMPARISONS.items():
        expected = [
            None if None in (left, right) else compare(Fraction(left), Fraction(right))  # type: ignore[arg-type]
            for left, right in _pairs(frame)
        ]
        assert _evaluated(frame, compare(a, b)).to_list() == expected, sign
    same = [left == right for left, right in _pairs(frame)]
    assert _evaluated(frame, a.eq_missing(b)).to_list() == same
    assert _evaluated(frame, a.ne_missing(b)).to_list() == [not each for each in same]
    between = [
        None if None in (left, right) else Fraction(left) <= Fraction(right) <= Fraction(left)  # type: ignore[arg-type]
        for left, right in _pairs(frame)
    ]
    assert _evaluated(frame, b.is_between(a, a)).to_list() == between


@settings(max_examples=40, deadline=None)
@given(columns(), operands())
def test_conditional_expressions_have_the_wider_type(one: Any, other: Any) -> None:
    frame = pl.DataFrame({"a": one[0], "b": other[0]})
    kind = wider_type(one[1], other[1])
    a, b = pl.col("a"), pl.col("b")
    first = [None if left is None else rounded(Fraction(left), kind) for left, _ in _pairs(frame)]
    second = [None if right is None else rounded(Fraction(right), kind) for _, right in _pairs(frame)]
    if any(x is None and y[0] is not None for x, y in zip(first, _pairs(frame), strict=True)):
        return
    if any(x is None and y[1] is not None for x, y in zip(second, _pairs(frame), strict=True)):
        return
    filled = [x if x is not None else y for x, y in zip(first, second, strict=True)]
    for expr in (pl.coalesce(a, b), a.fill_null(b), pl.when(a.is_null()).then(b).otherwise(a)):
        found = _evaluated(frame, expr)
        assert found.dtype == pl.Decimal(*kind)
        assert found.to_list() == filled


@settings(max_examples=60, deadline=None)
@given(operands(), digits())
def test_casts(given_: Any, to: Digits) -> None:
    series, _ = given_
    frame = pl.DataFrame({"a": series})
    values = series.to_list()
    expected = [None if each is None else rounded(Fraction(each), to) for each in values]
    made = _evaluated(frame, pl.col("a").cast(pl.Decimal(*to), strict=False))
    if not isinstance(series.dtype, pl.Decimal):
        assert (made.dtype, made.to_list()) == (pl.Decimal(*to), expected)
        return
    assert made.dtype == pl.Decimal(*to)
    assert made.to_list() == expected
    texts = pl.DataFrame({"a": [None if each is None else str(each) for each in values]})
    read = _evaluated(texts, pl.col("a").cast(pl.Decimal(*to), strict=False))
    assert read.to_list() == expected
    assert _evaluated(frame, pl.col("a").cast(pl.Float64)).to_list() == [
        None if each is None else float(each) for each in values
    ]
    wholes = [None if each is None else int(each) for each in values]
    for kind, (_, least, most) in INTEGERS.items():
        fits = [each if each is not None and least <= each <= most else None for each in wholes]
        assert _evaluated(frame, pl.col("a").cast(kind, strict=False)).to_list() == fits
        wrapped = [
            None if each is None else (each - least) % (most - least + 1) + least for each in wholes
        ]
        assert _evaluated(frame, pl.col("a").cast(kind, wrap_numerical=True)).to_list() == wrapped


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.floats(), min_size=1, max_size=8), digits())
def test_floats_are_the_decimals_that_they_are_written_as(values: list[Any], to: Digits) -> None:
    frame = pl.DataFrame({"a": pl.Series(values, dtype=pl.Float64)})
    found = _evaluated(frame, pl.col("a").cast(pl.Decimal(*to), strict=False)).to_list()
    finite = [None if each is None or each - each != 0 else Decimal(repr(each)) for each in values]
    assert found == [None if each is None else rounded(Fraction(each), to) for each in finite]


FRAME = pl.DataFrame(
    {
        "p": pl.Series([Decimal("1.25"), Decimal("-1.25"), None], dtype=pl.Decimal(10, 2)),
        "q": pl.Series([Decimal("1.5"), Decimal("3.3333"), Decimal(0)], dtype=pl.Decimal(12, 4)),
        "n": pl.Series([1, 2, 3], dtype=pl.Int64),
        "f": [0.5, 2.5, 0.1],
        "s": pl.Series(["1.005", " +1e3 ", "1_0"]),
    }
).with_columns(both=pl.concat_list("p", "q"), pair=pl.struct("p", "q"))
P, Q, N, F = (pl.col(name) for name in "pqnf")
CASES: dict[str, tuple[pl.Expr, pl.DataType, list[Any]]] = {
    "a constant has its own digits": (
        P * Decimal("1.50"),
        pl.Decimal(14, 4),
        ["1.8750", "-1.8750", None],
    ),
    "so has an integer": (2 * P, pl.Decimal(12, 2), ["2.50", "-2.50", None]),
    "one of a type is a constant, too": (
        pl.lit(200, dtype=pl.Int32) * P,
        pl.Decimal(14, 2),
        ["250", "-250", None],
    ),
    "a cast constant has the digits of its type": (
        pl.lit(2).cast(pl.Int16) * P,
        pl.Decimal(16, 2),
        ["2.50", "-2.50", None],
    ),
    "NULL": (P + pl.lit(None), pl.Decimal(11, 2), [None, None, None]),
    "floats win": (P * F, pl.Float64(), [0.625, -3.125, None]),
    "a float in the program": (P * 0.5, pl.Float64(), [0.625, -0.625, None]),
    "minus": (-P, pl.Decimal(10, 2), ["-1.25", "1.25", None]),
    "steps": ((P + Q) * (P - Q), pl.Decimal(27, 8), ["-0.6875", "-9.54838889", None]),
    "whole numbers below": (P.floor(), pl.Decimal(9, 0), ["1", "-2", None]),
    "whole numbers above": (Q.ceil(), pl.Decimal(9, 0), ["2", "4", "0"]),
    "powers": (P**2, pl.Float64(), [1.5625, 1.5625, None]),
    "divided by 0": (P / 0, pl.Decimal(14, 6), [None, None, None]),
    "sums of columns": (pl.sum_horizontal(P, Q), pl.Decimal(13, 4), ["2.75", "2.0833", "0"]),
    "the greatest": (pl.max_horizontal(P, Q), pl.Decimal(12, 4), ["1.5", "3.3333", "0"]),
    "held within bounds": (P.clip(0, Decimal("1.005")), pl.Decimal(11, 3), ["1.005", "0", None]),
    "a choice": (
        pl.when(N > 1).then(P).otherwise(0),
        pl.Decimal(10, 2),
        ["0", "-1.25", None],
    ),
    "elements of lists": (
        pl.col("both").list.eval(pl.element() * pl.element()).list.last(),
        pl.Decimal(25, 8),
        ["2.25", "11.11088889", "0"],
    ),
    "fields": (
        pl.col("pair").struct.with_fields(p=pl.field("p") * pl.field("q")).struct.field("p"),
        pl.Decimal(23, 6),
        ["1.875", "-4.166625", None],
    ),
    "texts": (
        pl.col("s").cast(pl.Decimal(10, 2), strict=False),
        pl.Decimal(10, 2),
        ["1.01", "1000", None],
    ),
    "conditions": ((P > 1) & (Q < 2), pl.Boolean(), [True, False, None]),
    "membership": (P.is_in([Decimal("1.250"), Decimal(7)]), pl.Boolean(), [True, False, None]),
    "next to infinity": (pl.lit(float("inf")) > P, pl.Boolean(), [True, True, None]),
}


@pytest.mark.parametrize("name", CASES)
def test_other_operations_on_decimals(name: str) -> None:
    expr, kind, values = CASES[name]
    found = _evaluated(FRAME, expr)
    assert found.dtype == kind
    expected = [Decimal(each) if isinstance(each, str) else each for each in values]
    assert found.to_list() == expected


def test_selectors_compute_for_each_column() -> None:
    made = FRAME.select(exact([pl.col("p", "q") * 2], FRAME.lazy()))
    assert made.schema == {"p": pl.Decimal(12, 2), "q": pl.Decimal(14, 4)}


def test_expressions_without_decimals_are_left_as_they_are() -> None:
    given = N * 2 + F
    assert exact_one(given, FRAME.lazy()) is given
    assert exact_one(P, FRAME.lazy()) is P
