"""Temporal filters: WHERE now() <= ts + INTERVAL '1' DAY, which rows pass only for some time.

now() is the event time that the rows have reached, so that every run has the same result. A row appears
when event time reaches its first moment, and is retracted when event time leaves its last one.

The plan uses existing operators. Each row becomes two changes, an insertion and a deletion, whose event
times are these moments. A keyed function in the order of event time buffers both until they are due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.changelog import DELETE, INSERT, OP, Changes
from rheos.core.graph.watermark import Watermark
from rheos.sql import types
from rheos.sql.expressions.intervals import parts_of_interval
from rheos.sql.expressions.table import Compiler
from rheos.sql.nullable_keys import not_null, with_changes
from rheos.sql.plan import (
    SET_EVENT_TIME,
    ColumnRole,
    Columns,
    Names,
    Origins,
    PlanNode,
    SqlColumn,
    names_of,
    plain_column,
)
from rheos.sql.scope import NameScope, SqlRelation, with_columns
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.lowering import Lowering

_CHANGES, _AT = "temporal changes", "changed at"
"""Columns of the changes of a row, and of their times."""
_NAMES = ("now", "mz_now")
_EXAMPLE = "write WHERE now() <= ts + INTERVAL '1' DAY"
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
Shifts: TypeAlias = list[tuple[type[exp.Add | exp.Sub], exp.Expr]]
"""Intervals that are added to now() or subtracted from it."""


class _DueChanges(KeyedBatchFunction):
    """Emits rows in the order of event time in which it receives them."""

    form = "arrow"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [*names]

    def process_batch(
        self, keys: BatchKeys, batch: pa.RecordBatch, state: BatchState
    ) -> Iterator[Emit[Any]]:
        yield Emit(batch.select(self.names))


@dataclass(frozen=True, eq=False)
class TemporalFilter(PlanNode):
    """The rows for the time in which they pass a condition with now()."""

    input: PlanNode
    time: str
    """Column of the rows' event time."""
    first: pl.Expr | None
    """First moment of a row, in ms; None if it appears at its event time."""
    gone: pl.Expr | None
    """Moment at which a row is retracted, in ms; None if it never is."""
    columns: Columns
    changes: Changes | None

    def summary(self) -> str:
        bounds = (("from", self.first), ("until", self.gone))
        return " ".join(["temporal filter", *(name for name, bound in bounds if bound is not None)])

    def looked_at(self, needed: Names) -> list[Names]:
        bounds = [bound for bound in (self.first, self.gone) if bound is not None]
        read = (name for bound in bounds for name in bound.meta.root_names())
        return [needed.union([self.time], read) & names_of(self.input)]

    def may_be_null(self, name: str) -> bool:
        return self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        rows = lowering.stream(self.input)
        names = [*rows.schema.names]
        # Downstream of an exchange, new times do not advance event time.
        timed = self._changes_of(rows.rebalance()).with_event_time(
            Watermark.bounded_out_of_orderness("0ms", on=_AT)
        )
        of = not_null(timed, [self.time])
        kept = [name for name in of.stream.schema.names if name != _AT]
        schema = pa.schema([of.stream.schema.field(name) for name in kept])
        keyed = of.keyed()
        made = keyed.process(_DueChanges(kept), order="event_time", returns=schema)
        made = lowering.known(made, self, "temporal filter", *map(str, (self.first, self.gone)))
        if self.changes is None:
            return made.select(*names)
        return of.restored(with_changes(made, self.changes), self.changes)

    def _changes_of(self, rows: DataStream) -> DataStream:
        """Return the changes of each row, with their times; no change of a row that never passes."""
        at, gone = _milliseconds(pl.col(self.time), self.input, self.time), self.gone
        if self.first is not None:
            # A null moment is no moment: the comparison with it is null.
            at = pl.when(self.first.is_not_null()).then(pl.max_horizontal(at, self.first))
        names = [*rows.schema.names]
        if gone is None:
            return rows.select(*names, types.moment(at * 1000).alias(_AT)).filter(
                pl.col(_AT).is_not_null()
            )
        both = [
            pl.struct(pl.lit(op).alias(OP), types.moment(each * 1000).alias(_AT))
            for op, each in ((INSERT, at), (DELETE, gone))
        ]
        passing = rows.filter(at < gone)
        return passing.select(*names, pl.concat_list(both).alias(_CHANGES)).explode(_CHANGES)


def _milliseconds(value: pl.Expr, plan: PlanNode, name: str) -> pl.Expr:
    kind = next(column.type for column in plan.columns if column.name == name)
    return value.dt.epoch("us") // 1000 if types.is_timestamp(kind) else value.cast(types.BIGINT)


def is_temporal(condition: exp.Expr) -> bool:
    """Return whether a condition of WHERE compares with now()."""
    query = condition.find_ancestor(exp.Query)
    return any(
        _is_now(each) and each.find_ancestor(exp.Query) is query
        for each in condition.find_all(exp.CurrentTimestamp, exp.Anonymous)
    )


def _is_now(node: exp.Expr) -> bool:
    if isinstance(node, exp.CurrentTimestamp):
        return node.this is None
    return isinstance(node, exp.Anonymous) and node.name.casefold() in _NAMES and not node.expressions


def temporally_filtered(
    sql: SqlText, relation: SqlRelation, conditions: Sequence[exp.Expr]
) -> SqlRelation:
    """Return the rows for the time in which they pass conditions. Raises ProgramError, SchemaError."""
    if not conditions:
        return relation
    plan = relation.plan
    if plan.changes is not None:
        raise sql.error(
            "a condition with now() takes append-only rows, but these are updated",
            conditions[0],
            "filter the rows by now() before they are aggregated or joined",
        )
    times = [column.name for column in plan.columns if column.role is ColumnRole.EVENT_TIME]
    if not times:
        raise sql.error(
            "now() is the event time, but these rows lack it", conditions[0], SET_EVENT_TIME
        )
    compiler = Compiler(sql, NameScope(sql, relation.tables))
    firsts: list[pl.Expr] = []
    gones: list[pl.Expr] = []
    for each in conditions:
        for of, moment in _bounds(sql, each):
            _bound(compiler, of, moment, firsts, gones)
    columns = tuple(map(plain_column, plan.columns))
    made = TemporalFilter(
        plan,
        times[0],
        _combined(firsts, pl.max_horizontal),
        _combined(gones, pl.min_horizontal),
        columns,
        Changes((), retracts=True) if gones else None,
    )
    clash = next((column for column in columns if gones and column.name == OP), None)
    if clash is not None:
        raise sql.error(
            f"the column {OP!r} has the name of the column with the kind of change",
            conditions[0],
            f"rename it in a query: SELECT {OP} AS operation FROM ...",
        )
    by_name: dict[str, SqlColumn] = {column.name: column for column in columns}
    return SqlRelation(made, with_columns(relation.tables, by_name))


def _combined(bounds: Sequence[pl.Expr], combine: Any) -> pl.Expr | None:
    """Return the strictest of the bounds; null if one of them is null."""
    if not bounds:
        return None
    known = reduce(lambda one, other: one & other, (each.is_not_null() for each in bounds))
    return bounds[0] if len(bounds) == 1 else pl.when(known).then(combine(*bounds))


def _bounds(sql: SqlText, node: exp.Expr) -> Iterator[tuple[type[exp.Expr], exp.Expr]]:
    """Yield comparisons of now() with moments. Raises ProgramError."""
    node = node.unnest()
    match node:
        case exp.And():
            yield from _bounds(sql, node.this)
            yield from _bounds(sql, node.expression)
            return
        case exp.Between():
            low, high = node.args["low"], node.args["high"]
            parts: list[tuple[type[exp.Expr], exp.Expr, exp.Expr]] = [
                (exp.GTE, node.this, low),
                (exp.LTE, node.this, high),
            ]
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            parts = [(type(node), node.this, node.expression)]
        case _:
            raise _refused(sql, node)
    for given, left, right in parts:
        of = given
        if not is_temporal(left):
            of, left, right = _TURNED[given], right, left
        shifts = _shifts(left)
        if is_temporal(right) or (shifts is None and is_temporal(left)):
            raise _refused(sql, node)
        if shifts is None:
            raise sql.error(
                "one side of this BETWEEN has no now()", node, "write it as a separate condition"
            )
        for move, by in reversed(shifts):
            if any(_has_months(sql, each) for each in by.find_all(exp.Interval)):
                raise sql.error(
                    "months before now() have no fixed length",
                    by,
                    "add them to the other side: now() <= ts + INTERVAL '1' MONTH",
                )
            opposite = exp.Sub if move is exp.Add else exp.Add
            right = opposite(this=right, expression=by)
            right.meta.update(by.meta)
        yield of, right


def _has_months(sql: SqlText, interval: exp.Interval) -> bool:
    months, _ = parts_of_interval(sql, interval)
    return months is not None


def _refused(sql: SqlText, node: exp.Expr) -> Exception:
    return sql.error(
        "now() in WHERE can only be compared with a moment of the row, by <, <=, >, >= or BETWEEN, "
        "in conditions combined by AND",
        node,
        _EXAMPLE,
    )


def _shifts(node: exp.Expr) -> Shifts | None:
    """Return what is added to now(), step by step; None for other expressions."""
    node = node.unnest()
    if _is_now(node):
        return []
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    of, by = node.this, node.expression
    if isinstance(node, exp.Add) and is_temporal(by):
        of, by = by, of
    before = _shifts(of)
    if before is None or is_temporal(by):
        return None
    return [*before, (type(node), by)]


def _bound(
    compiler: Compiler,
    of: type[exp.Expr],
    moment: exp.Expr,
    firsts: list[pl.Expr],
    gones: list[pl.Expr],
) -> None:
    """Add the first moment of a row, or the moment at which it is gone, in ms. Raises SchemaError."""
    value = compiler.compile(moment)
    if value.type == types.TEXT:
        value = compiler.cast_text(value, types.TIMESTAMP)
    if value.type != types.DATE and not types.is_timestamp(value.type):
        raise compiler.wrong_type("now() is compared with a DATE or TIMESTAMP", value, _EXAMPLE)
    micros = compiler.cast(value, types.TIMESTAMP).expr.dt.epoch("us")
    if of is exp.GTE:
        firsts.append(-((-micros) // 1000))
    elif of is exp.GT:
        firsts.append(micros // 1000 + 1)
    elif of is exp.LTE:
        gones.append(micros // 1000 + 1)
    else:
        gones.append(-((-micros) // 1000))
