"""Calls of process functions: FROM sessions(TABLE clicks PARTITION BY user ORDER BY ts, gap => 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
from sqlglot import exp

from rheos.core.callables import function_name
from rheos.core.errors import RheosError
from rheos.core.graph.functions import KeyedProcessFunction
from rheos.core.graph.nodes import Order
from rheos.sql import types
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.expressions.table import Compiler
from rheos.sql.functions import (
    FunctionKind,
    SqlParameter,
    UserCall,
    UserFunction,
    fitted,
    process_example,
)
from rheos.sql.plan import (
    SET_EVENT_TIME,
    ColumnRole,
    Columns,
    Origins,
    PlanNode,
    SqlColumn,
    origins_of,
    projected,
)
from rheos.sql.scope import NameScope, SqlRelation
from rheos.sql.table_arguments import TableArgument
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.lowering import Lowering
    from rheos.sql.query import Planner

_ALL = "all rows"
"""Key without PARTITION BY."""
_OPTIONS = ("on_time", "uid")
"""Arguments that every call has, in addition to those of the function."""


@dataclass(frozen=True, eq=False)
class ProcessPlan(PlanNode):
    """The rows that a function with state and timers computes from those of each key."""

    input: PlanNode
    name: str
    fn: KeyedProcessFunction
    returns: Any
    keys: tuple[str, ...]
    is_ordered: bool
    """Whether the function receives the rows in the order of their event time."""
    uid: str | None
    columns: Columns
    changes: None = None
    calls_user: ClassVar[bool] = True

    def summary(self) -> str:
        order = " in the order of event time" if self.is_ordered else ""
        return f"process {self.name} by {', '.join(self.keys)}{order}"

    def origins(self) -> Origins:
        of = self.input.origins()
        return dict.fromkeys((each.name for each in self.columns), origins_of(of, of))

    def lowered(self, lowering: Lowering) -> DataStream:
        keyed = lowering.stream(self.input).key_by(*self.keys)
        order: Order = "event_time" if self.is_ordered else "arrival"
        rows = keyed.process(self.fn, order=order, returns=self.returns)
        if self.uid is not None:
            return rows.uid(self.uid)
        return lowering.known(rows, self, "process", self.name, *self.keys)


def process_functions(functions: Mapping[str, type[UserCall]]) -> list[str]:
    """Return the names of the process functions."""
    found = (each.function for each in functions.values())
    return [each.name for each in found if each.kind is FunctionKind.PROCESS]


def process_call(node: exp.Expr) -> UserCall | None:
    """Return the call of a process function in FROM; None if the table is not one."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "TABLE" and len(node.expressions) == 1:
        [node] = node.expressions
    is_process = isinstance(node, UserCall) and node.function.kind is FunctionKind.PROCESS
    return node if is_process else None  # type: ignore[return-value]


def process(planner: Planner, call: UserCall) -> ProcessPlan:
    """Plan the call of a process function. Raise ProgramError or SchemaError."""
    sql, function = planner.sql, call.function
    given = _arguments(sql, call)
    table = given.pop("TABLE")
    if not isinstance(table, TableArgument):
        raise sql.error(f"{function.name} takes a table", table, process_example(function.name))
    relation = planner.table(table.this)
    if relation.plan.changes is not None:
        raise sql.error(
            f"{function.name} takes append-only rows, but these are updated",
            table.this,
            "call the function on the rows before they are aggregated or joined",
        )
    order = table.args["order"]
    times = [] if order is None else order.expressions
    if len(times) > 1 or any(each.args.get("desc") for each in times):
        raise sql.error(
            "a process function takes its rows in ascending order of event time",
            order,
            "write ORDER BY and the event time, without further columns",
        )
    descriptor = given.pop("on_time", None)
    for each in (*(each.this for each in times), *_described(sql, descriptor)):
        _check_time(sql, relation, each)
    uid = given.pop("uid", None)
    if uid is not None and not (isinstance(uid, exp.Literal) and uid.is_string):
        raise sql.error("uid must be a string", uid, "write uid => 'sessions'")
    plan, keys = _with_keys(sql, relation, table)
    assert function.gives is not None
    columns = tuple(SqlColumn(each.name, types.of_arrow(each.type)) for each in function.gives)
    fn = _instance(sql, call, given)
    return ProcessPlan(
        plan,
        function.name,
        fn,
        function.returns,
        keys,
        bool(times),
        None if uid is None else uid.name,
        columns,
    )


def _arguments(sql: SqlText, call: UserCall) -> dict[str, exp.Expr]:
    """Return the table as "TABLE", and the other arguments by the names of their parameters."""
    function, given = call.function, {}
    names = ["TABLE", *(each.name for each in function.takes), *_OPTIONS]
    for place, value in enumerate(call.expressions):
        name = names[place] if place < len(names) - len(_OPTIONS) else None
        if isinstance(value, exp.Kwarg):
            name, value = value.this.name, value.expression
            if isinstance(value, TableArgument):
                name = "TABLE"
        if name not in names:
            known = [*names[1:]]
            if name is None:
                raise sql.error(
                    f"{function.name} takes {len(function.takes)} arguments besides its table",
                    value,
                    process_example(function.name),
                )
            raise sql.unknown("argument", name, value, known, f"the arguments of {function.name} are")
        if name in given:
            raise sql.error(f"{function.name} has two values for {name}", value, "leave out one")
        given[name] = value
    if "TABLE" not in given:
        raise sql.error(f"{function.name} takes a table", call, process_example(function.name))
    for each in function.takes:
        if each.name not in given and not each.optional:
            raise sql.error(
                f"{function.name} is missing {each.name}", call, f"write {each.name} => ..."
            )
    return given


def _described(sql: SqlText, node: exp.Expr | None) -> list[exp.Expr]:
    """Return the column in DESCRIPTOR(column)."""
    if node is None:
        return []
    named = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR"
    if not named or len(node.expressions) != 1:
        raise sql.error("on_time takes one column", node, "write on_time => DESCRIPTOR(ts)")
    return list(node.expressions)


def _check_time(sql: SqlText, relation: SqlRelation, node: exp.Expr) -> None:
    """Raise ProgramError unless the expression is the event time of the rows."""
    scope = NameScope(sql, relation.tables)
    column = scope.named(node) if isinstance(node, exp.Column) else None
    if column is None or column.column.role is not ColumnRole.EVENT_TIME:
        times = [each.name for each in relation.plan.columns if each.role is ColumnRole.EVENT_TIME]
        hint = f"the event time is {times[0]}" if times else SET_EVENT_TIME
        raise sql.error("this is not the event time of the rows", node, hint)


def _with_keys(
    sql: SqlText, relation: SqlRelation, table: TableArgument
) -> tuple[PlanNode, tuple[str, ...]]:
    """Return the rows and the columns that partition them: a constant without PARTITION BY."""
    plan, scope = relation.plan, NameScope(sql, relation.tables)
    keys = [scope.column(each).expr.meta.output_name() for each in table.args["keys"]]
    if keys:
        return plan, tuple(dict.fromkeys(keys))
    exprs = [pl.col(column.name) for column in plan.columns]
    one = pl.lit(0, dtype=types.BIGINT).alias(_ALL)
    columns = (*plan.columns, SqlColumn(_ALL, types.BIGINT))
    return projected(plan, (*exprs, one), columns), (_ALL,)


def _instance(sql: SqlText, call: UserCall, given: Mapping[str, exp.Expr]) -> KeyedProcessFunction:
    """Return the function object, made with the arguments of the call if a class is registered."""
    function = call.function
    if isinstance(function.fn, KeyedProcessFunction):
        return function.fn
    parameters = {each.name: each for each in function.takes}
    values = {
        name: _constant(sql, function, parameters[name], node, call) for name, node in given.items()
    }
    try:
        made: KeyedProcessFunction = function.fn(**values)
    except RheosError:
        raise
    except Exception as error:
        raise sql.error(
            f"{function_name(function.fn)}() raised {type(error).__name__}: {error}",
            call,
            "correct its arguments",
        ) from error
    return made


def _constant(
    sql: SqlText, function: UserFunction, parameter: SqlParameter, node: exp.Expr, call: UserCall
) -> Any:
    """Return the value of an argument, which must not read columns."""
    column = node.find(exp.Column)
    if column is not None:
        raise sql.error(
            f"{function.name} takes constants besides its table",
            column,
            "the function reads the columns of a row from the record in process_element",
        )
    if isinstance(node, exp.Interval):
        length = interval_of(sql, node)
        if not isinstance(length, timedelta):
            raise sql.error("a length in months has no fixed duration", node, "write it in days")
        return length
    compiler = Compiler(sql, NameScope(sql, ()))
    value = fitted(compiler, compiler.compile(node), parameter, call)
    return pl.select(value.expr).to_series().item()
