"""Order of the joins in a FROM clause.

Joins follow the order in which they are written, with one exception: a table waits until a condition
connects it with the tables before it. So `FROM a, b, c WHERE a.x = c.x AND b.y = c.y` joins a, c and b.
The order depends on the query alone, because joins keep state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from rheos.sql.call_places import with_calls
from rheos.sql.join_conditions import few_parts
from rheos.sql.joins import is_single_row, joining
from rheos.sql.laterals import is_lateral
from rheos.sql.scope import NameScope, SqlRelation

if TYPE_CHECKING:
    from rheos.sql.query import Planner


@dataclass(frozen=True)
class _Item:
    """A table that is joined with those before it."""

    place: int
    """Place in the FROM clause."""
    node: exp.Join
    relation: SqlRelation
    on: list[exp.Expr]
    """Parts of its own condition."""

    @property
    def is_outer(self) -> bool:
        return bool(self.node.args.get("side"))


def joined_in_order(
    planner: Planner, relation: SqlRelation, nodes: Sequence[exp.Join], where: list[exp.Expr]
) -> SqlRelation:
    """Return the joined tables. Conditions of WHERE that join tables are removed from `where`. Raise
    ProgramError or SchemaError.

    Args:
        relation: The first table, or the result of the joins before these.
        nodes: Inner joins and LEFT JOINs.
        where: Conditions of WHERE.
    """
    items: list[_Item] = []
    names = relation
    for place, node in enumerate(nodes, 1):
        of = planner.table(node.this)
        planner.check_alias(names, of, node.this)
        names = replace(names, tables=(*names.tables, *of.tables))
        on = node.args.get("on")
        items.append(_Item(place, node, of, [] if on is None else few_parts(on)))
    every = NameScope(planner.sql, names.tables)
    for each in items:
        _check_columns(every, each.on)
    pool = [part for each in items if not each.is_outer for part in each.on]
    written = {id(part) for part in pool}
    pool += [part for part in where if part.find(exp.Query) is None]
    owners = [0] * len(relation.tables)
    while items:
        item = next((each for each in items if _connects(planner, every, relation, each, pool)), None)
        item = item or next((each for each in items if is_single_row(each.relation.plan)), items[0])
        items.remove(item)
        on = item.on
        if not item.is_outer:
            on = _conditions(planner, every, relation, item, pool, written)
            taken = {id(part) for part in on}
            pool = [part for part in pool if id(part) not in taken]
            where[:] = [part for part in where if id(part) not in taken]
        left, on = with_calls(planner.sql, relation, on, item.relation)
        right, on = with_calls(planner.sql, item.relation, on, left)
        owners += [0] * (len(left.tables) - len(owners)) + [item.place] * len(right.tables)
        relation = joining(planner.sql, item.node, planner.ttl).relation(left, right, on)
    where += [part for part in pool if id(part) in written]
    order = sorted(range(len(owners)), key=lambda at: owners[at])
    return replace(relation, tables=tuple(relation.tables[at] for at in order))


def _conditions(
    planner: Planner,
    every: NameScope,
    left: SqlRelation,
    item: _Item,
    pool: Sequence[exp.Expr],
    written: Collection[int],
) -> list[exp.Expr]:
    """Return the conditions of an inner join: those that read both sides, those of its own ON that read
    one, and those of other ONs that read only its table.

    Args:
        pool: The conditions that no join has yet.
        written: Ids of those that are part of any ON.
    """
    scopes = [NameScope(planner.sql, side.tables) for side in (left, item.relation)]
    own = {id(part) for part in item.on}
    found = []
    for part in pool:
        sides = _sides(every, scopes, part)
        if sides is None:
            continue
        is_own, is_written = id(part) in own, id(part) in written
        if all(sides) or (is_own and any(sides)) or (is_written and sides[1]):
            found.append(part)
    return found


def _check_columns(every: NameScope, parts: Sequence[exp.Expr]) -> None:
    """Check that the columns of join conditions exist, in their order."""
    for part in parts:
        if part.find(exp.Query, exp.Lambda) is None:
            for column in part.find_all(exp.Column):
                every.column(column)


def _sides(every: NameScope, scopes: Sequence[NameScope], part: exp.Expr) -> tuple[bool, ...] | None:
    """Return whether a condition reads each side; None if it reads other tables."""
    columns = [*part.find_all(exp.Column)]
    found = [[scope.reads(column) for scope in scopes] for column in columns]
    if any(not every.reads(column) for column in columns) or not all(map(any, found)):
        return None
    return tuple(any(of) for of in zip(*found, strict=True)) or (False, False)


def _connects(
    planner: Planner, every: NameScope, left: SqlRelation, item: _Item, pool: Sequence[exp.Expr]
) -> bool:
    """Return whether an equality connects a table with those before it. An outer join is connected
    once all tables of its condition are."""
    scopes = [NameScope(planner.sql, side.tables) for side in (left, item.relation)]
    if item.is_outer:
        return all(_sides(every, scopes, part) is not None for part in item.on)
    for part in pool:
        if not isinstance(part, exp.EQ):
            continue
        sides = [_sides(every, scopes, side) for side in (part.this, part.expression)]
        if {*sides} == {(True, False), (False, True)}:
            return True
    return False


def keeps_order(node: exp.Join) -> bool:
    """Return whether a join must follow all joins before it, and precede those after it."""
    table = node.this
    return (
        is_lateral(table)
        or bool(node.args.get("using") or node.args.get("method"))
        or node.args.get("side") not in (None, "", "LEFT")
        or (isinstance(table, exp.Table) and table.args.get("version") is not None)
    )
