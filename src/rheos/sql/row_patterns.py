"""PATTERN of MATCH_RECOGNIZE: variables, groups, alternatives, and how often they are taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from rheos.core.errors import Site
from rheos.core.graph.patterns import (
    Choice,
    Condition,
    Contiguity,
    Group,
    Part,
    PatternStep,
    Quantifier,
)
from rheos.sql.match_parser import (
    ExcludedRowPart,
    RepeatedRowPart,
    RowAlternatives,
    RowSequence,
    RowSubset,
    RowVariable,
)
from rheos.sql.text import SqlText

_ONCE = Quantifier(inner=Contiguity.NEXT)


@dataclass(frozen=True)
class RowPattern:
    """A pattern as it is written."""

    sql: SqlText
    node: exp.Expr
    variables: tuple[str, ...]
    """Variables in the order of their first use. One may occur several times."""
    subsets: Mapping[str, tuple[str, ...]]
    """Variables of each name in SUBSET."""

    @staticmethod
    def of(sql: SqlText, node: exp.Expr, subsets: Sequence[RowSubset]) -> RowPattern:
        """Return the pattern. Raise ProgramError if the pattern or an alternative may match no rows."""
        names: dict[str, str] = {}
        for each in node.walk(bfs=False):
            if isinstance(each, RowAlternatives):
                for one in each.expressions:
                    if _least(one) == 0:
                        raise sql.error(
                            "an alternative could match no row at all",
                            one,
                            "make the whole group optional: (A | B)?",
                        )
            if isinstance(each, RowVariable):
                # Each place has the spelling of the first.
                name = names.setdefault(each.this.name.casefold(), each.this.name)
                each.this.set("this", name)
            if isinstance(each, RepeatedRowPart) and each.args.get("most") == 0:
                raise sql.error(
                    "a part that occurs at most 0 times has no effect", each, "leave it out"
                )
            if (
                isinstance(each, RepeatedRowPart)
                and (each.args.get("most") or each.args["least"]) < (each.args["least"])
            ):
                raise sql.error("the maximum is less than the minimum", each, "write {2,3}")
        if _least(node) == 0:
            raise sql.error(
                "the pattern could match no row at all",
                node,
                "require at least one of its variables",
            )
        pattern = RowPattern(sql, node, tuple(names.values()), {})
        return replace(pattern, subsets=pattern._subsets(subsets))

    def _subsets(self, nodes: Sequence[RowSubset]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        known = {name.casefold() for name in self.variables}
        for each in nodes:
            name = each.this.name
            if name.casefold() in known:
                raise self.sql.error(f"{name} is already a variable or a SUBSET", each.this)
            known.add(name.casefold())
            found[name] = tuple(map(self.variable, each.expressions))
        return found

    def named(self, name: str) -> tuple[str, ...] | None:
        """Return the variables of a name; None if the pattern does not have it."""
        folded = name.casefold()
        for each, of in {**{v: (v,) for v in self.variables}, **self.subsets}.items():
            if each.casefold() == folded:
                return of
        return None

    def variable(self, node: exp.Expr) -> str:
        """Return the variable that an identifier names. Raise SchemaError."""
        for each in self.variables:
            if each.casefold() == node.name.casefold():
                return each
        raise self.sql.unknown(
            "variable", node.name, node, self.variables, "the variables of PATTERN are"
        )

    def begins(self) -> set[str]:
        """Return the variables that may match the first row."""
        return {each.this.name for each in _begins(self.node)}

    def rows_before(self, variable: str) -> int:
        """Return the minimum number of rows in a match before the first row of a variable."""
        found = _rows_before(self.node, variable)
        assert found is not None, variable
        return found

    def endless(self, conditions: Mapping[str, Condition]) -> RowVariable | None:
        """Return a variable that would match all remaining rows: greedy, without an upper limit and
        without a condition; None if there is no such variable."""
        for each in self.node.find_all(RepeatedRowPart):
            if each.args.get("most") is None and not each.args["reluctant"]:
                found = _takes_all(each, conditions)
                if found is not None:
                    return found
        return None

    def excludes(self) -> bool:
        """Return whether the pattern has excluded rows."""
        return self.node.find(ExcludedRowPart) is not None

    def parts(self, conditions: Mapping[str, Condition], site: Site) -> tuple[Part, ...]:
        """Return the parts of the pattern to match."""
        node = self.node
        parts = node.expressions if isinstance(node, RowSequence) else [node]
        return tuple(_part(each, conditions, site, _ONCE, True) for each in parts)


def _part(
    node: exp.Expr,
    conditions: Mapping[str, Condition],
    site: Site,
    quantifier: Quantifier,
    shown: bool,
) -> Part:
    match node:
        case RepeatedRowPart():
            least = node.args["least"]
            return _part(
                node.this,
                conditions,
                site,
                Quantifier(
                    at_least=max(least, 1),
                    at_most=node.args.get("most"),
                    inner=Contiguity.NEXT,
                    optional=least == 0,
                    reluctant=node.args["reluctant"],
                ),
                shown,
            )
        case RowVariable():
            name = node.this.name
            return PatternStep(name, site, Contiguity.NEXT, conditions[name], quantifier, shown)
        case ExcludedRowPart():
            return _part(node.this, conditions, site, quantifier, False)
        case _:
            kind = Choice if isinstance(node, RowAlternatives) else Group
            inner = tuple(_part(each, conditions, site, _ONCE, shown) for each in node.expressions)
            return kind(inner, site, Contiguity.NEXT, quantifier)


def _takes_all(node: exp.Expr, conditions: Mapping[str, Condition]) -> RowVariable | None:
    """Return a variable without a condition, by which the node matches any row; None if there is no
    such variable."""
    match node:
        case RowVariable():
            return None if conditions[node.this.name] else node
        case RepeatedRowPart() | ExcludedRowPart():
            return _takes_all(node.this, conditions)
    found = [_takes_all(each, conditions) for each in node.expressions]
    if isinstance(node, RowSequence) and not all(found):
        return None
    return next((each for each in found if each), None)


def _least(node: exp.Expr) -> int:
    """Return the minimum number of rows that a node matches."""
    match node:
        case RepeatedRowPart():
            return int(node.args["least"]) * _least(node.this)
        case ExcludedRowPart():
            return _least(node.this)
        case RowAlternatives():
            return min(map(_least, node.expressions))
        case RowSequence():
            return sum(map(_least, node.expressions))
    return 1


def _begins(node: exp.Expr) -> Iterator[RowVariable]:
    match node:
        case RowVariable():
            yield node
        case RepeatedRowPart() | ExcludedRowPart():
            yield from _begins(node.this)
        case RowAlternatives():
            for each in node.expressions:
                yield from _begins(each)
        case RowSequence():
            for each in node.expressions:
                yield from _begins(each)
                if _least(each) > 0:
                    return


def _rows_before(node: exp.Expr, variable: str) -> int | None:
    """Return the minimum number of rows before a variable's first occurrence; None if it does not
    occur."""
    match node:
        case RowVariable():
            return 0 if node.this.name == variable else None
        case RepeatedRowPart() | ExcludedRowPart():
            return _rows_before(node.this, variable)
        case RowAlternatives():
            of_each = (_rows_before(each, variable) for each in node.expressions)
            return min((before for before in of_each if before is not None), default=None)
    so_far = 0
    for each in node.expressions:
        before = _rows_before(each, variable)
        if before is not None:
            return so_far + before
        so_far += _least(each)
    return None
