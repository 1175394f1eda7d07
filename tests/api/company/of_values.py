"""Accepted expressions: numbers, comparisons, choice, types and names."""

from __future__ import annotations

import datetime as dt

import polars as pl
from polars import Expr, col, lit

from tests.api.company.columns import (
    A1,
    AF,
    AI,
    CATEGORIES,
    CATEGORY_LISTS,
    DEC,
    DU,
    LETTERS,
    LI,
    LL,
    LS,
    ST,
    TM,
    B,
    C,
    D,
    F,
    G,
    I,
    J,
    K,
    L,
    M,
    S,
    T,
    U,
    Y,
    both,
    each,
    takes,
)
from tests.api.company.rows import INF, NAN

# --- numbers --------------------------------------------------------------------------------------

each(
    "Expr",
    "abs arccos arccosh arcsin arcsinh arctan arctanh cbrt cos cosh cot degrees erf erfc exp "
    "floor ceil log log10 log1p neg radians sign sin sinh sqrt tan tanh truncate is_finite "
    "is_infinite is_nan is_not_nan is_null is_not_null round __abs__ __neg__ __pos__ hash",
    F,
    G,
    I,
)
_NUMBERS: list[tuple[Expr, object]] = [
    *((F, 3), (F, 0.1), (I, 3), (G, 3), (F, U), (I, J), (lit(7), J), (lit(0.7), F), (I, 7.0), (U, 3)),
    *(
        (J, lit(3, pl.Int32)),
        (F, lit(3).cast(pl.Float32)),
        (F, 0.0),
        (F, -3),
        (F, 1e300),
        (I, 0),
        (F, INF),
    ),
]
both("add sub mul truediv floordiv mod", *_NUMBERS)
if hasattr(Expr, "truncdiv"):  # Since Polars 2.1.
    both("truncdiv", *_NUMBERS)
both(
    "__add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ pow",
    *_NUMBERS[:3],
    (F, 0.5),
    (F, -1),
)
both("__radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__", (F, 2.5), (U, 3))
both("pow", (F, J), (I, 2), (lit(2), F), (lit(2), U), (F, 1 / 3), (G, 2.5), (I, 0.5), (F, 2))
takes(
    "Expr.truediv",
    DEC / 3,
    DU / 3,
    DU / DU,
    DEC / (DEC + 1),
    L / 3,
    LI / 3,
    LL / 3,
    AF / 3,
    A1 / 3,
    L / F,
)
takes("Expr.truediv", lit([1.0, 2.0]) / F, F / L, AF / F, F.repeat_by(U) / 3, pl.concat_list(F) / 3)
takes(
    "Expr.truediv", pl.struct(F, G) / 3, pl.struct(L) / 3, L.list.first() / 3, ST.struct.field("b") / 3
)
takes("Expr.truediv", M.map.values() / 3, L.list.sort().list.first() / 3, (F / 3) * 1000 / 7, LI * F)
takes("Expr.floordiv", L // 0.1, DEC // 3, ST.struct.field("b") // 0.1)
takes("Expr.mod", L % 0.1, DEC % 3, LI % 3)
takes("Expr.mul", DU * 3, DU * 0.1, DEC * 3, L * 3.0)
takes(
    "Expr.add",
    S + "x",
    lit("x") + S,
    S + K,
    T + DU,
    D + DU,
    L + L,
    AF + AF,
    pl.struct(F) + pl.struct(G),
)
takes("Expr.sub", T - T, T - dt.datetime(2026, 1, 1), DU - DU)
takes("Expr.log", F.log(3), F.log(J), lit(3).log(F), I.log(2))
takes("Expr.round", F.round(1), F.round(1, mode="half_away_from_zero"), DEC.round(1), G.round(2))
takes("Expr.truncate", F.truncate(1))
takes("Expr.round_sig_figs", F.round_sig_figs(2), I.round_sig_figs(1))
takes("Expr.clip", F.clip(0, 1), F.clip(I, J), F.clip(0, INF), F.clip(lower_bound=NAN), I.clip(0.5, J))
takes("Expr.bin_intervals", F.bin_intervals([0.1, 1.0], labels=False))
takes("Expr.fill_nan", F.fill_nan(1), F.fill_nan(None), F.fill_nan(I), F.fill_nan(INF))
takes("Expr.reinterpret", I.reinterpret(signed=False), F.reinterpret(dtype=pl.Int64))
_BITS = "ones zeros"
each(
    "Expr",
    " ".join(f"bitwise_{k}_{b}" for k in ("count", "leading", "trailing") for b in _BITS.split()),
    I,
)
takes("pl.arctan2", pl.arctan2(F, I), pl.arctan2(F, lit(2)), pl.arctan2(lit(1.0), F))
for _name in ("sum", "mean", "max", "min"):
    _of = getattr(pl, f"{_name}_horizontal")
    takes(
        f"pl.{_name}_horizontal", _of(F, I, G), _of(F, 0.1), _of(F), _of(F, lit(None, pl.Float64), INF)
    )
takes("pl.max_horizontal", pl.max_horizontal(S, K), pl.max_horizontal(LETTERS, LETTERS))
takes("pl.min_horizontal", pl.min_horizontal(S, K))

# --- comparison, choice, nulls --------------------------------------------------------------------

_ORDER = "lt le gt ge __lt__ __le__ __gt__ __ge__"
_SAME = "eq ne eq_missing ne_missing __eq__ __ne__"
both(
    f"{_ORDER} {_SAME}",
    *(
        (F, 0.1),
        (F, NAN),
        (F, INF),
        (F, -INF),
        (I, 3),
        (F, I),
        (S, "b"),
        (S, K),
        (C, "b"),
        (C, S),
        (C, C),
    ),
    *(
        (C, CATEGORIES),
        (T, dt.datetime(2026, 1, 1)),
        (B, True),
        (DEC, 1),
        (lit(1), I),
        (Y, b"b"),
        (F, None),
    ),
)
both(_SAME, (L, L), (LI, LI), (ST, ST))
both(
    "and_ or_ xor __and__ __or__ __xor__ __rand__ __ror__ __rxor__",
    (B, True),
    (B, F > 1),
    (I, 6),
    (I, I + 1),
)
takes("Expr.__invert__", ~B)
takes("Expr.not_", B.not_(), I.not_())
takes("Expr.is_between", F.is_between(0, 1), F.is_between(I, J), F.is_between(0, INF))
takes("Expr.is_between", C.is_between(lit("a"), lit("c")), S.is_between(lit("a"), K))
takes("Expr.is_close", F.is_close(0.1), F.is_close(I), F.is_close(NAN, nans_equal=True), F.is_close(G))
takes(
    "Expr.is_in",
    I.is_in([1, 2]),
    I.is_in(LI),
    F.is_in([NAN, INF]),
    S.is_in(["a", None], nulls_equal=True),
)
takes(
    "Expr.is_in", S.is_in(LS), C.is_in(["a", "b"]), F.is_in(L), I.is_in(pl.Series([1, 2])), I.is_in(AI)
)
takes("Expr.fill_null", F.fill_null(INF), F.fill_null(I), F.fill_null(NAN), C.fill_null("q"))
takes("Expr.fill_null", F.fill_null(strategy="zero"), F.fill_null(strategy="one"))
takes("Expr.replace", I.replace({1: 2}), I.replace(1, 2), S.replace(["a", "b"], ["x", "y"]))
takes("Expr.replace", C.replace({"a": "b"}), F.replace({NAN: 1.0}), F.replace({5.0: INF}))
takes("Expr.replace_strict", I.replace_strict({1: 2}, default=0), I.replace_strict(1, 2, default=J))
takes(
    "Expr.replace_strict",
    C.replace_strict({"a": "b"}, default=None),
    S.replace_strict({"a": 1}, default=I),
)
takes("Expr.replace_strict", S.replace_strict({"a": INF}, default=NAN))
takes("pl.coalesce", pl.coalesce(F, I), pl.coalesce(F, 1), pl.coalesce(F, INF))
takes(
    "pl.when", pl.when(B).then(F / 3).otherwise(INF), pl.when(F > 1).then(lit("x")), pl.when(B).then(C)
)
takes(
    "pl.when", pl.when(B).then(1).when(F > 0).then(2).otherwise(I), pl.when(True).then(F).otherwise(0)
)
takes("pl.when", pl.when(B).then(L), pl.when(F < INF).then(NAN).otherwise(F))
takes("pl.all_horizontal", pl.all_horizontal(B, F > 0))
takes("pl.any_horizontal", pl.any_horizontal(B, F > 0))

# --- types and names ------------------------------------------------------------------------------

takes(
    "Expr.cast", F.cast(pl.Float32), F.cast(pl.String), I.cast(pl.String), CATEGORIES, C.cast(pl.String)
)
takes("Expr.cast", S.cast(pl.Float64, strict=False), T.cast(pl.String), T.cast(pl.Int64), LETTERS)
takes("Expr.cast", DEC.cast(pl.Float64), D.cast(pl.String), TM.cast(pl.String), ST.cast(pl.String))
takes("Expr.cast", L.cast(pl.List(pl.Int64), strict=False), F.cast(pl.Decimal(10, 2), strict=False))
takes("Expr.cast", CATEGORY_LISTS, F.cast(pl.dtype_of("i"), strict=False), F.cast(pl.Boolean))
takes(
    "Expr.hash", *(each_.hash() for each_ in (S, B, T, LI, LS, ST, Y, D, DEC, AF, LETTERS)), I.hash(7)
)
takes("Expr.to_physical", T.to_physical(), DU.to_physical(), LETTERS.to_physical(), ST.to_physical())
takes(
    "Expr.cut",
    F.cut([0.1, 1]),
    F.cut([0.1, 1], labels=["a", "b", "c"]),
    F.cut([0.1], include_breaks=True),
)
takes("Expr.set_sorted", F.set_sorted(), I.set_sorted().clip(0, 3))
takes("Expr.alias", F.alias("q"))
takes("Expr.exclude", pl.all().exclude("s"))
takes("Expr.pipe", F.pipe(lambda given: given + 1))
takes("Expr.repeat_by", F.repeat_by(U), S.repeat_by(2), lit(1).repeat_by(U))
takes("cat.ends_with", C.cat.ends_with("b"))
takes("cat.starts_with", C.cat.starts_with("b"))
takes("cat.slice", C.cat.slice(0, 1), CATEGORIES.cat.slice(1))
each("cat", "len_bytes len_chars", C, CATEGORIES)
takes("cat.physical", LETTERS.cat.physical())
takes("cat.to", U.clip(0, 1).cat.to(pl.Enum(["a", "b"])))
each("name", "keep to_lowercase to_uppercase", F)
takes("name.prefix", F.name.prefix("p"))
takes("name.suffix", F.name.suffix("p"))
takes("name.prefix_fields", ST.name.prefix_fields("p"))
takes("name.suffix_fields", ST.name.suffix_fields("p"))
takes("name.replace", F.name.replace("f", "h"))
takes("pl.all", pl.all().is_null())
takes("pl.exclude", pl.exclude("s"))
takes("pl.nth", pl.nth(0))
takes("pl.col", col("f"), col("^l.$"), col(pl.Int64), col("f", "i") * 2)
takes("pl.first", pl.first())
takes("pl.last", pl.last())
takes(
    "pl.lit", lit(1.5), lit(INF), lit(NAN, pl.Float32), lit("x"), lit(None, pl.Int64), lit([1.0, INF])
)
takes("pl.lit", lit(dt.date(2026, 1, 1)), lit({"a": INF}))
