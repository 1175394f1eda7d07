"""The forms in which Polars serialises expressions, one by one, as Rheos reads them. They are private
to Polars. If one of these tests fails with a new version, a refusal or a filter for Spark's readers has
stopped working: correct its reader (`graph/expression_trees.py`, `api/row_separable.py`,
`runtimes/batch/pushdown.py`), and then this test."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars import col, element, lit

from rheos.core.graph.expression_trees import (
    FAILURES,
    computes,
    computes_on_elements,
    expression_of,
    is_constant,
    tree_of,
    types_of,
)

X, S, L, T, ST, C = (col(name) for name in ("x", "s", "l", "t", "st", "c"))
COLUMN, ONE = {"Column": "x"}, {"Literal": {"Dyn": {"Int": 1}}}
FRAME = pl.LazyFrame(
    schema={"x": pl.Float64, "s": pl.String, "l": pl.List(pl.Float64), "st": pl.Struct({"a": pl.Int64})}
)


def binary(op: str) -> dict[str, Any]:
    return {"BinaryExpr": {"left": COLUMN, "op": op, "right": ONE}}


def function(form: Any, *inputs: Any) -> dict[str, Any]:
    return {"Function": {"input": list(inputs), "function": form}}


TREES: dict[str, tuple[pl.Expr, Any]] = {
    "column": (X, COLUMN),
    "alias": (X.alias("y"), {"Alias": [COLUMN, "y"]}),
    "length": (pl.len(), "Len"),
    "integer": (lit(1), ONE),
    "float": (lit(1.5), {"Literal": {"Dyn": {"Float": 1.5}}}),
    "infinity": (lit(math.inf), {"Literal": {"Dyn": {"Float": None}}}),
    "float32 NaN": (lit(math.nan, pl.Float32), {"Literal": {"Scalar": {"Float32": None}}}),
    "choice": (
        pl.when(X).then(1).otherwise(X),
        {"Ternary": {"predicate": COLUMN, "truthy": ONE, "falsy": COLUMN}},
    ),
    "cast": (
        X.cast(pl.Int8, strict=False),
        {"Cast": {"expr": COLUMN, "dtype": {"Literal": "Int8"}, "options": "NonStrict"}},
    ),
    "cast to another's type": (
        X.cast(pl.dtype_of("x")),
        {"Cast": {"expr": COLUMN, "dtype": {"OfExpr": COLUMN}, "options": "Strict"}},
    ),
    "elements": (
        col("x").list.eval(element()),
        {"Eval": {"expr": COLUMN, "evaluation": "Element", "variant": "List"}},
    ),
    "fields": (
        col("x").struct.with_fields(pl.field("a")),
        {"StructEval": {"expr": COLUMN, "evaluation": [{"Field": ["a"]}], "variant": "WithFields"}},
    ),
    "field": (X.struct.field("a"), function({"StructExpr": {"FieldByName": "a"}}, COLUMN)),
    "SQL operator": (pl.sql_expr("x / 1"), function({"Sql": {"Binary": "Div"}}, COLUMN, ONE)),
    "between": (
        X.is_between(1, 1),
        function({"Boolean": {"IsBetween": {"closed": "Both"}}}, COLUMN, ONE, ONE),
    ),
    "all of": (pl.all_horizontal(X, X), function({"Boolean": "AllHorizontal"}, COLUMN, COLUMN)),
    "any of": (pl.any_horizontal(X, X), function({"Boolean": "AnyHorizontal"}, COLUMN, COLUMN)),
    "fill_null": (X.fill_null(1), function("FillNull", COLUMN, ONE)),
    "pow": (X.pow(1), function({"Pow": "Generic"}, COLUMN, ONE)),
    "log": (X.log(1), function("Log", COLUMN, ONE)),
    "and": (X & 1, binary("And")),
    "or": (X | 1, binary("Or")),
    "xor": (X ^ 1, binary("Xor")),
    "eq": (X == 1, binary("Eq")),
    "ne": (X != 1, binary("NotEq")),
    "lt": (X < 1, binary("Lt")),
    "le": (X <= 1, binary("LtEq")),
    "gt": (X > 1, binary("Gt")),
    "ge": (X >= 1, binary("GtEq")),
    "eq_missing": (X.eq_missing(1), binary("EqValidity")),
    "ne_missing": (X.ne_missing(1), binary("NotEqValidity")),
    "plus": (X + 1, binary("Plus")),
    "minus": (X - 1, binary("Minus")),
    "times": (X * 1, binary("Multiply")),
    "divide": (X / 1, binary("TrueDivide")),
    "floordiv": (X // 1, binary("FloorDivide")),
    "mod": (X % 1, binary("Modulus")),
}
if hasattr(pl.Expr, "truncdiv"):  # Since Polars 2.1.
    TREES["truncdiv"] = (X.truncdiv(1), binary("TruncDivide"))


@pytest.mark.parametrize("name", TREES)
def test_a_tree_has_the_expected_form(name: str) -> None:
    expr, tree = TREES[name]
    assert tree_of(expr) == tree


FUNCTIONS: dict[str, tuple[pl.Expr, Any]] = {
    "not": (X.not_(), {"Boolean": "Not"}),
    "is_null": (X.is_null(), {"Boolean": "IsNull"}),
    "is_not_null": (X.is_not_null(), {"Boolean": "IsNotNull"}),
    "is_nan": (X.is_nan(), {"Boolean": "IsNan"}),
    "is_not_nan": (X.is_not_nan(), {"Boolean": "IsNotNan"}),
    "is_finite": (X.is_finite(), {"Boolean": "IsFinite"}),
    "is_infinite": (X.is_infinite(), {"Boolean": "IsInfinite"}),
    "is_in": (X.is_in([1.0]), {"Boolean": {"IsIn": {"nulls_equal": False}}}),
    "SQL's in": (pl.sql_expr("x in (1, 2)"), {"Sql": {"IsIn": {"nulls_equal": False}}}),
    "negate": (-X, "Negate"),
    "abs": (X.abs(), "Abs"),
    "starts_with": (S.str.starts_with("a"), {"StringExpr": "StartsWith"}),
    "ends_with": (S.str.ends_with("a"), {"StringExpr": "EndsWith"}),
    "contains": (S.str.contains("a"), {"StringExpr": {"Contains": {"literal": False, "strict": True}}}),
    "contains text": (
        S.str.contains("a", literal=True),
        {"StringExpr": {"Contains": {"literal": True, "strict": False}}},
    ),
    "SQL's like": (pl.sql_expr("s like 'a%'"), {"StringExpr": "StartsWith"}),
    "lowercase": (S.str.to_lowercase(), {"StringExpr": "Lowercase"}),
    "uppercase": (S.str.to_uppercase(), {"StringExpr": "Uppercase"}),
    "len_bytes": (S.str.len_bytes(), {"StringExpr": "LenBytes"}),
    "len_chars": (S.str.len_chars(), {"StringExpr": "LenChars"}),
    "year": (T.dt.year(), {"TemporalExpr": "Year"}),
    "month": (T.dt.month(), {"TemporalExpr": "Month"}),
    "day": (T.dt.day(), {"TemporalExpr": "Day"}),
    "hour": (T.dt.hour(), {"TemporalExpr": "Hour"}),
    "minute": (T.dt.minute(), {"TemporalExpr": "Minute"}),
    "second": (T.dt.second(), {"TemporalExpr": "Second"}),
    "weekday": (T.dt.weekday(), {"TemporalExpr": "WeekDay"}),
    "ordinal_day": (T.dt.ordinal_day(), {"TemporalExpr": "OrdinalDay"}),
    "to_physical": (C.to_physical(), "ToPhysical"),
    "cat.physical": (C.cat.physical(), {"Categorical": "Physical"}),
    "hash": (C.hash(), {"Hash": 0}),
    "min_horizontal": (pl.min_horizontal(X, C), "MinHorizontal"),
    "max_horizontal": (pl.max_horizontal(X, C), "MaxHorizontal"),
    "list.min": (L.list.min(), {"ListExpr": "Min"}),
    "list.max": (L.list.max(), {"ListExpr": "Max"}),
    "arr.min": (L.arr.min(), {"ArrayExpr": "Min"}),
    "arr.max": (L.arr.max(), {"ArrayExpr": "Max"}),
    "peak_min": (X.peak_min(), "PeakMin"),
    "peak_max": (X.peak_max(), "PeakMax"),
    "replace": (X.replace(1, X), "Replace"),
    "replace_strict": (X.replace_strict(1, X), {"ReplaceStrict": {"return_dtype": None}}),
    "str.replace": (S.str.replace("a", "b"), {"StringExpr": {"Replace": {"n": 1, "literal": False}}}),
    "list.count_matches": (L.list.count_matches(1), {"ListExpr": "CountMatches"}),
    "arr.count_matches": (L.arr.count_matches(1), {"ArrayExpr": "CountMatches"}),
    "list.sum": (L.list.sum(), {"ListExpr": "Sum"}),
    "list.mean": (L.list.mean(), {"ListExpr": "Mean"}),
    "arr.sum": (L.arr.sum(), {"ArrayExpr": "Sum"}),
    "arr.slice": (L.arr.slice(0, 2, as_array=True), {"ArrayExpr": {"Slice": [0, 2]}}),
    "shuffle": (X.shuffle(), {"Random": {"method": "Shuffle", "seed": None}}),
    "mode": (X.mode(), {"Mode": {"maintain_order": False}}),
    "reinterpret": (X.reinterpret(signed=False), {"Reinterpret": [False, None]}),
    "arr.to_struct": (L.arr.to_struct(), {"ArrayExpr": {"ToStruct": {"fields": None}}}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_expected_form(name: str) -> None:
    expr, form = FUNCTIONS[name]
    assert tree_of(expr)["Function"]["function"] == form


DEEP: dict[str, tuple[pl.Expr, list[str]]] = {
    "categories": (X.cat.to(pl.Categorical), ["Categorical", "To"]),
    "list.sample": (L.list.sample(n=1), ["ListExpr", "Sample", "seed"]),
    "rank": (X.rank("random"), ["Rank", "options", "method"]),
    "value_counts": (X.value_counts(), ["ValueCounts", "sort"]),
    "contains_any": (S.str.contains_any(["a"]), ["StringExpr", "ContainsAny"]),
    "replace_many": (S.str.replace_many(["a"], ["b"]), ["StringExpr", "ReplaceMany"]),
    "fields by pattern": (ST.struct.field("*"), ["StructExpr", "SelectFields"]),
    "breaks": (X.bin_intervals([1.0], labels=False), ["Bin", "method", "Intervals", "spec", "Breaks"]),
    "business days": (T.dt.is_business_day(), ["Business"]),
}


@pytest.mark.parametrize("name", DEEP)
def test_properties_of_a_function_exist(name: str) -> None:
    expr, path = DEEP[name]
    form = tree_of(expr)["Function"]["function"]
    for step in path:
        assert step in form
        form = form[step]


def test_the_format_of_times_is_known() -> None:
    for expr, written in ((S.str.to_datetime(), None), (S.str.to_date("%Y"), "%Y")):
        _, options = tree_of(expr)["Function"]["function"]["StringExpr"]["Strptime"]
        assert options["format"] == written


def test_columns_that_are_selected_are_a_selector() -> None:
    for expr in (pl.all(), col(pl.Int64), col("^a.*$"), pl.all().exclude("a")):
        assert tree_of(expr).keys() == {"Selector"}


def test_a_series_and_a_list_are_literals() -> None:
    for expr in (lit(pl.Series([1, 2])), lit([1, 2])):
        assert tree_of(expr).keys() == {"Literal"}
    assert str(lit(pl.Series([1, 2]))) == "Series"


@pytest.mark.parametrize(
    ("variant", "expr"),
    [
        ("List", L.list.eval(element() + 1)),
        ("ListAgg", L.list.agg(element().sum())),
        ({"Array": {"as_list": False}}, L.arr.eval(element() + 1)),
        ("ArrayAgg", L.arr.agg(element().sum())),
        ({"Cumulative": {"min_samples": 1}}, X.cumulative_eval(element().sum())),
    ],
)
def test_the_ways_to_evaluate_elements_are_known(variant: Any, expr: pl.Expr) -> None:
    assert tree_of(expr)["Eval"]["variant"] == variant


@pytest.mark.parametrize(
    "expr",
    [
        X.map_batches(lambda series: series),
        X.map_elements(lambda value: value, return_dtype=pl.Float64),
        X.pipe_with_dtype(lambda expr, _: expr),
        pl.fold(lit(0), lambda a, b: a + b, [X, X]),
        pl.reduce(lambda a, b: a + b, [X, X]),
        pl.cum_fold(lit(0), lambda a, b: a + b, [X, X]),
        pl.cum_reduce(lambda a, b: a + b, [X, X]),
        X.rolling_map(lambda series: series[0], 1),
        X.name.map(str.upper),
        ST.name.map_fields(str.upper),
        L.list.eval(element().map_batches(lambda series: series)),
    ],
    ids=str,
)
@pytest.mark.parametrize("ships", [False, True])
def test_expressions_that_call_python_have_no_tree(
    expr: pl.Expr, ships: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check this also if Polars could serialise the function, which it does if cloudpickle is
    installed."""
    if ships:
        cloudpickle = pytest.importorskip("pyspark.cloudpickle")
        monkeypatch.setitem(__import__("sys").modules, "cloudpickle", cloudpickle)
    assert tree_of(expr) is None


def test_an_infinite_literal_is_examined_like_others() -> None:
    for expr in (X.lt(math.inf), X.fill_null(math.nan), lit({"a": math.inf}), X.clip(0, -math.inf)):
        asked = expression_of(tree_of(expr))
        assert FRAME.select(asked).collect_schema() == FRAME.select(expr).collect_schema()


def test_constants_are_distinguished_from_expressions_over_rows() -> None:
    assert all(is_constant(tree_of(expr)) for expr in (lit(1), lit("Element"), lit([1]).list.sum() + 1))
    looking = [X, pl.len(), pl.all(), X.list.eval(element()), ST.struct.with_fields(pl.field("a"))]
    assert not any(is_constant(tree_of(expr)) for expr in looking)


def test_types_are_found_within_lists_and_structs() -> None:
    assert types_of(tree_of(X / 3), FRAME) == [pl.Float64]
    assert types_of(tree_of(pl.all()), FRAME) == FRAME.collect_schema().dtypes()
    assert types_of(tree_of(col("nobody")), FRAME) == []


def test_computing_expressions_are_recognised() -> None:
    assert all(map(computes, [X / 3, -X + 1, X.pow(2), X.clip(0, 1), L.list.eval(element() / 3)]))
    assert not any(map(computes, [X, X > 3, (X > 3) & S.is_null(), X.abs(), pl.when(X > 1).then(X)]))


@pytest.mark.parametrize(
    ("expr", "on_elements"),
    [
        (X / 3, False),
        (L.list.len() / 3, False),
        (L / 3, True),
        (L.list.eval(element() / 3), True),
        (L.list.eval(element() ** 2), True),
        (L.list.unique(), False),
        (L.list.filter(element() > 1), False),
        (S.str.split(",").list.eval(element().str.len_bytes() / 3), True),
        (L.list.eval((element() / 3).alias("Element")), True),
    ],
    ids=str,
)
def test_computing_expressions_on_elements_are_recognised(expr: pl.Expr, on_elements: bool) -> None:
    assert computes_on_elements(expr, FRAME) is on_elements


ORDINARY = st.floats(1e-5, 1e22) | st.floats(-1e22, -1e-5) | st.just(0.0)


@given(ORDINARY)
def test_a_float_is_restored_to_its_last_digit(value: float) -> None:
    for literal in (pl.lit(value), pl.lit(value, dtype=pl.Float64)):
        assert pl.select(expression_of(tree_of(literal))).item() == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_is_restored_or_refused(value: float) -> None:
    try:
        made = expression_of(tree_of(pl.lit(value)))
    except FAILURES:
        return
    assert pl.select(made).item() == value
