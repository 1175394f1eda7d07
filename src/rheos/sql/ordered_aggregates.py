"""Aggregates that SQL computes over the values of a group as a list: ordered ones, medians, modes, and
those of two columns.

The values are collected, as structs where a call needs more than one column, and the result is an
expression over the list. So these aggregates need no state of their own, and any row can be retracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import polars as pl
from sqlglot import exp

from rheos.core.aggregates.quantile import interpolated
from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.key_values import as_key, check_key, value_of_key
from rheos.sql.expressions.order_keys import is_nested
from rheos.sql.expressions.postgres_json import returns_json
from rheos.sql.expressions.table import CAST, Compiler, Typed
from rheos.sql.interval_aggregates import check_one_part, interval_from, number_of
from rheos.sql.json_parser import JsonArrayAgg, JsonObjectAgg
from rheos.sql.json_values import joined_lists
from rheos.sql.regressions import products, r2, slope
from rheos.sql.text import as_sql, kind

_VALUE = "value"

OfValues: TypeAlias = Callable[[pl.Expr], pl.Expr]
"""Aggregate of an expression over the values of one list."""


@dataclass(frozen=True)
class OfList:
    """An aggregate as the values that are collected, and its result over their list."""

    value: Typed
    type: pl.DataType
    result: OfValues


@dataclass(frozen=True)
class ListCall:
    """A call that is computed over the values of a group."""

    compiler: Compiler
    node: exp.Expr
    value: Typed
    """First argument."""
    condition: pl.Expr | None = None
    """Condition of FILTER."""
    orders: Sequence[exp.Ordered] = ()
    distinct: bool = False

    def constant(self, argument: exp.Expr | None, what: str) -> Any:
        """Return the value of a constant argument. Raise ProgramError."""
        value = None if argument is None else self.compiler.compile(argument)
        if value is None or not value.is_constant:
            raise self.compiler.sql.error(f"{kind(self.node)} takes {what}", argument or self.node)
        return value.constant

    def number(self) -> Typed:
        """Return the first argument as a DOUBLE."""
        if not types.is_number(types.signed(self.value.type)):
            raise self.compiler.wrong_type(f"{kind(self.node)} takes numbers", self.value, CAST)
        return self.compiler.cast(self.value, types.DOUBLE)

    def list_of(self, value: Typed | None = None) -> OfList:
        """Return the list of the values that are not null, as ORDER BY and DISTINCT define it."""
        value = value or self.value
        if not self.orders:
            kept = _keep_where(self.condition, value.expr)
            of = Typed(kept, value.type, self.node)
            if not self.distinct:
                return OfList(of, pl.List(value.type), lambda values: values)
            return OfList(of, pl.List(value.type), lambda values: values.list.unique().list.sort())
        for each in self.orders if self.distinct else ():
            if as_sql(each.this) != as_sql(value.node):
                raise self.compiler.sql.error(
                    "DISTINCT values cannot be ordered by another expression",
                    each,
                    f"write ORDER BY {as_sql(value.node)}",
                )
        keys = [self.compiler.compile(each.this) for each in self.orders]
        desc = [bool(each.args.get("desc")) for each in self.orders]
        orders = zip(self.orders, desc, strict=True)
        first = [bool(each.args.get("nulls_first", not down)) for each, down in orders]
        parts = {_VALUE: value, **{f"by {place}": key for place, key in enumerate(keys)}}
        of = _struct(self.node, parts, _keep_where(self.condition, value.expr.is_not_null()))
        element = pl.element().struct
        by = [element.field(f"by {place}") for place in range(len(keys))]
        ordered = element.field(_VALUE).sort_by(
            by, descending=desc, nulls_last=[not each for each in first], maintain_order=True
        )

        def listed(values: pl.Expr) -> pl.Expr:
            made = values.list.eval(ordered)
            return made.list.unique(maintain_order=True) if self.distinct else made

        return OfList(of, pl.List(value.type), listed)

    def of_pairs(
        self,
        first: Typed,
        second: Typed,
        type_: pl.DataType,
        compute: Callable[[pl.Expr, pl.Expr], pl.Expr],
    ) -> OfList:
        """Return an aggregate of the two values of each row. Rows without the second one are left
        out."""
        there = _keep_where(self.condition, second.expr.is_not_null())
        pairs = _struct(self.node, {"a": first, "b": second}, there)
        both = OfList(pairs, pl.List(pairs.type), lambda values: values)
        return over(both, type_, lambda pair: compute(pair.struct.field("a"), pair.struct.field("b")))


def _keep_where(condition: pl.Expr | None, value: pl.Expr) -> pl.Expr:
    return value if condition is None else pl.when(condition).then(value)


def _struct(node: exp.Expr, parts: dict[str, Typed], where: pl.Expr) -> Typed:
    made = pl.struct([part.expr.alias(name) for name, part in parts.items()])
    type_ = pl.Struct({name: part.type for name, part in parts.items()})
    return Typed(pl.when(where).then(made), type_, node)


def over(of: OfList, type_: pl.DataType, compute: OfValues) -> OfList:
    """Return an aggregate of the list's values: the first value that `compute` returns for them."""

    def result(values: pl.Expr) -> pl.Expr:
        return of.result(values).list.eval(compute(pl.element())).list.first()

    return OfList(of.value, type_, result)


Maker: TypeAlias = Callable[[ListCall], OfList]
LIST_AGGREGATES: dict[type[exp.Expr], tuple[tuple[str, ...], Maker]] = {}
"""By node: the names of its arguments after the first, and the function that makes the aggregate."""


def of_lists(*nodes: type[exp.Expr], knows: Sequence[str] = ()) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        for node in nodes:
            LIST_AGGREGATES[node] = (tuple(knows), maker)
        return maker

    return register


@of_lists(exp.ArrayAgg, knows=("nulls_excluded",))
def _array_agg(call: ListCall) -> OfList:
    return call.list_of()


@of_lists(exp.ArrayUniqueAgg)
def _collect_set(call: ListCall) -> OfList:
    of = call.list_of()
    return OfList(of.value, of.type, lambda values: of.result(values).list.unique().list.sort())


@of_lists(exp.GroupConcat, knows=("separator",))
def _string_agg(call: ListCall) -> OfList:
    separator = call.node.args.get("separator")
    between = "," if separator is None else call.constant(separator, "a constant separator")
    of = call.list_of(call.compiler.cast(call.value, types.TEXT))

    def joined(values: pl.Expr) -> pl.Expr:
        texts = of.result(values)
        return pl.when(texts.list.len() > 0).then(texts.list.join(between))

    return OfList(of.value, types.TEXT, joined)


@of_lists(exp.First, exp.FirstValue, exp.AnyValue)
def _first(call: ListCall) -> OfList:
    of = call.list_of()
    return OfList(of.value, call.value.type, lambda values: of.result(values).list.first())


@of_lists(exp.Last, exp.LastValue)
def _last(call: ListCall) -> OfList:
    of = call.list_of()
    return OfList(of.value, call.value.type, lambda values: of.result(values).list.last())


def _sort_by(call: ListCall, *, greatest: bool) -> OfList:
    by = call.compiler.compile(call.node.expression)
    count = call.node.args.get("count")
    most = None if count is None else call.constant(count, "a constant number of values")

    def sort(value: pl.Expr, by: pl.Expr) -> pl.Expr:
        return value.sort_by(by, descending=greatest, maintain_order=True)

    if most is None:
        return call.of_pairs(call.value, by, call.value.type, sort)
    if not isinstance(most, int) or most < 1:
        raise call.compiler.sql.error(f"{kind(call.node)} takes a number of values", count, "write 3")
    return call.of_pairs(
        call.value, by, pl.List(call.value.type), lambda value, by: sort(value, by).head(most).implode()
    )


@of_lists(exp.ArgMin, knows=("expression", "count"))
def _min_by(call: ListCall) -> OfList:
    return _sort_by(call, greatest=False)


@of_lists(exp.ArgMax, knows=("expression", "count"))
def _max_by(call: ListCall) -> OfList:
    return _sort_by(call, greatest=True)


@of_lists(exp.Median)
def _median(call: ListCall) -> OfList:
    return over(call.list_of(call.number()), types.DOUBLE, lambda values: values.median())


@of_lists(exp.Quantile, exp.PercentileCont, knows=("quantile", "expression"))
def _percentile(call: ListCall) -> OfList:
    return _of_shares(call, call.list_of(call.number()), types.DOUBLE, interpolated)


@of_lists(exp.PercentileDisc, exp.ApproxQuantile, knows=("quantile", "expression", "accuracy"))
def _percentile_of_values(call: ListCall) -> OfList:
    def found(values: pl.Expr, share: float) -> pl.Expr:
        place = (values.len() * share).ceil().cast(types.BIGINT) - 1
        return values.sort().get(place.clip(lower_bound=0))

    return _of_shares(call, call.list_of(), call.value.type, found)


def _of_shares(
    call: ListCall, of: OfList, type_: pl.DataType, compute: Callable[[pl.Expr, float], pl.Expr]
) -> OfList:
    """Return the percentile of a share, or the list of those of ARRAY(0.5, 0.9)."""
    argument = call.node.args.get("quantile") or call.node.args.get("expression")
    if not isinstance(argument, exp.Array):
        share = _share(call, argument)
        return over(of, type_, lambda values: compute(values, share))
    shares = [_share(call, each) for each in argument.expressions]
    return over(
        of,
        pl.List(type_),
        lambda values: pl.concat_list([compute(values, share) for share in shares]),
    )


def _share(call: ListCall, argument: exp.Expr | None) -> float:
    share = call.constant(argument, "a constant from 0 to 1")
    if share is None or not 0 <= float(share) <= 1:
        raise call.compiler.sql.error(f"{kind(call.node)} takes a constant from 0 to 1", call.node)
    return float(share)


@of_lists(exp.Mode, knows=("deterministic",))
def _mode(call: ListCall) -> OfList:
    # The first of equally frequent values wins: in the order of ORDER BY, otherwise the least value.
    descends = any(each.args.get("desc") for each in call.orders)
    kind_of_values = call.value.type
    check_key(call.compiler.sql, kind_of_values, "MODE", call.value.node)
    check_one_part(call.compiler, call.value, "MODE()")
    has_months = kind_of_values == types.MONTHS
    key = number_of(call.value, for_mean=False) if has_months else as_key(call.value)
    of = replace(call, orders=[]).list_of(key)
    if descends:
        found = over(of, key.type, lambda values: values.mode(maintain_order=True).max())
    else:
        found = over(of, key.type, lambda values: values.mode(maintain_order=True).min())
    if not is_nested(kind_of_values):
        return found

    def result(rows: pl.Expr) -> pl.Expr:
        if has_months:
            return interval_from(types.MONTHS, "MODE()")(found.result(rows))
        return value_of_key(found.result(rows), kind_of_values)

    return OfList(found.value, kind_of_values, result)


def _bits(compute: OfValues) -> Maker:
    def maker(call: ListCall) -> OfList:
        if not types.is_integer(types.signed(call.value.type)):
            raise call.compiler.wrong_type(f"{kind(call.node)} takes integers", call.value, CAST)
        value = call.compiler.cast(call.value, types.signed(call.value.type))
        return over(call.list_of(value), value.type, compute)

    return maker


of_lists(exp.BitwiseAndAgg)(_bits(lambda values: values.bitwise_and()))
of_lists(exp.BitwiseOrAgg)(_bits(lambda values: values.bitwise_or()))
of_lists(exp.BitwiseXorAgg)(_bits(lambda values: values.bitwise_xor()))


def _of_numbers(compute: OfValues) -> Maker:
    return lambda call: over(call.list_of(call.number()), types.DOUBLE, compute)


of_lists(exp.Stddev, exp.StddevSamp)(_of_numbers(lambda values: values.std()))
of_lists(exp.StddevPop)(_of_numbers(lambda values: values.std(ddof=0)))
of_lists(exp.Variance)(_of_numbers(lambda values: values.var()))
of_lists(exp.VariancePop)(_of_numbers(lambda values: values.var(ddof=0)))
of_lists(exp.Skewness)(_of_numbers(lambda values: values.skew()))
of_lists(exp.Kurtosis)(_of_numbers(lambda values: values.kurtosis()))


def _of_pairs(
    compute: Callable[[pl.Expr, pl.Expr], pl.Expr], type_: pl.DataType = types.DOUBLE
) -> Maker:
    """Return the maker of an aggregate of two columns of numbers. Rows that lack one are left out."""

    def maker(call: ListCall) -> OfList:
        first = call.number()
        second = call.compiler.cast(call.compiler.compile(call.node.expression), types.DOUBLE)
        both = pl.when(first.expr.is_not_null()).then(second.expr)
        return call.of_pairs(first, Typed(both, types.DOUBLE, call.node), type_, compute)

    return maker


_PAIRS: dict[type[exp.Expr], Maker] = {
    exp.Corr: _of_pairs(lambda a, b: pl.corr(a, b)),
    exp.CovarPop: _of_pairs(lambda a, b: pl.cov(a, b, ddof=0)),
    exp.CovarSamp: _of_pairs(lambda a, b: pl.cov(a, b)),
    exp.RegrCount: _of_pairs(lambda y, x: x.len().cast(types.BIGINT), types.BIGINT),
    exp.RegrAvgx: _of_pairs(lambda y, x: x.mean()),
    exp.RegrAvgy: _of_pairs(lambda y, x: y.mean()),
    exp.RegrSxx: _of_pairs(lambda y, x: products(x, x)),
    exp.RegrSyy: _of_pairs(lambda y, x: products(y, y)),
    exp.RegrSxy: _of_pairs(lambda y, x: products(x, y)),
    exp.RegrSlope: _of_pairs(slope),
    exp.RegrIntercept: _of_pairs(lambda y, x: y.mean() - slope(y, x) * x.mean()),
    exp.RegrR2: _of_pairs(r2),
}
for _node, _pairs in _PAIRS.items():
    of_lists(_node, knows=("expression",))(_pairs)


of_lists(exp.ApproxDistinct)(
    lambda call: over(call.list_of(), types.BIGINT, lambda values: values.n_unique().cast(types.BIGINT))
)


@of_lists(JsonArrayAgg, JsonObjectAgg, knows=("expression", "on_null"))
def _json_of(call: ListCall) -> OfList:
    """Return JSON_ARRAYAGG, without NULL by default, and JSON_OBJECTAGG, with null for NULL."""
    keys, clause = isinstance(call.node, JsonObjectAgg), call.node.args.get("on_null")
    if clause not in (None, "NULL", "ABSENT"):
        raise call.compiler.sql.error(
            f"{kind(call.node)} does not support {clause} ON NULL", call.node, "leave it out"
        )
    if keys:
        name = Typed(call.compiler.text(call.node.this, kind(call.node)).expr, types.TEXT, call.node)
        value = call.compiler.compile(call.node.expression)
        both = {"a": name, "b": value}
        rows = _struct(call.node, both, _keep_where(call.condition, name.expr.is_not_null()))
        values = OfList(rows, pl.List(rows.type), lambda of: of)
    else:
        value = call.value
        # A struct is not null, so that the list also has the nulls.
        row = Typed(pl.struct(value.expr.alias("b")), pl.Struct({"b": value.type}), value.node)
        values = call.list_of(row if clause == "NULL" else None)
    keep_nulls = clause == "NULL" or (keys and clause is None)
    join = partial(joined_lists, keys=keys, keep_nulls=keep_nulls, are_json=returns_json(value.node))
    return OfList(
        values.value, types.TEXT, lambda of: of_columns(join, [values.result(of)], types.TEXT)
    )


def of_list(compiler: Compiler, call: exp.Expr, condition: pl.Expr | None) -> OfList | None:
    """Return a call that is computed over a list; None if it is another one. Raise ProgramError or
    SchemaError.

    Args:
        compiler: Compiler of its arguments.
        call: The call, without its FILTER.
        condition: Condition of FILTER.
    """
    if type(call) not in LIST_AGGREGATES:
        return None
    knows, maker = LIST_AGGREGATES[type(call)]
    compiler.sql.only(call, ("this", *knows))
    value, orders, distinct = call.this, [], False
    while isinstance(value, exp.Order | exp.Distinct):
        if isinstance(value, exp.Order):
            orders, value = value.expressions, value.this
        else:
            value, *others = value.expressions
            distinct = True
            if others:
                raise compiler.sql.error(f"{kind(call)} takes one DISTINCT value", others[0])
    if value is None:
        raise compiler.sql.error(f"{kind(call)} is missing an argument", call)
    return maker(ListCall(compiler, call, compiler.compile(value), condition, orders, distinct))


_OF_ONE_VALUE = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.AnyValue)


def with_groups_inside(statement: exp.Expr) -> exp.Expr:
    """Return a statement in which WITHIN GROUP (ORDER BY x) are arguments of their aggregates,
    aggregates have no IGNORE NULLS, and ANY(x) is the aggregate."""
    for node in [*statement.find_all(exp.WithinGroup)]:
        call, [ordered] = node.this, node.expression.expressions
        made: exp.Expr = call
        if isinstance(call, exp.PercentileCont | exp.PercentileDisc):
            share = call.this
            if ordered.args.get("desc") and isinstance(share, exp.Literal):
                share = exp.Literal.number(1 - float(share.this))
            made = type(call)(this=ordered.this, expression=share)
        elif isinstance(call, exp.Mode):
            made = exp.Mode(this=exp.Order(this=ordered.this, expressions=[ordered]))
        else:
            continue
        node.replace(made)
    for ignoring in [*statement.find_all(exp.IgnoreNulls)]:
        # Aggregates leave out nulls; functions of OVER do not.
        if isinstance(ignoring.this, _OF_ONE_VALUE) and not isinstance(ignoring.parent, exp.Window):
            ignoring.replace(ignoring.this)
    for some in [*statement.find_all(exp.Any)]:
        is_compared = isinstance(some.parent, exp.Predicate) and some.arg_key == "expression"
        if not is_compared:  # The aggregate, not a comparison with ANY.
            made = exp.LogicalOr(this=some.this.unnest())
            made.meta.update(some.meta)
            some.replace(made)
    return statement
