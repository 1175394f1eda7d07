"""The aggregates of SQL, by their nodes in the syntax tree.

An aggregate reads a column that is computed before the grouping. Its result in SQL may be an expression
over the result of the aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core import aggregates as agg
from rheos.core.aggregates import Agg
from rheos.core.aggregates.units import mean_type, sum_type
from rheos.core.errors import SchemaError
from rheos.core.graph.types import from_polars
from rheos.sql import spark_list_aggregates, types
from rheos.sql.expressions.key_values import as_key, check_key, value_of_key
from rheos.sql.expressions.order_keys import is_nested, is_ordered
from rheos.sql.expressions.table import AGGREGATES, CAST, Compiler, Typed
from rheos.sql.functions import UserAggregateCall, UserFunction
from rheos.sql.grouping_sets import is_grouping
from rheos.sql.interval_aggregates import check_one_part, interval_from, is_summed, number_of
from rheos.sql.named_aggregates import NamedAggregate
from rheos.sql.ordered_aggregates import LIST_AGGREGATES, of_list
from rheos.sql.text import as_sql, kind


def _same(result: pl.Expr) -> pl.Expr:
    return result


@dataclass(frozen=True)
class AggregateCall:
    """Computation of one call of an aggregate."""

    argument: Typed | None
    """Column that it reads; None: it counts rows."""
    of: Callable[[str], Agg | pl.Expr]
    """Function that returns the aggregate of that column."""
    type: pl.DataType
    result: Callable[[pl.Expr], pl.Expr] = _same
    """Conversion of the aggregate's result."""
    fold: UserFunction | None = None
    """Function that computes the result from the list of values."""


Maker: TypeAlias = Callable[[Compiler, exp.Expr, Typed], AggregateCall]

_MAKERS: dict[type[exp.Expr], tuple[tuple[str, ...], Maker]] = {}
"""By node: the arguments that it supports in addition to the first, and the function that makes the
aggregate."""


def _aggregate(*nodes: type[exp.Expr], knows: Sequence[str] = ()) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        for node in nodes:
            _MAKERS[node] = (tuple(knows), maker)
            AGGREGATES.append(node)
        return maker

    return register


def aggregated(compiler: Compiler, node: exp.Expr) -> AggregateCall:
    """Compile a call of an aggregate. Raises ProgramError, SchemaError."""
    call = node.this if isinstance(node, exp.Filter) else node
    with compiler.arguments_of(call):
        return _typed(compiler, call, _aggregated(compiler, node))


def _typed(compiler: Compiler, call: exp.Expr, made: AggregateCall) -> AggregateCall:
    """Return the aggregate with a typed argument: a count of NULL is 0. Raises SchemaError."""
    value = made.argument
    if value is None or value.type not in (types.NULL, pl.List(types.NULL)):
        return made
    if made.type != types.BIGINT:  # It is no count.
        raise compiler.sql.wrong_type(
            f"{kind(call)} of NULL has no type", value.node, "write CAST(NULL AS STRING)"
        )
    return replace(made, argument=compiler.cast(value, types.BOOLEAN))


def _aggregated(compiler: Compiler, node: exp.Expr) -> AggregateCall:
    call, condition = node, None
    if isinstance(node, exp.Filter):
        compiler.sql.only(node, ("this", "expression"))
        call = node.this
        condition = compiler.condition(node.expression.this, "FILTER").expr
    if isinstance(call, UserAggregateCall):
        return _of_user(compiler, call, condition)
    if isinstance(call, NamedAggregate):
        return _named(compiler, call, condition)
    if isinstance(call, exp.Count):
        return _count(compiler, call, condition)
    if isinstance(call, exp.Anonymous):
        raise compiler.unknown_function(call)
    known = _MAKERS.get(type(call))
    if (
        known is None
        or isinstance(call.this, exp.Order)
        or isinstance(call.args.get("quantile"), exp.Array)
    ):
        return _listed(compiler, call, condition)
    flags, maker = known
    if not isinstance(call.this, exp.Distinct):
        compiler.sql.only(call, ("this", *flags))
        return maker(compiler, call, _keep_where(compiler.compile(call.this), condition))
    if isinstance(call.this.expressions[0], exp.Order) or len(call.this.expressions) > 1:
        return _listed(compiler, call, condition)
    made = maker(compiler, call, _keep_where(compiler.compile(call.this.expressions[0]), condition))
    of_distinct = _OF_DISTINCT.get(made.of)
    return _listed(compiler, call, condition) if of_distinct is None else replace(made, of=of_distinct)


def without_window(
    compiler: Compiler, node: exp.Expr, made: AggregateCall, can_keep: Callable[[Agg | pl.Expr], bool]
) -> AggregateCall:
    """Return the form of an aggregate that a table can keep: the given one, or one over the list of the
    values. Raises ProgramError, SchemaError."""
    call = node.this if isinstance(node, exp.Filter) else node
    if can_keep(made.of("")) or made.fold is not None or type(call) not in LIST_AGGREGATES:
        return made
    condition = node.expression.this if isinstance(node, exp.Filter) else None
    where = None if condition is None else compiler.condition(condition, "FILTER").expr
    return _listed(compiler, call, where)


def _listed(compiler: Compiler, call: exp.Expr, condition: pl.Expr | None) -> AggregateCall:
    """Return an aggregate over the list of the values. Raises ProgramError, SchemaError."""
    made = of_list(compiler, call, condition)
    if made is None:
        distinct = isinstance(call.this, exp.Distinct)
        if distinct and type(call) in _MAKERS:
            raise compiler.sql.error(f"{kind(call)} of DISTINCT values is not computed yet", call)
        raise compiler.sql.not_computed(call)
    return _typed(compiler, call, AggregateCall(made.value, agg.collect, made.type, made.result))


_OF_DISTINCT: dict[Callable[[str], Agg | pl.Expr], Callable[[str], Agg | pl.Expr]] = {
    agg.sum: agg.sum_distinct,
    agg.mean: agg.mean_distinct,
    agg.min: agg.min,
    agg.max: agg.max,
}


def _of_user(compiler: Compiler, node: UserAggregateCall, condition: pl.Expr | None) -> AggregateCall:
    """Return a user's aggregate: all values are collected, several arguments of a row as a struct."""
    of = node.function
    given = of.arguments(compiler, node)
    value = given[0]
    if of.record is not None:
        named = {each.name: value for each, value in zip(of.takes, given, strict=True)}
        there = [
            value.expr.is_not_null() for name, value in named.items() if not _may_be_null(of, name)
        ]
        both = pl.struct(*(value.expr.alias(name) for name, value in named.items()))
        fields = {name: value.type for name, value in named.items()}
        expr = pl.when(pl.all_horizontal(there)).then(both) if there else both
        value = Typed(expr, pl.Struct(fields), node)
    return AggregateCall(_keep_where(value, condition), agg.collect, pl.List(value.type), fold=of)


def _named(compiler: Compiler, node: NamedAggregate, condition: pl.Expr | None) -> AggregateCall:
    if len(node.expressions) != 1:
        raise compiler.sql.error(
            f"{kind(node)} takes 1 argument, but has {len(node.expressions)}", node, "name one column"
        )
    value = compiler.compile(node.expressions[0])
    name = as_sql(value.node)
    try:
        result = node.agg(name).result_type(from_polars(pl.Schema({name: value.type})))
    except SchemaError as error:
        raise compiler.sql.wrong_type(error.what, node, error.hint or CAST) from None
    return AggregateCall(_keep_where(value, condition), node.agg, types.of_arrow(result))


def _may_be_null(of: UserFunction, name: str) -> bool:
    return any(each.name == name and each.takes_null for each in of.takes)


def _keep_where(value: Typed, condition: pl.Expr | None) -> Typed:
    if condition is None:
        return value
    return Typed(pl.when(condition).then(value.expr), value.type, value.node)


def _count(compiler: Compiler, node: exp.Count, condition: pl.Expr | None) -> AggregateCall:
    compiler.sql.only(node, ("this", "expressions", "big_int"))
    of = node.this
    if node.expressions:
        there = [compiler.compile(each).expr.is_not_null() for each in (of, *node.expressions)]
        every = Typed(pl.when(pl.all_horizontal(there)).then(pl.lit(True)), types.BOOLEAN, node)
        return AggregateCall(_keep_where(every, condition), agg.count, types.BIGINT)
    if of is None or (isinstance(of, exp.Distinct) and not of.expressions):
        raise compiler.sql.error("COUNT() is missing an argument", node, "write COUNT(*)")
    if isinstance(of, exp.Distinct):
        if len(of.expressions) != 1:
            return _count_rows_of_values(compiler, node, of.expressions, condition)
        [counted] = of.expressions
        if isinstance(counted, exp.Tuple):
            counted = exp.Anonymous(this="ROW", expressions=counted.expressions)
        value = compiler.compile(counted)
        check_key(compiler.sql, value.type, "DISTINCT", value.node)
        value = _keep_where(as_key(value), condition)
        return AggregateCall(value, agg.count_distinct, types.BIGINT)
    if isinstance(of, exp.Star | exp.Literal):
        if condition is None:
            return AggregateCall(None, lambda column: agg.count(), types.BIGINT)
        one = Typed(pl.when(condition).then(pl.lit(True)), types.BOOLEAN, node)
        return AggregateCall(one, agg.count, types.BIGINT)
    return AggregateCall(_keep_where(compiler.compile(of), condition), agg.count, types.BIGINT)


def _count_rows_of_values(
    compiler: Compiler, node: exp.Expr, columns: Sequence[exp.Expr], condition: pl.Expr | None
) -> AggregateCall:
    """Return the number of distinct combinations of values. One with a null does not count."""
    values = {f"value {place}": compiler.compile(each) for place, each in enumerate(columns)}
    there = pl.all_horizontal(value.expr.is_not_null() for value in values.values())
    row = pl.when(there).then(pl.struct([value.expr.alias(name) for name, value in values.items()]))
    of = Typed(row, pl.Struct({name: value.type for name, value in values.items()}), node)
    return AggregateCall(
        _keep_where(of, condition),
        agg.collect,
        types.BIGINT,
        lambda rows: (
            rows.list.eval(pl.element().n_unique()).list.first().fill_null(0).cast(types.BIGINT)
        ),
    )


@_aggregate(exp.CountIf)
def _count_if(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    if value.type != types.BOOLEAN:
        raise compiler.wrong_type("COUNT_IF takes a condition", value, "compare it", at=node)
    holds = Typed(pl.when(value.expr).then(pl.lit(True)), types.BOOLEAN, node)
    return AggregateCall(holds, agg.count, types.BIGINT)


def _number(compiler: Compiler, node: exp.Expr, value: Typed) -> Typed:
    number = types.DOUBLE if value.type == types.NULL else types.signed(value.type)
    if not types.is_number(number):
        raise compiler.wrong_type(f"{kind(node)} takes numbers", value, CAST)
    return compiler.cast(value, number)


@_aggregate(exp.Sum)
def _sum(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    if is_summed(value.type):
        return _of_intervals(node, value, agg.sum)
    value = _number(compiler, node, value)
    of = value.type
    if isinstance(of, pl.Decimal):
        return AggregateCall(value, agg.sum, types.of_arrow(sum_type(_arrow(of))))
    return AggregateCall(value, agg.sum, types.DOUBLE if types.is_floating(of) else types.BIGINT)


def _of_intervals(node: exp.Expr, value: Typed, make: Callable[[str], Agg | pl.Expr]) -> AggregateCall:
    number = number_of(value, for_mean=isinstance(node, exp.Avg))
    of = types.MONTHS if value.type == types.MONTHS else types.INTERVAL
    return AggregateCall(number, make, of, interval_from(of, kind(node)))


def _arrow(kind: pl.Decimal) -> pa.DataType:
    return pa.decimal128(kind.precision, kind.scale)


@_aggregate(exp.Avg)
def _avg(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    if is_summed(value.type):
        return _of_intervals(node, value, agg.mean)
    value = _number(compiler, node, value)
    of = value.type
    if isinstance(of, pl.Decimal):
        return AggregateCall(value, agg.mean, types.of_arrow(mean_type(_arrow(of))))
    return AggregateCall(value, agg.mean, types.DOUBLE)


def _real(make: Callable[[str], Agg | pl.Expr]) -> Maker:
    """Return the maker of an aggregate over numbers whose result is a DOUBLE."""

    def maker(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
        value = _number(compiler, node, value)
        if types.is_decimal(value.type):
            value = compiler.cast(value, types.DOUBLE)
        return AggregateCall(value, make, types.DOUBLE)

    return maker


_aggregate(exp.Stddev, exp.StddevSamp)(_real(agg.stddev))
_aggregate(exp.StddevPop)(_real(lambda column: agg.stddev(column, ddof=0)))
_aggregate(exp.Variance)(_real(agg.variance))
_aggregate(exp.VariancePop)(_real(lambda column: agg.variance(column, ddof=0)))


def _of_its_type(make: Callable[[str], Agg | pl.Expr]) -> Maker:
    """Return the maker of an aggregate whose result is one of the values."""

    def maker(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
        if value.type == types.MONTHS:
            return _of_intervals(node, value, make)
        check_one_part(compiler, value, kind(node))
        if is_nested(value.type):
            if not is_ordered(value.type):
                raise compiler.sql.wrong_type(
                    f"{kind(node)} cannot compare values of type {types.name(value.type)}",
                    value.node,
                    "select a field or element of it",
                )
            of = value.type
            return AggregateCall(as_key(value), make, of, lambda key: value_of_key(key, of))
        return AggregateCall(value, make, value.type)

    return maker


_aggregate(exp.Min)(_of_its_type(agg.min))
_aggregate(exp.Max)(_of_its_type(agg.max))
_aggregate(exp.First, exp.AnyValue)(_of_its_type(agg.first))
_aggregate(exp.Last)(_of_its_type(agg.last))


def _of_conditions(make: Callable[[str], Agg]) -> Maker:
    def maker(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
        if value.type != types.BOOLEAN:
            raise compiler.wrong_type(f"{kind(node)} takes conditions", value, "compare it")
        number = Typed(value.expr.cast(pl.Int8()), pl.Int8(), value.node)
        return AggregateCall(number, make, types.BOOLEAN, lambda found: found == 1)

    return maker


_aggregate(exp.LogicalOr)(_of_conditions(agg.max))
_aggregate(exp.LogicalAnd)(_of_conditions(agg.min))


@_aggregate(exp.ApproxDistinct)
def _approx_distinct(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    return AggregateCall(value, agg.approx_count_distinct, types.BIGINT)


@_aggregate(exp.ArrayAgg, knows=("nulls_excluded",))
def _array_agg(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    return AggregateCall(value, agg.collect, pl.List(value.type))


@_aggregate(exp.Quantile, knows=("quantile",))
def _percentile(compiler: Compiler, node: exp.Expr, value: Typed) -> AggregateCall:
    share = compiler.compile(node.args.get("quantile")).constant
    if share is None or not 0 <= float(share) <= 1:
        raise compiler.sql.error("PERCENTILE takes a constant from 0 to 1", node, "write 0.95")
    value = compiler.cast(_number(compiler, node, value), types.DOUBLE)
    return AggregateCall(value, lambda column: agg.quantile(column, float(share)), types.DOUBLE)


assert spark_list_aggregates  # It registers aggregates over lists.
AGGREGATES.extend(node for node in LIST_AGGREGATES if node not in AGGREGATES)


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates many rows. GROUPING() is not an aggregate: it names the grouping
    set."""
    if is_grouping(node):
        return False
    return isinstance(node, exp.AggFunc) or (
        isinstance(node, exp.Filter) and isinstance(node.this, exp.AggFunc)
    )
