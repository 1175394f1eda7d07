"""Accepted expressions: lists, arrays, structs, maps."""

from __future__ import annotations

import polars as pl
from polars import col, element, lit

from tests.api.company.columns import (
    A1,
    AB,
    AF,
    AI,
    AW,
    CATEGORY_LISTS,
    LB,
    LI,
    LL,
    LS,
    ST,
    C,
    F,
    G,
    I,
    J,
    K,
    L,
    M,
    S,
    U,
    each,
    takes,
)
from tests.api.company.rows import INF, NAN

# --- lists and arrays -----------------------------------------------------------------------------

_OF_BOTH = (
    "arg_max arg_min first last len max median min n_unique reverse shift sort std var unique head tail"
)
each("list", _OF_BOTH, L, LI, LS.list.eval(element().str.len_bytes()))
each("list", "sort arg_max arg_min unique n_unique len first", LS, CATEGORY_LISTS)
each("list", "max min", LS)
each("list", "diff drop_nulls", L, LI)
each("list", "any all", LB)
takes("list.sum", LI.list.sum(), LB.list.sum(), LI.list.sum() / 3)
takes("list.any", LB.list.any(ignore_nulls=False))
takes("list.all", LB.list.all(ignore_nulls=False))
takes("list.unique", L.list.unique(maintain_order=True), LS.list.unique(maintain_order=True))
takes("list.shift", L.list.shift(U))
takes("list.head", L.list.head(U))
takes("list.tail", L.list.tail(U))
takes("list.std", L.list.std(0))
takes("list.var", L.list.var(0))
takes("list.slice", L.list.slice(1, 2), L.list.slice(U, J))
takes("list.concat", L.list.concat(L), L.list.concat("lf"))
takes(
    "list.contains",
    L.list.contains(0.1),
    L.list.contains(F),
    LS.list.contains(S),
    lit([1, 2]).list.contains(I),
)
takes("list.contains", L.list.contains(NAN), CATEGORY_LISTS.list.contains("a"))
takes("list.count_matches", L.list.count_matches(0.1), LS.list.count_matches("b"))
takes("list.gather", LI.list.gather([0, 1], null_on_oob=True), LI.list.gather(LI, null_on_oob=True))
takes("list.gather_every", LI.list.gather_every(2), LI.list.gather_every(U + 1, U))
takes("list.get", L.list.get(0, null_on_oob=True), L.list.get(J, null_on_oob=True) // 0.1)
takes("list.get", lit([1.0, 2.0, 3.0]).list.get(U, null_on_oob=True))
takes("list.item", LI.list.head(1).list.item(allow_empty=True))
takes("list.join", LS.list.join(","), LS.list.join(K), LS.list.join(",", ignore_nulls=False))
takes(
    "list.sample",
    LI.list.sample(fraction=1.0, shuffle=True, seed=1),
    LI.list.sample(fraction=0.5, seed=1),
)
for _name in ("set_difference", "set_intersection", "set_symmetric_difference", "set_union"):
    _texts, _numbers = getattr(LS.list, _name), getattr(LI.list, _name)
    takes(f"list.{_name}", _numbers(LI.list.reverse()), _numbers([1, 2, 9]), _texts(["a"]), _texts(LS))
    takes(f"list.{_name}", getattr(L.list, _name)(L.list.reverse()))
takes("list.to_array", col("l3").list.to_array(3))
takes("list.to_map", col("le").list.to_map())
takes("list.to_struct", LI.list.to_struct(["a", "b"]))
takes("list.filter", L.list.filter(element() > 0.2), L.list.filter(element() / 3 > 0.1))
takes(
    "list.filter", L.list.filter(element() > element().mean()), L.list.filter(element() / 3 == 0.5 / 3)
)
_X, _AGG, _EVAL = element(), L.list.agg, L.list.eval
takes(
    "list.agg",
    _AGG(_X.sum()),
    _AGG(_X.mean()),
    _AGG(_X.std()),
    _AGG(_X.len()),
    _AGG(_X.sum() / 3),
    _AGG(_X / 3),
)
takes(
    "list.agg",
    _AGG(_X.first() / 3),
    _AGG((_X / 3).sum()),
    _AGG(_X.sample(fraction=1.0, seed=3)),
    _AGG(_X.max()),
)
takes("list.agg", _AGG(_X.product()), _AGG(_X.median()), _AGG(((_X - _X.mean()) ** 2).sum() / _X.len()))
takes(
    "list.agg",
    (LI * 2**58).list.agg(_X.mean()),
    LB.list.agg(_X.mean()),
    _AGG(_X.skew()),
    _AGG(_X.quantile(0.3)),
)
takes(
    "list.eval",
    _EVAL(_X / 3),
    _EVAL(_X // 0.1),
    _EVAL(_X % 0.1),
    _EVAL(_X - _X.mean()),
    _EVAL(_X.rank()),
)
takes(
    "list.eval",
    _EVAL(_X.sort()),
    _EVAL(_X.cum_sum() / 3),
    _EVAL(_X / _X.sum()),
    _EVAL(_X**0.5),
    _EVAL(_X.sum() / 3),
)
takes(
    "list.eval",
    LI.list.eval(_X / 3),
    _EVAL(_X.shuffle(seed=1)),
    _EVAL(pl.len()),
    _EVAL(pl.int_range(pl.len())),
)
takes(
    "list.eval",
    LL.list.eval(_X.list.eval(_X / 3)),
    LL.list.eval(_X / 3),
    LL.list.eval(_X.list.first() / 3),
)
takes("list.eval", LL.list.eval(_X.list.agg(_X.sum() / 3)), LS.list.eval(_X.str.len_bytes() / 3))
takes(
    "list.eval",
    _EVAL(_X.filter(_X > 0.2) / 3),
    _EVAL(_X.reverse() / 3),
    _EVAL(pl.when(_X > 0.2).then(_X / 3)),
)
takes(
    "list.eval",
    _EVAL(_X.sum() / 7 + _X),
    _EVAL(_X.fill_null(INF)),
    _EVAL(lit(1) / 3),
    _EVAL(_X.shift() / 3),
)
takes(
    "list.eval", _EVAL(_X.drop_nulls() / 3), _EVAL(_X.is_in([0.1, 0.2])), _EVAL(_X.replace({0.1: 5.0}))
)
takes(
    "list.eval",
    _EVAL(_X.clip(0.2, _X.max())),
    _EVAL(_X.log(3)),
    _EVAL(_X.rolling_mean(2)),
    _EVAL(_X.unique() / 3),
)
takes(
    "list.eval",
    _EVAL(_X.sum().over(_X > 0.2)),
    _EVAL(_X.mode(maintain_order=True)),
    LS.list.eval(_X.hash()),
)
takes(
    "list.eval",
    LS.list.eval(_X.value_counts(sort=True)),
    LS.list.eval(_X.rank("ordinal")),
    _EVAL(_X.top_k(2)),
)
takes("list.eval", S.str.split("b").list.eval(_X.str.len_bytes() / 3))
_CATEGORIES_EVAL = CATEGORY_LISTS.list.eval
takes(
    "list.eval",
    _CATEGORIES_EVAL(_X.rank()),
    _CATEGORIES_EVAL(_X.sort()),
    _CATEGORIES_EVAL(_X.arg_sort()),
)
takes(
    "list.eval",
    _CATEGORIES_EVAL(_X.top_k(1)),
    _CATEGORIES_EVAL(_X.arg_max()),
    _CATEGORIES_EVAL(_X.first() < _X),
)
takes("list.agg", CATEGORY_LISTS.list.agg(_X.max()), CATEGORY_LISTS.list.agg(_X.min()))
takes(
    "list.eval",
    F.repeat_by(U).list.eval(_X / 3),
    M.map.values().list.eval(_X / 3),
    _EVAL(_X.alias("Element")),
)
each("arr", f"{_OF_BOTH} mean to_list to_struct", AF, AI, AW, A1)
each("arr", "any all", AB)
takes("arr.sum", AI.arr.sum())
takes("arr.to_struct", AF.arr.to_struct(["a", "b", "c"]))
takes("arr.shift", AF.arr.shift(U))
takes(
    "arr.agg",
    AF.arr.agg(_X.sum()),
    AW.arr.agg(_X.sum()),
    AF.arr.agg((_X / 3).sum()),
    AF.arr.agg(_X.sum() / 3),
)
takes("arr.agg", AW.arr.agg(_X.mean()))
takes(
    "arr.eval",
    AF.arr.eval(_X / 3),
    AF.arr.eval(_X.rank()),
    AF.arr.eval(_X / _X.sum()),
    A1.arr.eval(_X / 3),
)
takes("arr.eval", AF.arr.eval(_X - _X.mean(), as_list=True))
takes("arr.contains", AF.arr.contains(0.1), AF.arr.contains(F))
takes("arr.count_matches", AF.arr.count_matches(0.1))
takes("arr.dot", AF.arr.dot(AF), AF.arr.dot([0.1, 0.2, 0.3]), AW.arr.dot(AW))
takes("arr.get", AF.arr.get(0), AF.arr.get(U, null_on_oob=True))
takes(
    "arr.join",
    AI.cast(pl.Array(pl.String, 3)).arr.join(","),
    AI.cast(pl.Array(pl.String, 3)).arr.join(K),
)
takes("arr.slice", AF.arr.slice(1, 1), AF.arr.slice(U, 1))
takes(
    "pl.concat_list",
    pl.concat_list(F, G),
    pl.concat_list(L, 1.0),
    pl.concat_list(1.0, F),
    pl.concat_list(C, C),
)
takes("pl.concat_arr", pl.concat_arr(F, F))
takes("pl.list", pl.list(F, 1.0))
takes("pl.int_ranges", pl.int_ranges(0, U), pl.int_ranges(U, U + 3))
takes("pl.linear_spaces", pl.linear_spaces(0, G.fill_nan(0).clip(0, 9), 3), pl.linear_spaces(J, 1, U))
takes("pl.element", _EVAL(element()))

# --- structs and maps -----------------------------------------------------------------------------

takes("struct.drop", ST.struct.drop(["a"]))
takes(
    "struct.eval",
    ST.struct.eval(pl.field("b") / 3),
    ST.struct.eval(q=lit(1)),
    ST.struct.eval(L.list.first() / 3),
)
takes(
    "struct.with_fields",
    ST.struct.with_fields(pl.field("b") / 3),
    ST.struct.with_fields(q=_EVAL(_X / 3)),
)
takes(
    "struct.with_fields",
    ST.struct.with_fields(q=pl.struct(pl.field("b")).struct.with_fields(pl.field("b") / 3)),
)
takes("struct.field", ST.struct.field("b"), ST.struct.field("*"), ST.struct.field("a", "b"))
takes("struct.json_encode", ST.struct.json_encode(), pl.struct(C, I).struct.json_encode())
takes("struct.rename_fields", ST.struct.rename_fields(["p", "q"]))
takes("struct.unnest", ST.struct.unnest())
takes("pl.field", ST.struct.with_fields(pl.field("a") + pl.field("b")))
takes("pl.struct", pl.struct(F, S), pl.struct(F, lit(1).alias("q")), pl.struct(pl.all()))
takes("map.contains_key", M.map.contains_key("a"), M.map.contains_key(S))
takes("map.get", M.map.get("a"), M.map.get(S))
each("map", "keys values len entries", M)
