"""Windows in GROUP BY: Flink's TUMBLE(ts, INTERVAL '1' HOUR), Spark's window(ts, '1 hour').

They mean the same as a window function in FROM, applied after WHERE. So GROUP BY is rewritten to the
bounds of the windows, and functions such as TUMBLE_START to columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import polars as pl
from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.core.graph.windows import Window
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.sql.expressions.table import Compiler, OwnCall, Typed
from rheos.sql.text import SqlText, kind
from rheos.sql.windows import WINDOW_COLUMNS, length_of, window_of

_LENGTHS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
    "SESSION_WINDOW": ("GAP",),
    "WINDOW": ("SIZE", "SLIDE", "OFFSET"),
}
"""Lengths of each function, in the order of its arguments after the time."""
_OF_SPARK = ("WINDOW", "SESSION_WINDOW")
_START, _END, _TIME = (column.name for column in WINDOW_COLUMNS)
_AUXILIARY = {
    f"{name}_{suffix}": (name, column)
    for name in ("TUMBLE", "HOP", "SESSION")
    for suffix, column in {
        "START": _START,
        "END": _END,
        "ROWTIME": _TIME,
        "PROCTIME": _TIME,
    }.items()
}
"""Functions of Flink for the bounds of a window, with the column that has the bound."""
OF_GROUP = " window of the groups"
"""Name of the table with the bounds, which no query can contain."""
_EXAMPLE = "write GROUP BY TUMBLE(ts, INTERVAL '10' MINUTES), or GROUP BY window(ts, '10 minutes')"


class WindowStruct(OwnCall):
    """Both bounds of a window, as Spark's `window` returns them."""

    def typed(self, compiler: Compiler) -> Typed:
        bounds = [compiler.compile(each) for each in self.expressions]
        names = ("start", "end")
        fields = [each.expr.alias(name) for name, each in zip(names, bounds, strict=True)]
        type_ = pl.Struct(dict(zip(names, (each.type for each in bounds), strict=True)))
        return Typed(pl.struct(fields), type_, self)


@dataclass(frozen=True)
class GroupWindow:
    """A window of GROUP BY."""

    node: exp.Expr
    time: exp.Column
    window: Window


def group_window(sql: SqlText, node: exp.Select) -> GroupWindow | None:
    """Return the window of GROUP BY, and rewrite the query to the columns of its bounds. None if
    GROUP BY has no window. Raise ProgramError."""
    group = node.args.get("group")
    calls = [] if group is None else [*_calls(group)]
    if not calls:
        _refuse_bounds(sql, node, None)
        return None
    first = calls[0]
    written = first.sql("spark").casefold()
    for each in calls[1:]:
        if each.sql("spark").casefold() != written:
            raise sql.error("GROUP BY has two different windows", each, "leave one of them out")
    _refuse_bounds(sql, node, first)
    made = _window(sql, first)
    _rewrite(node, first, written)
    return made


def _calls(node: exp.Expr) -> Iterator[exp.Anonymous]:
    for each in node.find_all(exp.Anonymous):
        if each.name.upper() in _LENGTHS:
            yield each


def _refuse_bounds(sql: SqlText, node: exp.Select, window: exp.Expr | None) -> None:
    """Raise ProgramError for a function of a window's bound that is not that of GROUP BY."""
    for item in node.expressions:
        for each in item.find_all(exp.Anonymous):
            name, _ = _AUXILIARY.get(each.name.upper(), (None, None))
            if name is None or each.find_ancestor(exp.Select) is not node:
                continue
            wanted = exp.Anonymous(this=name, expressions=[part.copy() for part in each.expressions])
            if window is None or wanted.sql("spark").casefold() != window.sql("spark").casefold():
                raise sql.error(
                    f"{kind(each)} needs the same window in GROUP BY",
                    each,
                    f"write GROUP BY {wanted.sql('spark')}",
                )


def _window(sql: SqlText, node: exp.Anonymous) -> GroupWindow:
    name = node.name.upper()
    time, *lengths = node.expressions or [None]
    names = _LENGTHS[name]
    if not isinstance(time, exp.Column) or not 1 <= len(lengths) <= len(names):
        raise sql.error(f"{name} takes a time and lengths", node, _EXAMPLE)
    given = {what: _length(sql, length) for what, length in zip(names, lengths, strict=False)}
    kind_ = "SESSION" if "GAP" in given else "HOP" if "SLIDE" in given else "TUMBLE"
    if kind_ == "HOP" and "SIZE" not in given:
        raise sql.error(f"{name} takes a slide and a size", node, _EXAMPLE)
    try:
        window = window_of(kind_, given, None)
        window.check()
    except ProgramError as error:
        raise sql.error(error.what, node, _EXAMPLE) from None
    return GroupWindow(node, time, window)


def _length(sql: SqlText, node: exp.Expr) -> Duration:
    if not (isinstance(node, exp.Literal) and node.is_string):
        return length_of(sql, node)
    try:
        return timedelta(milliseconds=duration_ms(node.name))
    except ProgramError as error:
        raise sql.error(error.what, node, "write '10 minutes'") from None


def _rewrite(node: exp.Select, window: exp.Anonymous, written: str) -> None:
    """Replace the window in GROUP BY by its bounds, and expressions of it by columns."""
    group = node.args["group"]
    for each in [*_calls(group)]:
        if each is not window:
            each.replace(_column(_END))
    window_name = window.name.casefold()
    bounds = [_column(_START), _column(_END)]
    listed = [part for each in group.expressions for part in (bounds if each is window else [each])]
    if window in group.expressions:
        group.set("expressions", listed)
    else:  # Within GROUPING SETS.
        group.set("expressions", [*group.expressions, *bounds])
        window.pop()
    clauses = [clause for name in ("having", "order") if (clause := node.args.get(name))]
    for part in [*node.expressions, *clauses]:
        for old in [*part.walk()]:
            made = _bound(old, window_name, written)
            if made is None or old.find_ancestor(exp.Select) is not node:
                continue
            made.meta.update(next((at.meta for at in old.walk() if "start" in at.meta), {}))
            if isinstance(old.parent, exp.Select):
                name = old.name if isinstance(old, exp.Column) else old.sql("spark")
                made = exp.alias_(made, name, quoted=True)
            old.replace(made)


def _column(name: str) -> exp.Column:
    return exp.column(name, table=OF_GROUP, quoted=True)


def _bound(node: exp.Expr, window: str, written: str) -> exp.Expr | None:
    """Return the column, or both columns, that an expression of a window means."""
    fields = {"start": _START, "end": _END}
    if isinstance(node, exp.Anonymous):
        if node.name.upper() in _AUXILIARY:
            return _column(_AUXILIARY[node.name.upper()][1])
        if node.sql("spark").casefold() == written and not isinstance(node.parent, exp.Dot):
            return WindowStruct(expressions=[_column(_START), _column(_END)])
    if isinstance(node, exp.Dot) and node.this.sql("spark").casefold() == written:
        name = fields.get(node.expression.name.casefold())
        return None if name is None else _column(name)
    if isinstance(node, exp.Column) and window.upper() in _OF_SPARK:
        if node.table.casefold() == window and node.name.casefold() in fields:
            return _column(fields[node.name.casefold()])
        if not node.table and node.name.casefold() == window:
            return WindowStruct(expressions=[_column(_START), _column(_END)])
    return None
