"""The condition of a join, split into equalities, bounds on the distance in time, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import polars as pl
from sqlglot import exp

from rheos.sql.chains import halved
from rheos.sql.expressions.comparisons import equal_keys
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.plan import ColumnRole, SqlColumn
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText, as_sql

_MS = timedelta(milliseconds=1)


@dataclass
class JoinCondition:
    """The parts of a condition."""

    equal: list[tuple[Typed, Typed]] = field(default_factory=list)
    """Pairs of a left and a right column."""
    windows: set[ColumnRole] = field(default_factory=set)
    """Bounds of windows that must be equal."""
    lower: timedelta | None = None
    """Minimum time from the left row to the right one."""
    upper: timedelta | None = None
    """Maximum time from the left row to the right one."""
    in_time: list[exp.Expr] = field(default_factory=list)
    """The conditions with these bounds."""
    of_left: list[exp.Expr] = field(default_factory=list)
    """Conditions on one side alone."""
    of_right: list[exp.Expr] = field(default_factory=list)
    rest: list[exp.Expr] = field(default_factory=list)


def parts_of(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a conjunction."""
    left = [condition]
    while left:
        match left.pop():
            case exp.Paren() as bracket:
                left.append(bracket.this)
            case exp.And() as both:
                left += [both.expression, both.this]
            case exp.Expr() as part:
                yield part


def factored(condition: exp.Expr) -> list[exp.Expr]:
    """Return a disjunction as the conditions that all its branches share, and the rest: `(a AND b) OR
    (a AND c)` is `a AND (b OR c)`. Other conditions are unchanged."""
    branches = [[*parts_of(each)] for each in _branches(condition)]
    texts = [{as_sql(part) for part in branch} for branch in branches]
    shared = set[str]() if len(branches) == 1 else set.intersection(*texts)
    if not shared:
        return [condition]
    common = {as_sql(part): part for part in branches[0]}
    rests = [[part.copy() for part in branch if as_sql(part) not in shared] for branch in branches]
    found = [part for text, part in common.items() if text in shared]
    if not all(rests):
        return found
    ands = [halved(rest, lambda a, b: exp.And(this=a, expression=b)) for rest in rests]
    return [*found, halved(ands, lambda a, b: exp.Or(this=a, expression=b))]


def _branches(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the branches of a disjunction."""
    left = [condition]
    while left:
        match left.pop():
            case exp.Paren() as bracket:
                left.append(bracket.this)
            case exp.Or() as either:
                left += [either.expression, either.this]
            case exp.Expr() as branch:
                yield branch


_MOST_PARTS = 64
"""Conditions that are looked at, and moved, one by one: each is a step of the plan."""


def few_parts(condition: exp.Expr) -> list[exp.Expr]:
    """Return the conditions joined by AND, and those that all branches of an OR share. If there are
    many, plain ones after the first few are combined into one; those with queries or unknown functions
    stay separate."""
    parts = [part for each in parts_of(condition) for part in factored(each)]
    if len(parts) <= _MOST_PARTS:
        return parts
    queries = [part for part in parts if part.find(exp.Query, exp.Anonymous) is not None]
    plain = [part for part in parts if part.find(exp.Query, exp.Anonymous) is None]
    kept = plain[: _MOST_PARTS // 2]
    rest = plain[len(kept) :]
    return [
        *queries,
        *kept,
        *([halved(rest, lambda a, b: exp.And(this=a, expression=b))] if rest else []),
    ]


@dataclass(frozen=True)
class ColumnsOfSides:
    """The columns of both sides."""

    sql: SqlText
    scope: NameScope
    left: frozenset[str]
    right: frozenset[str]

    def read(self, value: Typed) -> tuple[bool, bool]:
        """Return whether an expression reads the left side, and whether it reads the right side."""
        names = {*value.expr.meta.root_names()}
        return bool(names & self.left), bool(names & self.right)

    def taken_apart(self, conditions: Sequence[exp.Expr]) -> JoinCondition:
        """Split a condition into its parts. Raise ProgramError or SchemaError."""
        found = JoinCondition()
        for each in conditions:
            if not (self._in_time(each, found) or self._equal(each, found)):
                self._assign_condition(each, found)
        return found

    def _equal(self, node: exp.Expr, found: JoinCondition) -> bool:
        if not isinstance(node, exp.EQ):
            return False
        compiler = Compiler(self.sql, self.scope)
        one, other = compiler.compile(node.this), compiler.compile(node.expression)
        if self.read(one) == (False, True) and self.read(other) == (True, False):
            one, other = other, one
        if self.read(one) != (True, False) or self.read(other) != (False, True):
            return False
        self._equate(compiler, found, (one, other), {self._role(one), self._role(other)})
        return True

    def equate(self, found: JoinCondition, node: exp.Expr, left: SqlColumn, right: SqlColumn) -> None:
        """Add the condition that a column of each side has the same value."""
        pair = [Typed(pl.col(each.name), each.type, node) for each in (left, right)]
        self._equate(Compiler(self.sql, self.scope), found, pair, {left.role, right.role})

    @staticmethod
    def _equate(
        compiler: Compiler, found: JoinCondition, pair: Sequence[Typed], roles: set[ColumnRole]
    ) -> None:
        if len(roles) == 1 and roles & {ColumnRole.WINDOW_START, ColumnRole.WINDOW_END}:
            found.windows |= roles
            return
        both = equal_keys(compiler, pair, "a comparison")
        found.equal.append((both[0], both[1]))

    def _role(self, value: Typed) -> ColumnRole:
        node = value.node
        named = self.scope.find(node) if isinstance(node, exp.Column) else None
        return ColumnRole.PLAIN if named is None else named.column.role

    def _assign_condition(self, node: exp.Expr, found: JoinCondition) -> None:
        match self.read(Compiler(self.sql, self.scope).condition(node, "ON")):
            case (True, False):
                found.of_left.append(node)
            case (False, True):
                found.of_right.append(node)
            case _:
                found.rest.append(node)

    # --- times ----------------------------------------------------------------------------------------

    def _in_time(self, node: exp.Expr, found: JoinCondition) -> bool:
        """Record the bounds on the distance in time if the condition contains them."""
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            trial = JoinCondition()
            if not (self._in_time(low, trial) and self._in_time(high, trial)):
                return False
            self._in_time(low, found)
            self._in_time(high, found)
            del found.in_time[-2:]
            found.in_time.append(node)
            return True
        if not isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ):
            return False
        one, other = self._moment(node.this), self._moment(node.expression)
        if one is None or other is None or (one[0].name in self.left) == (other[0].name in self.left):
            return False
        # left + a <op> right + b: the right row is later by a - b.
        flipped = one[0].name in self.right
        (_, a), (_, b) = (other, one) if flipped else (one, other)
        apart = a - b
        at_least = isinstance(node, exp.GT | exp.GTE if flipped else exp.LT | exp.LTE)
        edge = _MS if isinstance(node, exp.LT | exp.GT) else timedelta(0)
        if at_least or isinstance(node, exp.EQ):
            least = apart + edge
            found.lower = least if found.lower is None else max(found.lower, least)
        if not at_least or isinstance(node, exp.EQ):
            most = apart - edge
            found.upper = most if found.upper is None else min(found.upper, most)
        found.in_time.append(node)
        return True

    def _moment(self, node: exp.Expr) -> tuple[SqlColumn, timedelta] | None:
        """Return an event time, shifted by an interval; None for anything else."""
        match node:
            case exp.Paren():
                return self._moment(node.this)
            case exp.Column():
                named = self.scope.find(node)
                if named is None or named.column.role != ColumnRole.EVENT_TIME:
                    return None
                return named.column, timedelta(0)
            case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
                found = self._moment(node.this)
                length = interval_of(self.sql, node.expression)
                if found is None or not isinstance(length, timedelta):
                    return None
                return found[0], found[1] + (length if isinstance(node, exp.Add) else -length)
        return None
