"""Calls of models: FROM ML_PREDICT(TABLE rides, MODEL minutes, DESCRIPTOR(km, hour))."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.core.operators.call import CallForm, CallSpec
from rheos.sql import types
from rheos.sql.create_model import unknown_model
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.functions import SqlParameter, fitted
from rheos.sql.model_parser import ModelArgument
from rheos.sql.plan import CallPlan, PlanNode, SqlColumn, projected, with_keys
from rheos.sql.scope import NameScope
from rheos.sql.table_arguments import TableArgument
from rheos.sql.unused_names import unused_name

if TYPE_CHECKING:
    from rheos.sql.query import Planner

ML_PREDICT = "ML_PREDICT"
_EXAMPLE = "write FROM ML_PREDICT(TABLE rides, MODEL minutes, DESCRIPTOR(km, hour))"
_ARGUMENTS = ("INPUT", "MODEL", "ARGS", "CONFIG")


def predict_call(node: exp.Expr) -> exp.Anonymous | None:
    """Return the call of ML_PREDICT in FROM; None if the table is not one."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == "TABLE" and len(node.expressions) == 1:
        [node] = node.expressions
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() == ML_PREDICT
    return node if is_call else None  # type: ignore[return-value]


def predicted(planner: Planner, call: exp.Anonymous) -> PlanNode:
    """Return the rows of a table with the predictions of a model. Raise ProgramError or SchemaError."""
    sql, given = planner.sql, _arguments(planner, call)
    table, named, descriptor = given["INPUT"], given["MODEL"], given["ARGS"]
    if not isinstance(table, TableArgument) or table.args["keys"] or table.args["order"] is not None:
        raise sql.error("ML_PREDICT takes a table without keys and order", table, _EXAMPLE)
    if not isinstance(named, ModelArgument):
        raise sql.error("ML_PREDICT takes a model", named, _EXAMPLE)
    models = planner.catalog.models
    declared = models.get(named.this.name.casefold())
    if declared is None:
        raise unknown_model(sql, models, named.this)
    is_descriptor = isinstance(descriptor, exp.Anonymous) and descriptor.name.upper() == "DESCRIPTOR"
    if not is_descriptor:
        raise sql.error("ML_PREDICT takes the columns of the inputs", descriptor, _EXAMPLE)
    if (config := given.get("CONFIG")) is not None:
        planner.note(sql, config, "the configuration of ML_PREDICT has no effect")
    model, columns = declared.model, descriptor.expressions
    if len(columns) != len(model.inputs):
        raise sql.error(
            f"the model {model.name} takes {len(model.inputs)} columns, but {len(columns)} are named",
            descriptor,
            f"its inputs are {', '.join(model.inputs.names)}",
        )
    relation = planner.table(table.this)
    compiler = Compiler(sql, NameScope(sql, relation.tables))
    inputs: list[Typed] = []
    for each, field in zip(columns, model.inputs, strict=True):
        wanted = SqlParameter(field.name, types.of_arrow(field.type), True)
        inputs.append(fitted(compiler, compiler.compile(each), wanted, call))
    plan, names = with_keys(relation.plan, inputs, f"of {model.name}")
    # A retraction must contain the prediction of its row. Libraries compute a row of a matrix slightly
    # differently if the matrix has another number of rows.
    changes = plan.changes
    model = replace(model, by_row=changes is not None and changes.retracts)
    taken = {column.name for column in plan.columns}
    made = SqlColumn(unused_name(f"of {model.name}", taken, "'"), types.of_arrow(model.type))
    spec = CallSpec(made.name, model, tuple(names), CallForm.ARROW)
    rows = CallPlan(plan, spec, (*plan.columns, made), changes)
    exprs = [pl.col(column.name) for column in relation.plan.columns]
    result = [*relation.plan.columns]
    for field in model.outputs:
        exprs.append(pl.col(made.name).struct.field(field.name))
        name = _unused(field.name, {column.name for column in result})
        result.append(SqlColumn(name, types.of_arrow(field.type)))
    return projected(rows, tuple(exprs), tuple(result))


def _unused(name: str, taken: set[str]) -> str:
    """Return the name of an output: with a number if the table has such a column."""
    if name not in taken:
        return name
    return next(each for n in count() if (each := f"{name}{n}") not in taken)


def _arguments(planner: Planner, call: exp.Anonymous) -> dict[str, exp.Expr]:
    """Return the arguments by their names."""
    sql, given = planner.sql, dict[str, exp.Expr]()
    for place, value in enumerate(call.expressions):
        name = _ARGUMENTS[place] if place < len(_ARGUMENTS) else "more"
        if isinstance(value, exp.Kwarg):
            name, value = value.this.name.upper(), value.expression
        if name not in _ARGUMENTS:
            raise sql.unknown("argument", name, value, _ARGUMENTS, "the arguments are")
        if name in given:
            raise sql.error(f"ML_PREDICT has two values for {name}", value, "leave out one")
        given[name] = value
    if missing := [each for each in _ARGUMENTS[:3] if each not in given]:
        raise sql.error(f"ML_PREDICT is missing {missing[0]}", call, _EXAMPLE)
    return given
