"""Refused forms of each function: the result for a row depends on other rows, or on chance. First come
functions of whole columns, then Python functions, then functions that Polars wrongly calls row-wise."""

from __future__ import annotations

import datetime as dt

import polars as pl
from polars import Expr, col, element, lit

from tests.api.company.columns import (
    AF,
    AI,
    AW,
    CATEGORIES,
    CATEGORY_LISTS,
    LI,
    LL,
    LS,
    ST,
    B,
    C,
    F,
    I,
    J,
    K,
    L,
    S,
    U,
)

REFUSED: dict[str, list[Expr]] = {}


def refuses(name: str, *exprs: Expr) -> None:
    REFUSED.setdefault(name, []).extend(exprs)


# --- of whole columns -----------------------------------------------------------------------------

for _name in (
    *(
        "approx_n_unique",
        "arg_max",
        "arg_min",
        "arg_sort",
        "arg_unique",
        "backward_fill",
        "bottom_k",
        "count",
    ),
    *(
        "cum_count",
        "cum_max",
        "cum_min",
        "cum_prod",
        "cum_sum",
        "diff",
        "drop_nans",
        "drop_nulls",
        "entropy",
    ),
    *(
        "first",
        "forward_fill",
        "has_nulls",
        "head",
        "implode",
        "interpolate",
        "is_duplicated",
        "is_empty",
    ),
    *(
        "is_first_distinct",
        "is_last_distinct",
        "is_sorted",
        "is_unique",
        "item",
        "kurtosis",
        "last",
        "len",
    ),
    *("limit", "lower_bound", "max", "mean", "median", "min", "mode", "n_unique", "nan_max", "nan_min"),
    *(
        "null_count",
        "pct_change",
        "peak_max",
        "peak_min",
        "product",
        "rank",
        "reverse",
        "rle",
        "rle_id",
    ),
    *(
        "sample",
        "shift",
        "shuffle",
        "skew",
        "sort",
        "std",
        "sum",
        "tail",
        "top_k",
        "unique",
        "unique_counts",
    ),
    *("upper_bound", "value_counts", "var"),
):
    refuses(f"Expr.{_name}", getattr(F, _name)(), getattr(F, _name)() / 3)
for _name in ("all", "any", "arg_true", "bitwise_and", "bitwise_or", "bitwise_xor"):
    refuses(f"Expr.{_name}", getattr(B, _name)())
for _name in ("kurtosis", "max", "mean", "median", "min", "rank", "skew", "std", "sum", "var"):
    refuses(f"Expr.rolling_{_name}", getattr(F, f"rolling_{_name}")(window_size=1))
for _name in ("max", "mean", "median", "min", "rank", "std", "sum", "var"):
    refuses(f"Expr.rolling_{_name}_by", getattr(F, f"rolling_{_name}_by")("i", "2i"))
for _name in ("mean", "std", "sum", "var"):
    refuses(f"Expr.ewm_{_name}", getattr(F, f"ewm_{_name}")(com=1))
for _name in ("mean", "sum"):
    refuses(f"Expr.ewm_{_name}_by", getattr(F, f"ewm_{_name}_by")("i", half_life="2i"))
refuses("Expr.rolling_quantile", F.rolling_quantile(0.5, window_size=1))
refuses("Expr.rolling_quantile_by", F.rolling_quantile_by("i", "2i", quantile=0.5))
refuses("Expr.rolling", F.sum().rolling("i", period="2i"))
refuses("Expr.append", F.append(F))
refuses("Expr.approx_quantile", F.approx_quantile(0.5))
refuses("Expr.bin_intervals", F.bin_intervals(3, labels=False))
refuses("Expr.bin_quantiles", F.bin_quantiles([0.5], labels=False))
refuses("Expr.bin_ranks", F.bin_ranks([0.5], labels=False))
refuses("Expr.bottom_k_by", F.bottom_k_by(I))
refuses("Expr.top_k_by", F.top_k_by(I))
refuses("Expr.cumulative_eval", F.cumulative_eval(element().sum()))
refuses("Expr.dot", F.dot(F))
refuses("Expr.explode", L.explode())
refuses("Expr.extend_constant", F.extend_constant(1, 2))
refuses("Expr.fill_null", *(F.fill_null(strategy=way) for way in ("forward", "min", "mean")))
refuses("Expr.filter", F.filter(B))
refuses("Expr.gather", F.gather([0]))
refuses("Expr.gather_every", F.gather_every(1))
refuses("Expr.get", F.get(0))
refuses("Expr.hist", F.hist(bin_count=3))
refuses("Expr.index_of", F.index_of(1.0))
refuses("Expr.interpolate_by", F.interpolate_by("i"))
refuses("Expr.max_by", F.max_by("i"))
refuses("Expr.min_by", F.min_by("i"))
refuses("Expr.over", F.sum().over("s"), F.over("s"))
refuses("Expr.qcut", F.qcut(2))
refuses("Expr.quantile", F.quantile(0.5))
refuses("Expr.reshape", F.reshape((-1, 1)), F.reshape((-1,)))
refuses("Expr.search_sorted", F.search_sorted(1.0), lit(pl.Series([1, 2])).search_sorted(I))
refuses("Expr.slice", F.slice(0, 1))
refuses("Expr.sort_by", F.sort_by("i"))
refuses("str.join", S.str.join(","))
refuses("list.explode", L.list.explode())
refuses("arr.explode", AF.arr.explode())
for _name in (
    "approx_n_unique",
    "cum_sum",
    "first",
    "implode",
    "last",
    "max",
    "mean",
    "median",
    "min",
    "n_unique",
):
    refuses(f"pl.{_name}", getattr(pl, _name)("f"))
for _name in ("count", "cum_count", "head", "std", "sum", "tail", "var"):
    refuses(f"pl.{_name}", getattr(pl, _name)("f"))
refuses("pl.all", pl.all("b"))
refuses("pl.any", pl.any("b"))
refuses("pl.arange", pl.arange(0, pl.len()))
refuses("pl.arg_sort_by", pl.arg_sort_by("f"))
refuses("pl.arg_where", pl.arg_where(B))
refuses("pl.corr", pl.corr("f", "i"))
refuses("pl.cov", pl.cov("f", "i"))
refuses("pl.date_range", pl.date_range(dt.date(2026, 1, 1), dt.date(2026, 1, 3)))
refuses("pl.datetime_range", pl.datetime_range(dt.date(2026, 1, 1), dt.date(2026, 1, 3)))
refuses("pl.time_range", pl.time_range())
refuses("pl.int_range", pl.int_range(pl.len()), pl.int_range(0, 3))
refuses("pl.len", pl.len())
refuses("pl.linear_space", pl.linear_space(0, 1, pl.len()))
refuses("pl.lit", lit(pl.Series([1, 2])), lit(pl.Series([1])), I + pl.Series([1]))
refuses("list.concat", L.list.concat([1.0]))
refuses("pl.ones", pl.ones(pl.len()))
refuses("pl.quantile", pl.quantile("f", 0.5))
refuses("pl.repeat", pl.repeat(1, pl.len()))
refuses("pl.rolling_corr", pl.rolling_corr("f", "i", window_size=2))
refuses("pl.rolling_cov", pl.rolling_cov("f", "i", window_size=2))
refuses("pl.row_index", pl.row_index())
refuses("pl.zeros", pl.zeros(pl.len()))
_SQL = (
    *(
        "sum(f)",
        "avg(f)",
        "count(*)",
        "max(f) + f",
        "first(f)",
        "stddev(f)",
        "median(f)",
        "array_agg(f)",
    ),
    *(
        "count(distinct s)",
        "corr(f, i)",
        "row_number() over (order by i)",
        "sum(f) over (partition by s)",
    ),
    *("rank() over (order by f)", "lag(f) over (order by i)", "unnest(li)", "date(when)"),
    *("array_sum(lf)", "array_mean(lf)"),
)
refuses("pl.sql_expr", *(pl.sql_expr(text.replace("when", '"when"')) for text in _SQL))

# --- Python functions -----------------------------------------------------------------------------


def _same(given: object, *_: object) -> object:
    return given


refuses("Expr.map_batches", F.map_batches(_same))  # type: ignore[arg-type]
refuses("Expr.map_elements", F.map_elements(_same, return_dtype=pl.Float64))
refuses("Expr.pipe_with_dtype", F.pipe_with_dtype(_same))  # type: ignore[arg-type]
refuses("Expr.inspect", F.inspect())
refuses("Expr.rolling_map", F.rolling_map(_same, 1))
refuses("name.map", F.name.map(str.upper))
refuses("name.map_fields", ST.name.map_fields(str.upper))
refuses("name.strip_prefix", F.name.strip_prefix("p"))
refuses("name.strip_suffix", F.name.strip_suffix("p"))
refuses("pl.fold", pl.fold(lit(0), _same, [F, I]))  # type: ignore[arg-type]
refuses("pl.reduce", pl.reduce(_same, [F, I]))  # type: ignore[arg-type]
refuses("pl.cum_fold", pl.cum_fold(lit(0), _same, [F, I]))  # type: ignore[arg-type]
refuses("pl.cum_reduce", pl.cum_reduce(_same, [F, I]))  # type: ignore[arg-type]
refuses("pl.cum_sum_horizontal", pl.cum_sum_horizontal(F, I))
refuses("pl.map_batches", pl.map_batches([F], _same))
refuses("pl.map_groups", pl.map_groups([F], _same, return_dtype=pl.Float64))
refuses("pl.pipe_with_dtype", pl.pipe_with_dtype([F], lambda given: given[0][0]))

# --- what Polars calls row-wise, and is not -------------------------------------------------------

refuses(
    "Expr.replace",
    I.replace(J, U),
    I.replace(1, J),
    I.replace([1, 2], J),
    I.replace(LI, 9),
    I.replace(J, 2),
)
refuses(
    "Expr.replace_strict", I.replace_strict(J, U, default=0), I.replace_strict([1, 2], J, default=0)
)
refuses("str.replace", S.str.replace(K, "x"), S.str.replace(K, K))
refuses("str.replace_all", S.str.replace_all(K, "x"))
refuses("str.replace_many", S.str.replace_many(LS, LS))
refuses("str.contains_any", S.str.contains_any(LS))
refuses("list.count_matches", LI.list.count_matches(I))
refuses("arr.count_matches", AI.arr.count_matches(I))
refuses("Expr.to_physical", C.to_physical(), CATEGORIES.to_physical(), CATEGORY_LISTS.to_physical())
refuses("Expr.to_physical", pl.struct(C).to_physical(), col("c", "s").to_physical())
refuses("cat.physical", C.cat.physical())
refuses("cat.to", U.cast(pl.UInt32).cat.to(pl.Categorical, strict=False))
refuses("Expr.hash", C.hash(), pl.struct(C).hash(), CATEGORY_LISTS.hash(), pl.all().hash())
refuses("pl.max_horizontal", pl.max_horizontal(C, CATEGORIES))
refuses("pl.min_horizontal", pl.min_horizontal(C, CATEGORIES))
refuses("list.max", CATEGORY_LISTS.list.max())
refuses("list.min", CATEGORY_LISTS.list.min())
refuses("list.mean", L.list.mean(), LI.list.mean(), col("lt").list.mean())
refuses(
    "list.sum", L.list.sum(), L.cast(pl.List(pl.Float32)).list.sum(), LL.list.eval(element().list.sum())
)
refuses("arr.sum", AF.arr.sum(), AW.arr.sum())
refuses("arr.slice", AF.arr.slice(0, 2, as_array=True))
refuses("arr.head", AF.arr.head(2, as_array=True))
refuses("arr.tail", AF.arr.tail(2, as_array=True))
for _name, _text in (("to_date", col("when")), ("to_datetime", col("when")), ("to_time", col("when"))):
    refuses(f"str.{_name}", getattr(_text.str, _name)(strict=False))
refuses("str.strptime", col("when").str.strptime(pl.Datetime, strict=False))
refuses("list.sample", LI.list.sample(fraction=0.5), LI.list.sample(fraction=1.0))
refuses(
    "list.agg",
    L.list.agg(element().shuffle().first()),
    L.list.agg(element().sample(fraction=1.0).first()),
)
refuses("arr.agg", AF.arr.agg(element().shuffle().first()))
refuses("arr.eval", AF.arr.eval(element().shuffle()))
refuses("list.filter", L.list.filter(element().shuffle() > 0.1))
refuses("list.eval", L.list.eval(element().shuffle()), L.list.eval(element().rank("random")))
refuses("list.eval", L.list.eval(element().mode()), LS.list.eval(element().value_counts()))
refuses(
    "list.eval",
    LS.list.eval(element().cast(pl.Categorical).to_physical()),
    LS.list.eval(element().str.to_date()),
)
refuses("list.eval", L.list.eval(element().replace(element(), element().reverse())))
refuses("list.eval", CATEGORY_LISTS.list.eval(pl.max_horizontal(element(), element().first())))
refuses("list.eval", CATEGORY_LISTS.list.eval(element().peak_max()))
_B = pl.field("b")
for _name in ("eval", "with_fields"):
    _of = getattr(ST.struct, _name)
    refuses(f"struct.{_name}", _of(q=_B.mean()), _of(q=_B.cum_sum()), _of(q=F.mean()), _of(q=pl.len()))
    refuses(
        f"struct.{_name}",
        _of(q=_B.shuffle()),
        _of(q=_B.cast(pl.String).cast(pl.Categorical).to_physical()),
    )

# --- what has no meaning for a stream -------------------------------------------------------------

refuses("pl.element", element())
refuses("pl.field", pl.field("a"))
