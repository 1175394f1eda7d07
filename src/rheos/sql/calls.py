"""Calls of the user's functions as nodes of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rheos.core.operators.call import CallForm, CallSpec
from rheos.sql import types
from rheos.sql.expressions.table import Typed
from rheos.sql.functions import FoldFunction, UserFunction
from rheos.sql.plan import CallPlan, PlanNode, SqlColumn, with_keys
from rheos.sql.unused_names import unused_name


def with_call(
    plan: PlanNode, of: UserFunction, arguments: Sequence[Typed], text: str
) -> tuple[PlanNode, SqlColumn]:
    """Return the rows with a column for the function's results, and that column."""
    plan, names = with_keys(plan, arguments, f"in {text}")
    takes_null = [name for place, name in enumerate(names) if of.parameter(place).takes_null]
    assert of.gives is not None
    return _called(plan, text, of.fn, names, of.form, takes_null, of.gives)


def folded(plan: PlanNode, of: UserFunction, values: str, text: str) -> tuple[PlanNode, SqlColumn]:
    """Return groups with the results of an aggregate over the lists of their values."""
    assert of.gives is not None
    fold = FoldFunction(of.fn, of.record)
    return _called(plan, f"{text} of all", fold, (values,), CallForm.VALUES, (values,), of.gives)


def _called(
    plan: PlanNode,
    text: str,
    fn: Any,
    arguments: Sequence[str],
    form: CallForm,
    takes_null: Sequence[str],
    gives: pa.DataType,
) -> tuple[PlanNode, SqlColumn]:
    name = unused_name(text, {column.name for column in plan.columns}, "'")
    kind = types.of_arrow(pa.list_(gives) if form is CallForm.MANY else gives)
    made = SqlColumn(name, kind)
    spec = CallSpec(name, fn, tuple(arguments), form, tuple(takes_null))
    return CallPlan(plan, spec, (*plan.columns, made), plan.changes), made
