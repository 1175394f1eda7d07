"""Pushes a program's first filters into Spark's readers, which return a superset of the passing rows.

The filter itself stays in its place, and decides. Spark's filter only reduces the rows to read. So
every part that Spark might interpret differently is omitted: one part of an "and", or the whole of an
"or". Supported are comparisons of a column with constants, `is_in`, `is_between`, nulls, and plain
strings at the start, at the end or within, joined by "and", "or" and "not".

A filter that may fail on a row is not pushed at all, so that the program reports the error.

Spark's readers would drop too many rows in four cases, all seen on Parquet files. They are avoided:

- A file's statistics ignore NaN, which is the greatest value: `x > 5` would drop a file that holds 1.0
  and NaN. So if NaN passes a filter, `isnan` is added to it, and the reader receives no part of it.
- A file's dictionaries treat -0.0 and 0.0 as two values: "equal to zero" becomes "between the two".
- A bound in microseconds is truncated to a file's milliseconds: `t < 1000.5 ms` would drop 1000. So a
  bound must be whole in the column's unit.
- A constant passes through `java.sql`, which shifts the days from 1582-10-05 to 1582-10-14, and a day
  that the JVM's time zone skipped. So no time before the Gregorian calendar is pushed, and no such day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f

from rheos.core.graph.expression_trees import tree_of
from rheos.core.graph.nodes import MAIN
from rheos.core.plan.physical import Chain, Route, ToOperator
from rheos.runtimes.batch.pushdown_constants import constants_of, is_text, literal_of, spark_float

MAX_VALUES = 200
"""Maximum number of values in `is_in` that is pushed to Spark."""


@dataclass(frozen=True)
class PushColumn:
    """A column of the source that a filter may name."""

    kind: pa.DataType
    column: Column
    """The Spark column, which holds the values in type `kind` unchanged."""


Columns = Mapping[str, PushColumn]


def superset_filter(chain: Chain, schema: pa.Schema, columns: Columns) -> Column | None:
    """Return a condition that every row satisfies that passes one of the filters after `chain`'s
    source. Return None if any row may pass. `schema` is the source's; columns that are not in `columns`
    are unknown.

    The caller ensures that nothing except the filters looks at the rows (as lateness does).
    """
    return _Filters(chain, schema, columns).passing(chain.operators[0].routes.get(MAIN, ()))


class _Filters:
    def __init__(self, chain: Chain, schema: pa.Schema, columns: Columns) -> None:
        self._chain = chain
        self._schema = schema
        self._columns = columns

    def passing(self, routes: Sequence[Route]) -> Column | None:
        """Return a condition that holds for every row that passes the reader of at least one route."""
        found = [self._filter_of(route) for route in routes]
        if not found or any(each is None for each in found):
            return None
        return reduce(or_, (each for each in found if each is not None))

    def _filter_of(self, route: Route) -> Column | None:
        if not isinstance(route, ToOperator):
            return None
        operator = self._chain.operators[route.index]
        predicates = operator.spec.predicates()
        if not predicates or not all(_cannot_fail(expr, self._schema) for expr in predicates):
            return None
        parts = [superset(expr, self._columns) for expr in predicates]
        parts.append(self.passing(operator.routes.get(MAIN, ())))
        return _all_of(parts)


def superset(expr: pl.Expr, columns: Columns) -> Column | None:
    """Return a Spark column that is true wherever the Polars predicate is; None for all rows."""
    tree = tree_of(expr)
    return None if tree is None else _Translation(columns).true_of(tree, negated=False)


# --- expressions that may fail --------------------------------------------------------------------

_SIMPLE = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
    pa.types.is_timestamp,
)
_COMPARING = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "EqValidity", "NotEqValidity")
_ARITHMETIC = ("Plus", "Minus", "Multiply", "TrueDivide", "FloorDivide", "Modulus", "Xor")
_SAFE_OPS = frozenset([*_COMPARING, "And", "Or", *_ARITHMETIC])
_SAFE_FUNCTIONS = frozenset(
    [
        *("Not", "IsNull", "IsNotNull", "IsNan", "IsNotNan", "IsFinite", "IsInfinite", "IsIn"),
        *("IsBetween", "AllHorizontal", "AnyHorizontal", "FillNull", "Negate", "Abs"),
        *("StartsWith", "EndsWith", "Lowercase", "Uppercase", "LenBytes", "LenChars"),
        *("Year", "Month", "Day", "Hour", "Minute", "Second", "WeekDay", "OrdinalDay"),
    ]
)


def _cannot_fail(expr: pl.Expr, schema: pa.Schema) -> bool:
    """Return whether evaluating the expression certainly raises for no row."""
    simple = all(
        any(is_a(schema.field(name).type) for is_a in _SIMPLE)
        for name in expr.meta.root_names()
        if name in schema.names
    )
    return simple and _safe(tree_of(expr))


def _safe(tree: Any) -> bool:
    match tree:
        case {"Column": str()} | {"Literal": _}:
            return True
        case {"Alias": [inner, _]}:
            return _safe(inner)
        case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
            return op in _SAFE_OPS and _safe(left) and _safe(right)
        case {"Ternary": {"predicate": predicate, "truthy": truthy, "falsy": falsy}}:
            return all(map(_safe, (predicate, truthy, falsy)))
        case {"Cast": {"expr": inner, "options": "NonStrict"}}:
            return _safe(inner)
        case {"Function": {"function": {"StringExpr": {"Contains": _}}, "input": [value, pattern]}}:
            return _safe(value) and _pattern(tree) is not None and "Literal" in pattern
        case {"Function": {"function": function, "input": inputs}}:
            return _function_name(function) in _SAFE_FUNCTIONS and all(map(_safe, inputs))
    return False


def _function_name(function: Any) -> str | None:
    """Return the name of a function: IsIn for `{"Boolean": {"IsIn": {...}}}`, Abs for `"Abs"`."""
    while isinstance(function, dict) and len(function) == 1:
        ((name, function),) = function.items()
        if name not in ("Boolean", "Sql", "StringExpr", "TemporalExpr"):
            return str(name)
    return function if isinstance(function, str) else None


# --- translation ----------------------------------------------------------------------------------

_NEGATED = {
    "Eq": "NotEq",
    "NotEq": "Eq",
    "Lt": "GtEq",
    "GtEq": "Lt",
    "Gt": "LtEq",
    "LtEq": "Gt",
    "EqValidity": "NotEqValidity",
    "NotEqValidity": "EqValidity",
}
_MIRRORED = {"Lt": "Gt", "Gt": "Lt", "LtEq": "GtEq", "GtEq": "LtEq"}
_CLOSED = {
    "Both": ("GtEq", "LtEq"),
    "Left": ("GtEq", "Lt"),
    "Right": ("Gt", "LtEq"),
    "None": ("Gt", "Lt"),
}
_COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
    "Lt": lambda a, b: a < b,
    "LtEq": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "GtEq": lambda a, b: a >= b,
}
_NAN_PASSES = ("Gt", "GtEq", "NotEq")


class _Translation:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def true_of(self, tree: Any, *, negated: bool) -> Column | None:
        """Return a condition that holds for rows for which the tree is true (negated: false). A row for
        which the tree is null is neither."""
        match tree:
            case {"Alias": [inner, _]}:
                return self.true_of(inner, negated=negated)
            case {"Column": _}:
                known = self._column(tree)
                if known is None or not pa.types.is_boolean(known.kind):
                    return None
                return ~known.column if negated else known.column
            case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
                if op in ("And", "Or"):
                    parts = [self.true_of(part, negated=negated) for part in (left, right)]
                    return _all_of(parts) if (op == "And") != negated else _any_of(parts)
                if op in _COMPARING:
                    return self._compared(left, _NEGATED[op] if negated else op, right)
            case {"Function": {"function": {"Boolean": "Not"}, "input": [inner]}}:
                return self.true_of(inner, negated=not negated)
            case {"Function": {"function": function, "input": [value, *others]}}:
                known = self._column(value)
                if known is not None:
                    return self._function(known, function, others, tree, negated)
        return None

    def _column(self, tree: Any) -> PushColumn | None:
        match tree:
            case {"Column": str(name)}:
                return self._columns.get(name)
        return None

    def _compared(self, left: Any, op: str, right: Any) -> Column | None:
        known, values = self._column(left), constants_of(right)
        if known is None:
            known, values, op = self._column(right), constants_of(left), _MIRRORED.get(op, op)
        if known is None or values is None or len(values) != 1:
            return None
        return _comparison(known, op, values, 0)

    def _function(
        self, known: PushColumn, function: Any, others: list[Any], tree: Any, negated: bool
    ) -> Column | None:
        match function:
            case {"Boolean": "IsNull" | "IsNotNull" as name}:
                null = (name == "IsNull") != negated
                return known.column.isNull() if null else known.column.isNotNull()
            case {"Boolean": {"IsBetween": {"closed": closed}}} if closed in _CLOSED:
                ends = [
                    self._compared(tree["Function"]["input"][0], _NEGATED[op] if negated else op, end)
                    for op, end in zip(_CLOSED[closed], others, strict=True)
                ]
                return _any_of(ends) if negated else _all_of(ends)
            case {"Boolean": {"IsIn": {"nulls_equal": False}}} | {
                "Sql": {"IsIn": {"nulls_equal": False}}
            }:
                return _is_in(known, constants_of(others[0]), negated)
            case {"StringExpr": "StartsWith" | "EndsWith" | {"Contains": _}} if is_text(known.kind):
                found = _text_match(known.column, function["StringExpr"], _pattern(tree))
                return None if found is None else ~found if negated else found
        return None


def _all_of(parts: Sequence[Column | None]) -> Column | None:
    known = [part for part in parts if part is not None]
    return reduce(and_, known) if known else None


def _any_of(parts: Sequence[Column | None]) -> Column | None:
    return None if any(part is None for part in parts) else _all_or(parts)


def _all_or(parts: Sequence[Column | None]) -> Column:
    return reduce(or_, (part for part in parts if part is not None))


def _is_in(known: PushColumn, values: pl.Series | None, negated: bool) -> Column | None:
    if values is None or len(values) > MAX_VALUES:
        return None
    if values.null_count():
        # A null among the values matches nothing. A negated comparison with it is not pushed.
        values = values.drop_nulls()
        if negated:
            return None
    op = "NotEq" if negated else "Eq"
    parts = [_comparison(known, op, values, i) for i in range(len(values))]
    if not parts:
        return known.column.isNotNull() if negated else f.lit(False)
    if any(part is None for part in parts):
        return None
    if pa.types.is_floating(known.kind):
        return _all_of(parts) if negated else _any_of(parts)
    literals = [literal_of(known.kind, values, i) for i in range(len(values))]
    among = known.column.isin(*(each for each in literals if each is not None))
    return ~among if negated else among


def _comparison(known: PushColumn, op: str, values: pl.Series, place: int) -> Column | None:
    """Return the column compared with a constant; None if Polars and Spark might differ."""
    literal = literal_of(known.kind, values, place)
    if literal is None:
        return None
    if op == "EqValidity":
        return _comparison(known, "Eq", values, place)
    if op == "NotEqValidity":
        return _any_of([_comparison(known, "NotEq", values, place), known.column.isNull()])
    if pa.types.is_boolean(known.kind) and op not in ("Eq", "NotEq"):
        return None
    if not pa.types.is_floating(known.kind):
        return _COMPARE[op](known.column, literal)
    if op == "Eq" and values[place] == 0:
        minus_zero = f.lit(-0.0).cast(spark_float(known.kind))
        return (known.column >= minus_zero) & (known.column <= literal)
    compared = _COMPARE[op](known.column, literal)
    return compared | f.isnan(known.column) if op in _NAN_PASSES else compared


# --- text -----------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[^\\.+*?()|\[\]{}^$#&~\-\s]*")


def _pattern(tree: Any) -> str | None:
    """Return the plain string that is searched; None for a pattern with special characters."""
    _, given = tree["Function"]["input"]
    values = constants_of(given)
    if values is None or len(values) != 1 or values.dtype != pl.String or values[0] is None:
        return None
    text: str = values[0]
    match tree["Function"]["function"]:
        case {"StringExpr": {"Contains": {"literal": False}}} if not _PLAIN.fullmatch(text):
            return None
    return text


def _text_match(column: Column, how: Any, text: str | None) -> Column | None:
    if text is None:
        return None
    if how == "StartsWith":
        return column.startswith(text)
    return column.endswith(text) if how == "EndsWith" else column.contains(text)
