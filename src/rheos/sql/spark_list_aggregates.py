"""Spark's aggregates over the values of a group as a list: bitmaps, vectors, schemas of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.aggregates.units import sum_type
from rheos.core.graph.row_functions import of_columns
from rheos.core.graph.types import from_polars
from rheos.sql import bitmaps, types, variant_schemas, variants, vectors
from rheos.sql.expressions.table import CAST, Typed
from rheos.sql.ordered_aggregates import ListCall, Maker, OfList, of_lists, over
from rheos.sql.spark_aggregates import (
    BitmapAndAgg,
    CollectUnion,
    SchemaOfVariantAgg,
    TrySum,
    VectorAvg,
    VectorSum,
)
from rheos.sql.text import kind

_TOP, _ITEM = 5, "item"
"""Number of values that APPROX_TOP_K returns by default, and the field of a value."""


def _computed(
    of: OfList, compute: Callable[[Sequence[pl.Series]], pl.Series], returns: pl.DataType
) -> OfList:
    """Return a function of the lists as an aggregate."""
    return OfList(of.value, returns, lambda values: of_columns(compute, [of.result(values)], returns))


def _checked(call: ListCall, *kinds: pl.DataType, wants: str, hint: str = CAST) -> None:
    """Raise SchemaError unless the value has one of the types."""
    if call.value.type not in kinds:
        raise call.compiler.wrong_type(f"{kind(call.node)} takes {wants}", call.value, hint)


# --- bitmaps ------------------------------------------------------------------------------------------


@of_lists(exp.BitmapConstructAgg)
def _bitmap_construct_agg(call: ListCall) -> OfList:
    if not types.is_integer(types.signed(call.value.type)):
        raise call.compiler.wrong_type(f"{kind(call.node)} takes integers", call.value, CAST)
    construct = partial(bitmaps.constructed, call=call.compiler.sql.written(call.node))
    return _computed(call.list_of(), construct, pl.Binary())


def _bitmaps(*, every: bool) -> Maker:
    def maker(call: ListCall) -> OfList:
        _checked(call, pl.Binary(), wants="bitmaps", hint="write BITMAP_CONSTRUCT_AGG(...)")
        return _computed(call.list_of(), partial(bitmaps.combined, every=every), pl.Binary())

    return maker


of_lists(exp.BitmapOrAgg)(_bitmaps(every=False))
of_lists(BitmapAndAgg)(_bitmaps(every=True))


# --- vectors, arrays and documents --------------------------------------------------------------------


def _vectors(*, mean: bool) -> Maker:
    def maker(call: ListCall) -> OfList:
        _checked(call, vectors.VECTOR, wants="an ARRAY of FLOAT")
        written = call.compiler.sql.written(call.node)
        compute = partial(vectors.of_lists, mean=mean, call=written)
        return _computed(call.list_of(), compute, vectors.VECTOR)

    return maker


of_lists(VectorSum)(_vectors(mean=False))
of_lists(VectorAvg)(_vectors(mean=True))


@of_lists(CollectUnion)
def _collect_union(call: ListCall) -> OfList:
    """Compile COLLECT_UNION: the distinct elements of all arrays, sorted."""
    of = call.list_of()
    if not isinstance(call.value.type, pl.List):
        raise call.compiler.wrong_type(f"{kind(call.node)} takes an ARRAY", call.value, "name a list")
    elements = pl.element().explode().drop_nulls().unique().sort()
    return OfList(of.value, call.value.type, lambda values: of.result(values).list.eval(elements))


@of_lists(SchemaOfVariantAgg)
def _schema_of_variant_agg(call: ListCall) -> OfList:
    _checked(call, types.VARIANT, wants="a VARIANT", hint="write PARSE_JSON(...)")
    documents = Typed(variants.documents(call.value.expr), types.TEXT, call.value.node)
    return _computed(call.list_of(documents), variant_schemas.merged_schemas, types.TEXT)


# --- numbers ------------------------------------------------------------------------------------------


@of_lists(TrySum)
def _try_sum(call: ListCall) -> OfList:
    """Compile TRY_SUM: the sum, or null if its type cannot hold it."""
    of = types.DOUBLE if call.value.type == types.NULL else types.signed(call.value.type)
    returns: pl.DataType
    wide: pl.DataType
    if types.is_integer(of):
        returns, wide = types.BIGINT, pl.Int128()
    elif types.is_floating(of):
        returns = wide = types.DOUBLE
    elif types.is_decimal(of):
        [field] = from_polars(pl.Schema({"sum": of}))
        returns = types.of_arrow(sum_type(field.type))
        wide = pl.Decimal(types.MOST_DIGITS, of.scale)  # type: ignore[attr-defined]
    else:
        raise call.compiler.wrong_type(f"{kind(call.node)} takes numbers", call.value, CAST)
    value = call.compiler.cast(call.value, of)

    def total(values: pl.Expr) -> pl.Expr:
        made = values.cast(wide).sum().cast(returns, strict=False)
        return pl.when(values.len() > 0).then(made)

    return over(call.list_of(value), returns, total)


@of_lists(exp.ApproxTopK, knows=("expression", "counters"))
def _approx_top_k(call: ListCall) -> OfList:
    """Compile APPROX_TOP_K(value[, k]): the most frequent values with their exact counts."""
    argument = call.node.args.get("expression")
    most = _TOP if argument is None else call.constant(argument, "a constant number of values")
    if not isinstance(most, int) or most < 1:
        raise call.compiler.sql.error(
            f"{kind(call.node)} takes a number of values", argument, "write 3"
        )
    # A struct is not null, so that nulls count.
    row = Typed(pl.struct(call.value.expr.alias(_ITEM)), pl.Struct({_ITEM: call.value.type}), call.node)
    returns = pl.List(pl.Struct({_ITEM: call.value.type, "count": types.BIGINT}))

    def top(rows: pl.Expr) -> pl.Expr:
        counted = rows.struct.field(_ITEM).value_counts(name="count", sort=True).struct
        pairs = pl.struct(
            counted.field(_ITEM).alias(_ITEM), counted.field("count").cast(types.BIGINT).alias("count")
        )
        by = [pairs.struct.field("count"), pairs.struct.field(_ITEM)]
        return pairs.sort_by(by, descending=[True, False], nulls_last=True).head(most).implode()

    return over(call.list_of(row), returns, top)
