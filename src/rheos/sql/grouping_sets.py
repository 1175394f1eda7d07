"""GROUPING SETS, ROLLUP and CUBE: each row belongs to a group of every set of keys.

Keys outside of a set are null in its groups, and the number of the set is a key itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import Typed
from rheos.sql.laterals import exploded
from rheos.sql.plan import PlanNode, SqlColumn, projected
from rheos.sql.text import SqlText, as_sql

MOST_SETS = 1024
"""Maximum number of copies of each row; more are a mistake."""
MOST_KEYS = 40
_SET = "grouping set"
_OF_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)

Resolve = Callable[[exp.Expr], exp.Expr]
"""Resolution of a key of GROUP BY to the expression of an alias or a position."""


@dataclass(frozen=True)
class GroupBy:
    """The distinct keys of GROUP BY, and the sets by which rows are grouped."""

    keys: Sequence[exp.Expr]
    sets: Sequence[frozenset[int]] | None
    """Positions in `keys`; None: one set of all keys."""


def group_by(
    sql: SqlText, group: exp.Group, resolve: Resolve, spell: Callable[[exp.Expr], str]
) -> GroupBy:
    """Return the keys and grouping sets of GROUP BY. Raises ProgramError."""
    sql.only(group, ("expressions", "grouping_sets", "rollup", "cube"), " in GROUP BY")
    plain = [each for each in group.expressions if not isinstance(each, _OF_SETS)]
    parts: list[list[list[exp.Expr]]] = []
    behind = [
        each for name in ("grouping_sets", "rollup", "cube") for each in group.args.get(name) or []
    ]
    for each in [*group.expressions, *behind]:
        if isinstance(each, exp.Rollup | exp.Cube) and not each.expressions:
            # WITH ROLLUP is of the keys before it.
            parts = [_sets(type(each)(expressions=plain))]
        elif isinstance(each, _OF_SETS) and each in behind:
            parts = [_sets(each)]
        elif isinstance(each, _OF_SETS):
            parts.append(_sets(each))
        else:
            parts.append([[each]])
    keys: dict[str, exp.Expr] = {}
    sets: list[frozenset[int]] = []
    for chosen in product(*parts):
        if len(sets) == MOST_SETS:
            raise sql.error(f"there are more than {MOST_SETS:,} grouping sets", group, "name fewer")
        found = set()
        for key in (key for some in chosen for key in some):
            of = resolve(key)
            text = spell(of)
            keys.setdefault(text, of)
            found.add([*keys].index(text))
        sets.append(frozenset(found))
    if len(keys) > MOST_KEYS:
        raise sql.error(f"there are more than {MOST_KEYS} keys", group, "name fewer")
    of_sets = bool(behind) or len(plain) < len(group.expressions)
    return GroupBy([*keys.values()], sets if of_sets else None)


def _sets(node: exp.Expr) -> list[list[exp.Expr]]:
    """Return the sets that one part of GROUP BY names."""
    parts = [_keys(each) for each in node.expressions]
    match node:
        case exp.Rollup():
            return [[*chain(*parts[:count])] for count in range(len(parts), -1, -1)]
        case exp.Cube():
            return [
                [*chain(*some)]
                for count in range(len(parts), -1, -1)
                for some in combinations(parts, count)
            ]
    return [
        each
        for of in node.expressions
        for each in (_sets(of) if isinstance(of, _OF_SETS) else [_keys(of)])
    ]


def _keys(node: exp.Expr) -> list[exp.Expr]:
    match node:
        case exp.Tuple():
            return list(node.expressions)
        case exp.Paren():
            return [node.this]
    return [node]


@dataclass(frozen=True)
class InSets:
    """Rows that are repeated for every set."""

    plan: PlanNode
    keys: Sequence[Typed]
    """Keys, null if the set lacks them."""
    set: Typed
    """Number of the grouping set."""
    count: int
    """Number of grouping sets."""

    def left_out(self, places: Sequence[int], number: pl.Expr) -> pl.Expr:
        """Return a bit for each of these keys, the first key as the highest bit: 1 if the set lacks the
        key. `number` is the number of the set."""
        mask = number // self.count
        bits = [
            (mask // (1 << place)) % 2 * (1 << (len(places) - 1 - at))
            for at, place in enumerate(places)
        ]
        return pl.sum_horizontal(bits) if bits else number * 0


def in_sets(plan: PlanNode, keys: Sequence[Typed], sets: Sequence[frozenset[int]]) -> InSets:
    """Return the rows of a plan, repeated for every set of keys."""
    names = [f"{_SET} key {place}" for place in range(len(keys))]
    count = len(sets)
    copies = []
    for at, some in enumerate(sets):
        mask = sum(1 << place for place in range(len(keys)) if place not in some)
        # Equal sets form separate groups.
        number = pl.lit(mask * count + at, dtype=types.BIGINT).alias(_SET)
        values = [
            (key.expr if place in some else pl.lit(None)).cast(key.type).alias(name)
            for place, (name, key) in enumerate(zip(names, keys, strict=True))
        ]
        copies.append(pl.struct(*values, number))
    struct = pl.Struct(
        {name: key.type for name, key in zip(names, keys, strict=True)} | {_SET: types.BIGINT}
    )
    lists = SqlColumn(f"{_SET}s", pl.List(struct))
    every = [pl.col(column.name) for column in plan.columns]
    wide = projected(plan, (*every, pl.concat_list(copies).alias(lists.name)), (*plan.columns, lists))
    each, element = exploded(wide, lists, outer=False)
    of = pl.col(element).struct
    null = exp.Null()
    made = [Typed(of.field(name), key.type, key.node) for name, key in zip(names, keys, strict=True)]
    return InSets(each, made, Typed(of.field(_SET), types.BIGINT, null), count)


def groupings(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the calls of GROUPING and GROUPING_ID."""
    for node in nodes:
        if is_grouping(node):
            yield node
        elif not isinstance(node, exp.Query | exp.Subquery):
            yield from groupings([*node.iter_expressions()])


def is_grouping(node: exp.Expr) -> bool:
    """Return whether a node is GROUPING or GROUPING_ID."""
    return isinstance(node, exp.Grouping | exp.GroupingId)


def asked(
    sql: SqlText, call: exp.Expr, texts: Sequence[str], spell: Callable[[exp.Expr], str]
) -> list[int]:
    """Return the positions of the keys that a call names; all keys if it names none. Raise
    ProgramError."""
    if not call.expressions:
        return list(range(len(texts)))
    places = []
    for each in call.expressions:
        if spell(each) not in texts:
            raise sql.error(
                f"{as_sql(each)!r} is not a key of GROUP BY",
                each,
                f"the keys are {', '.join(texts)}",
            )
        places.append(texts.index(spell(each)))
    return places
