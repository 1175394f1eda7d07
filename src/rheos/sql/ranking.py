"""ROW_NUMBER: the first n rows of each key, or of each key and window, where a filter sets n."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl
from sqlglot import exp

from rheos.api.time_to_live import TimeToLive
from rheos.core.aggregates.count import Count
from rheos.core.errors import ProgramError
from rheos.core.graph.changelog import Changes
from rheos.core.graph.row_functions import of_columns
from rheos.core.graph.windows import Window
from rheos.core.operators.over.event_time_over import OverColumns
from rheos.core.operators.over.moving_frames import FrameSpec
from rheos.sql import types
from rheos.sql.copies import numbered_copies
from rheos.sql.expressions.key_values import as_key, check_key
from rheos.sql.expressions.order_keys import (
    END_OF_LIST,
    END_OF_TEXT,
    HEX,
    digits_from_nine,
    is_ordered,
    order_key,
    ordered_bits,
    text_of_decimal,
    text_of_number,
    whole_number,
)
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.grouped_plans import FIRST_BY_TIME, Dedup, OverPlan, RankedRows, TopN
from rheos.sql.grouping import AT_ITS_END
from rheos.sql.inserted_rows import may_be_kept
from rheos.sql.plan import (
    CallPlan,
    ColumnRole,
    Filter,
    PlanNode,
    Project,
    SqlColumn,
    names_of,
    projected,
    rekeyed,
)
from rheos.sql.text import SqlText, as_sql
from rheos.sql.unused_names import unused_name
from rheos.sql.window_clauses import OverClause
from rheos.sql.windows import OF_WINDOWS, is_clock, windowed_below, without_windows

_EXAMPLE = (
    "write SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) "
    "AS n FROM bids) WHERE n <= 3"
)
KEEP_ALL = (
    "keep all rows, and update results: SET state_ttl = 'forever', in Python env.sql(..., "
    'state_ttl="forever")'
)
_BY_EVENT_TIME = "order the rows by a column of the table, such as its event time"
_BY = "order of rows"
_ALL = "all rows"

WITH_TIES = "with ties"
"""Key of the metadata of a bound: whether it includes the rows that rank equal to the last one."""


def ranks_in(node: exp.Select) -> list[exp.Expr]:
    """Return the columns of SELECT that are row numbers."""
    return [item for item in node.expressions if is_rank(item.unalias())]


def is_rank(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window) and isinstance(node.this, exp.RowNumber)


def ranked(
    sql: SqlText, compiler: Compiler, item: exp.Expr, clause: OverClause, plan: PlanNode
) -> tuple[PlanNode, Typed]:
    """Return the rows with their numbers, and the column of the numbers. Raise ProgramError."""
    node = item.unalias()
    if clause.frame is not None:
        raise sql.error("ROW_NUMBER() has no frame", clause.frame, "leave out the frame")
    order = clause.order
    if order is None:
        raise sql.error("ROW_NUMBER() needs ORDER BY", node, _EXAMPLE)
    exprs = [pl.col(column.name) for column in plan.columns]
    columns = [*plan.columns]
    keys, in_window = [], set()
    for each in clause.partition_by:
        value = compiler.compile(each)
        check_key(sql, value.type, "PARTITION BY", each)
        value = as_key(value)
        found = _plain(value, plan)
        if found is None:
            name = unused_name(as_sql(each), names_of(plan))
            found = SqlColumn(name, value.type)
            exprs.append(value.expr)
            columns.append(found)
        if found.role in OF_WINDOWS:
            in_window.add(found.role)
        keys.append(found.name)
    arrival = _by_arrival(order, plan)
    orders = [] if arrival else [OrderTerm.of(sql, compiler, each) for each in order.expressions]
    by = sorted_by(sql, orders) if orders else pl.lit(0, dtype=types.BIGINT)
    window, source = None, plan
    if {ColumnRole.WINDOW_START, ColumnRole.WINDOW_END} <= in_window:
        window, source, keys, exprs, columns = _in_window(sql, node, plan, keys, exprs, columns)
    if not keys and window is None:
        exprs.append(pl.lit(0, dtype=types.BIGINT))
        columns.append(SqlColumn(_ALL, types.BIGINT))
        keys.append(_ALL)
    width = len(source.columns)
    source = known_by_key(sql, node, source, keys)
    # Rows without a key receive one, which has a further column.
    exprs += [pl.col(column.name) for column in source.columns[width:]]
    columns += source.columns[width:]
    exprs.append(by)
    columns.append(SqlColumn(_BY, types.of_expression(by, plan.columns)))
    input = projected(source, tuple(exprs), tuple(columns))
    taken = [column.name for column in (*plan.columns, *columns)]
    rank = SqlColumn(unused_name(item.alias or as_sql(node), taken), types.BIGINT, ColumnRole.RANK)
    if arrival is not None and (window is not None or source.changes is not None):
        raise sql.error(
            "PROCTIME() orders append-only rows, and not those of a window", order, _BY_EVENT_TIME
        )
    dedup = arrival
    if orders and window is None and source.changes is None:
        dedup = _by_event_time(orders, plan)
    given = (*(each for each in plan.columns), rank)
    plan = RankedRows(
        input=input,
        keys=tuple(keys),
        by=_BY,
        smallest=not orders or not orders[0].desc,
        rank=rank.name,
        window=window,
        dedup=dedup,
        at=node,
        columns=given,
        changes=None if window is not None else Changes((*keys, rank.name), retracts=True),
    )
    return plan, Typed(pl.col(rank.name), rank.type, node)


def _by_arrival(order: exp.Order, plan: PlanNode) -> Dedup | None:
    """Return which row is the first in the order of processing time; None for other orders."""
    [term, *others] = order.expressions
    clocks = {each.name.casefold() for each in plan.columns if each.role is ColumnRole.PROCESSING_TIME}
    named = isinstance(term.this, exp.Column) and term.this.name.casefold() in clocks
    if others or not (named or is_clock(term.this)):
        return None
    return Dedup("last" if term.args.get("desc") else "first", "arrival")


def _by_event_time(orders: Sequence[OrderTerm], plan: PlanNode) -> Dedup | None:
    """Return which row is the first in the order of event time; None for other orders."""
    first, *others = orders
    of = _plain(first.value, plan)
    if of is None or of.role is not ColumnRole.EVENT_TIME:
        return None
    if first.desc:
        return None if others else Dedup("last", "event_time")
    return FIRST_BY_TIME


def _plain(value: Typed, plan: PlanNode) -> SqlColumn | None:
    """Return the column that an expression consists of."""
    if not value.expr.meta.is_column():
        return None
    name = value.expr.meta.output_name()
    return next((column for column in plan.columns if column.name == name), None)


def _in_window(
    sql: SqlText,
    node: exp.Expr,
    plan: PlanNode,
    keys: list[str],
    exprs: list[pl.Expr],
    columns: list[SqlColumn],
) -> tuple[Window, PlanNode, list[str], list[pl.Expr], list[SqlColumn]]:
    """Return the windows in which rows are numbered, and the rows."""
    call = windowed_below(plan)
    if call is None:
        return AT_ITS_END, plan, keys, exprs, columns
    source = without_windows(plan)
    if source is None:
        raise sql.error(
            "the columns of a window are known only when it ends, so ROW_NUMBER cannot read them",
            node,
            "use a query around this one",
        )
    kept = [
        (expr, column)
        for expr, column in zip(exprs, columns, strict=True)
        if column.role not in OF_WINDOWS
    ]
    names = {column.name for _, column in kept}
    inner = [key for key in keys if key in names]
    return call.window, source, inner, [expr for expr, _ in kept], [column for _, column in kept]


def known_by_key(sql: SqlText, node: exp.Expr, plan: PlanNode, keys: list[str]) -> PlanNode:
    """Return an updating table's plan with its key. For other keys, changes contain the old rows,
    too."""
    changes = plan.changes
    if changes is None:
        return plan
    if not changes.key:
        return numbered_copies(sql, node, plan)
    return rekeyed(plan, keys)


# --- the order ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrderTerm:
    """One expression of ORDER BY."""

    value: Typed
    desc: bool
    null_is_least: bool

    @staticmethod
    def of(sql: SqlText, compiler: Compiler, node: exp.Ordered) -> OrderTerm:
        sql.only(node, ("this", "desc", "nulls_first"))
        desc = bool(node.args.get("desc"))
        first = bool(node.args.get("nulls_first", not desc))
        return OrderTerm(compiler.compile(node.this), desc, first != desc)

    @property
    def has_key(self) -> bool:
        """Whether `order_key` maps the values, which are bytes, lists or structs, to strings."""
        kind = self.value.type
        return isinstance(kind, pl.Binary | pl.List | pl.Struct) and is_ordered(kind)

    def number(self) -> pl.Expr | None:
        """Return integers in the same order; None if there is no such mapping."""
        number = whole_number(self.value.expr, types.signed(self.value.type))
        if number is None:
            return None
        return number.fill_null(-(1 << 63) if self.null_is_least else (1 << 63) - 1)


def sorted_by(sql: SqlText, orders: Sequence[OrderTerm]) -> pl.Expr:
    """Return one column that sorts in the order of all terms, with nulls in their place."""
    first, *others = orders
    if others:
        return _texts(sql, orders, desc=first.desc)
    number = first.number()
    if number is not None:
        return number
    value, kind = first.value.expr, first.value.type
    if isinstance(kind, pl.Decimal):
        return _decimal_as_text(value, kind, null_is_least=first.null_is_least)
    if types.is_floating(kind):
        least = float("-inf") if first.null_is_least else float("inf")
        return value.cast(types.DOUBLE).fill_nan(float("inf")).fill_null(least)
    if kind == types.TEXT or first.has_key:
        text = value if kind == types.TEXT else order_key(value, kind)
        return (pl.lit("x") + text).fill_null("" if first.null_is_least else "y")
    raise _without_order(sql, first)


def _without_order(sql: SqlText, order: OrderTerm) -> ProgramError:
    kind = order.value.type
    return sql.error(
        f"rows cannot be ordered by {types.name(kind)}",
        order.value.node,
        "order by a part of the value, or CAST it to another type",
    )


def ascending_by(sql: SqlText, orders: Sequence[OrderTerm]) -> pl.Expr:
    """Return strings whose ascending order is the order of all terms."""
    return _texts(sql, orders, desc=False)


def _texts(sql: SqlText, orders: Sequence[OrderTerm], *, desc: bool) -> pl.Expr:
    return pl.concat_str([_as_text(sql, each, flipped=each.desc != desc) for each in orders])


def _decimal_as_text(value: pl.Expr, kind: pl.Decimal, *, null_is_least: bool) -> pl.Expr:
    """Return strings in the order of the values, with nulls in their place."""
    text = text_of_decimal(value, kind).fill_null("0" if null_is_least else "3")
    return text.str.pad_end(kind.precision + 3, "0")


def _as_text(sql: SqlText, order: OrderTerm, *, flipped: bool) -> pl.Expr:
    """Return strings in the order of the values, or in reverse order. None is the beginning of another
    one."""
    number, kind = order.number(), order.value.type
    if number is None and isinstance(kind, pl.Decimal):
        text = _decimal_as_text(order.value.expr, kind, null_is_least=order.null_is_least)
        return digits_from_nine(text) if flipped else text
    if number is None and types.is_floating(kind):
        bits = of_columns(_ordered_bits, [order.value.expr], types.BIGINT)
        number = bits.fill_null(-(1 << 63) if order.null_is_least else (1 << 63) - 1)
    if number is None and (kind == types.TEXT or order.has_key):
        # A digit of a byte's value sorts between both ends.
        text = pl.lit("1") + order_key(order.value.expr, kind)
        text = text.fill_null("0" if order.null_is_least else "2")
        return text.str.replace_many([*_ALPHABET], [*_REVERSED]) if flipped else text
    if number is None:
        raise _without_order(sql, order)
    return text_of_number(number, flipped=flipped)


_ALPHABET = f"{END_OF_LIST}{END_OF_TEXT}.{HEX}"
_REVERSED = f"~}}.{HEX[::-1]}"


def _ordered_bits(columns: Sequence[pl.Series]) -> pl.Series:
    [values] = columns
    return ordered_bits(values)


# --- how many -----------------------------------------------------------------------------------------


def rank_of(plan: PlanNode) -> str | None:
    """Return the column of row numbers that are not bounded yet."""
    below = plan
    while isinstance(below, Filter | Project | CallPlan):
        below = below.input
    if not isinstance(below, RankedRows):
        return None
    return next((each.name for each in plan.columns if each.role == ColumnRole.RANK), None)


def bound(condition: exp.Expr, is_rank: object) -> int | None:
    """Return the number of rows of each key that pass a condition; None if it does not bound the row
    number."""
    assert callable(is_rank)
    if isinstance(condition, exp.Paren):
        return bound(condition.this, is_rank)
    if isinstance(condition, exp.Between):
        low, high = _whole(condition.args["low"]), _whole(condition.args["high"])
        return high if is_rank(condition.this) and low == 1 else None
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    left, right = condition.this, condition.expression
    if is_rank(left) and (n := _whole(right)) is not None:
        match condition:
            case exp.LTE():
                return n
            case exp.LT():
                return n - 1
            case exp.EQ():
                return 1 if n == 1 else None
    if is_rank(right) and (n := _whole(left)) is not None:
        match condition:
            case exp.GTE():
                return n
            case exp.GT():
                return n - 1
    return None


def _whole(node: exp.Expr) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and str(node.this).isdigit() else None


def limited(sql: SqlText, plan: PlanNode, n: int, *, with_ties: bool = False) -> PlanNode:
    """Return the rows with the first numbers, and those that rank equal to the last of them if
    requested. Raise ProgramError."""

    def made(ranked: RankedRows) -> PlanNode:
        if n > 1 and ranked.dedup is not None and ranked.dedup.order == "arrival":
            raise sql.error(
                "PROCTIME() orders rows only to find the first or the last one",
                ranked.at,
                f"write WHERE {ranked.rank} = 1; or {_BY_EVENT_TIME}",
            )
        return _top_n(ranked, n, with_ties=with_ties)

    return _with_ranked(plan, made)


def numbered(sql: SqlText, plan: PlanNode, ttl: TimeToLive | None) -> PlanNode:
    """Return all rows with their numbers: append-only rows in the order of event time, whose numbers
    are final; and updating tables in any order, which rows become that may be kept. Other orders are
    unchanged."""
    below = plan
    while isinstance(below, Filter | Project | CallPlan):
        below = below.input
    if not isinstance(below, RankedRows):
        return plan
    updates = below.input.changes is not None and below.window is None
    if updates or below.dedup == FIRST_BY_TIME:
        return _with_ranked(plan, _counted)
    if below.window is not None or below.dedup is not None or not may_be_kept(below.input, ttl):
        return plan

    def as_table(rows: RankedRows) -> PlanNode:
        return _counted(replace(rows, input=numbered_copies(sql, rows.at, rows.input)))

    return _with_ranked(plan, as_table)


def _with_ranked(plan: PlanNode, made: Callable[[RankedRows], PlanNode]) -> PlanNode:
    match plan:
        case RankedRows():
            return made(plan)
        case Filter() | Project() | CallPlan():
            inner = _with_ranked(plan.input, made)
            columns = tuple(_bounded(column) for column in plan.columns)
            if not isinstance(plan, Project):
                return replace(plan, input=inner, columns=columns, changes=inner.changes)
            return projected(inner, plan.exprs, columns)
    raise AssertionError("row numbers are those of ROW_NUMBER, possibly after filters and projections")


def _counted(plan: RankedRows) -> PlanNode:
    """Return the plan that computes row numbers as running counts."""
    over = OverColumns(plan.by, (plan.by,), (Count(plan.by),), (plan.rank,))
    columns = tuple(_bounded(column) for column in plan.columns)
    frame = FrameSpec(by_rows=True, preceding=None, descending=not plan.smallest)
    input, changes = by_first(plan), plan.input.changes
    if changes is not None:
        changes = Changes((*dict.fromkeys((*plan.keys, *changes.key)),), retracts=True)
    made = OverPlan(input, plan.keys, over, frame, (*input.columns, columns[-1]), changes)
    return projected(made, tuple(pl.col(column.name) for column in columns), columns)


def by_first(plan: RankedRows) -> PlanNode:
    """Return the input with the column of the order first: rows of the same time are compared column by
    column."""
    columns = sorted(plan.input.columns, key=lambda column: column.name != plan.by)
    return projected(plan.input, tuple(pl.col(column.name) for column in columns), tuple(columns))


def _top_n(plan: RankedRows, n: int, *, with_ties: bool) -> PlanNode:
    is_single = n == 1 and not with_ties
    dedup = plan.dedup if is_single else None
    changes = plan.changes
    if changes is not None and is_single:
        changes = Changes(plan.keys, retracts=dedup is None)
    if dedup is not None and dedup.keep == "first":
        changes = None
    return TopN(
        input=by_first(plan) if dedup == FIRST_BY_TIME else plan.input,
        keys=plan.keys,
        by=plan.by,
        smallest=plan.smallest,
        n=n,
        with_ties=with_ties,
        rank=plan.rank,
        window=plan.window,
        dedup=dedup,
        columns=tuple(_bounded(column) for column in plan.columns),
        changes=changes,
    )


def _bounded(column: SqlColumn) -> SqlColumn:
    return replace(column, role=ColumnRole.PLAIN) if column.role == ColumnRole.RANK else column


def check_result(sql: SqlText, plan: PlanNode) -> None:
    """Raise ProgramError if a result has unbounded row numbers or reads processing time."""
    for column in plan.columns:
        if column.role is ColumnRole.PROCESSING_TIME:
            raise sql.error(
                f"{column.name} is the processing time, which has no fixed value",
                None,
                "it can only be used in windows; leave it out of the result of the query",
            )
    for each in _walk(plan):
        if isinstance(each, RankedRows):
            what = "each new row would change the numbers of all rows"
            raise sql.error(what, each.at, f"{_EXAMPLE}; or {KEEP_ALL}")


def _walk(plan: PlanNode) -> Iterator[PlanNode]:
    yield plan
    for each in plan.upstream():
        yield from _walk(each)
