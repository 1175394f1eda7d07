"""PATTERN of MATCH_RECOGNIZE: variables, groups, and how often they are taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from rheos.errors import Site
from rheos.graph.patterns import Condition, Contiguity, Group, Part, PatternStep, Quantifier
from rheos.sql.match_parser import RowAlternatives, RowRepeated, RowSequence, RowVariable
from rheos.sql.text import SqlText

_ONCE = Quantifier(inner=Contiguity.NEXT)


@dataclass(frozen=True)
class RowPattern:
    """A pattern as it is written."""

    sql: SqlText
    node: exp.Expr
    variables: tuple[str, ...]
    """In the order of writing, which is that of the rows that they take, unless it `interleaves`."""
    interleaves: bool
    """Whether a group of several variables repeats."""

    @staticmethod
    def of(sql: SqlText, node: exp.Expr) -> RowPattern:
        """Raises ProgramError for what is not computed, and for a pattern that takes no rows."""
        names: dict[str, str] = {}
        for each in node.walk(bfs=False):
            if isinstance(each, RowAlternatives):
                raise sql.error(
                    "alternatives are not computed in PATTERN",
                    each,
                    "look for each by a query, and UNION ALL",
                )
            if isinstance(each, RowVariable):
                name = each.this.name
                if name.casefold() in names:
                    raise sql.error(
                        f"{name} stands twice in the pattern",
                        each.this,
                        "give one of them another name, and DEFINE both",
                    )
                names[name.casefold()] = name
            if isinstance(each, RowRepeated) and each.args.get("most") == 0:
                raise sql.error("a part that is taken at most 0 times", each, "leave it out")
            if (
                isinstance(each, RowRepeated)
                and (each.args.get("most") or each.args["least"]) < (each.args["least"])
            ):
                raise sql.error("this ends before it begins", each, "write {2,3}")
        if _least(node) == 0:
            raise sql.error(
                "the pattern may match no row at all",
                node,
                "let one of its variables be taken at least once",
            )
        interleaves = any(
            each.args.get("most") != 1 and len([*each.find_all(RowVariable)]) > 1
            for each in node.find_all(RowRepeated)
        )
        return RowPattern(sql, node, tuple(names.values()), interleaves)

    def variable(self, node: exp.Expr) -> str:
        """The variable that an identifier names. Raises SchemaError."""
        for each in self.variables:
            if each.casefold() == node.name.casefold():
                return each
        raise self.sql.unknown(
            "variable", node.name, node, self.variables, "the variables of PATTERN are"
        )

    def begins(self) -> set[str]:
        """The variables that may take the first row."""
        return {each.this.name for each in _begins(self.node)}

    def rows_before(self, variable: str) -> int:
        """How many rows of a match lie before the first of a variable, at least."""
        found = _before(self.node, variable)
        assert found is not None, variable
        return found

    def endless(self) -> Iterator[list[RowVariable]]:
        """The variables of each part that is taken for as long as there are rows for it."""
        for each in self.node.find_all(RowRepeated):
            if each.args.get("most") is None and not each.args["reluctant"]:
                yield [*each.find_all(RowVariable)]

    def parts(self, conditions: Mapping[str, Condition], site: Site) -> tuple[Part, ...]:
        """What is looked for."""
        return tuple(_part(each, conditions, site, _ONCE) for each in self.node.expressions)


def _part(
    node: exp.Expr, conditions: Mapping[str, Condition], site: Site, quantifier: Quantifier
) -> Part:
    match node:
        case RowRepeated():
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
            )
        case RowVariable():
            name = node.this.name
            return PatternStep(name, site, Contiguity.NEXT, conditions[name], quantifier)
        case _:
            inner = tuple(_part(each, conditions, site, _ONCE) for each in node.expressions)
            return Group(inner, site, Contiguity.NEXT, quantifier)


def _least(node: exp.Expr) -> int:
    """How many rows it takes at least."""
    match node:
        case RowRepeated():
            return int(node.args["least"]) * _least(node.this)
        case RowSequence():
            return sum(map(_least, node.expressions))
    return 1


def _begins(node: exp.Expr) -> Iterator[RowVariable]:
    match node:
        case RowVariable():
            yield node
        case RowRepeated():
            yield from _begins(node.this)
        case RowSequence():
            for each in node.expressions:
                yield from _begins(each)
                if _least(each) > 0:
                    return


def _before(node: exp.Expr, variable: str) -> int | None:
    """Rows before a variable; None where it is not in there."""
    match node:
        case RowVariable():
            return 0 if node.this.name == variable else None
        case RowRepeated():
            return _before(node.this, variable)
    so_far = 0
    for each in node.expressions:
        before = _before(each, variable)
        if before is not None:
            return so_far + before
        so_far += _least(each)
    return None
