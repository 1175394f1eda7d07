"""OVER clauses: their PARTITION BY, ORDER BY and frame, also by the names of a WINDOW clause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from rheos.sql.text import SqlText


@dataclass(frozen=True)
class OverClause:
    """The rows over which a function is computed."""

    partition_by: tuple[exp.Expr, ...]
    order: exp.Order | None
    frame: exp.WindowSpec | None


@dataclass(frozen=True)
class OverClauses:
    """The OVER clauses of a query, which may refer to windows of its WINDOW clause."""

    sql: SqlText
    named: Mapping[str, exp.Expr]
    """Windows by their names, in lower case."""

    @staticmethod
    def of(sql: SqlText, query: exp.Select) -> OverClauses:
        """Return the clauses of a query. Raise ProgramError if two windows have the same name."""
        named: dict[str, exp.Expr] = {}
        for each in query.args.get("windows") or []:
            name = each.this.name.casefold()
            if name in named:
                raise sql.error(f"the window {each.this.name} is defined twice", each.this)
            named[name] = each
        return OverClauses(sql, named)

    def clause(self, call: exp.Expr) -> OverClause:
        """Return the OVER clause of a call. Raise ProgramError if it refers to an unknown window, or
        cannot extend it."""
        return self._clause(call, ())

    def _clause(self, window: exp.Expr, within: tuple[str, ...]) -> OverClause:
        """Return a clause. `within` are the names of the windows that extend it."""
        sql = self.sql
        sql.only(window, ("this", "partition_by", "order", "spec", "over", "alias"), " of OVER")
        own = OverClause(
            tuple(window.args.get("partition_by") or ()),
            window.args.get("order"),
            window.args.get("spec"),
        )
        name = window.args.get("alias")
        if name is None and "partition_by" not in window.args:
            raise sql.error("OVER needs a window", window, "write OVER (...), or the name of a window")
        if name is None:
            return own
        base = self.named.get(name.name.casefold())
        if base is None:
            names = [each.this.name for each in self.named.values()]
            raise sql.unknown("window", name.name, name, names, "the windows here are")
        if name.name.casefold() in within:
            raise sql.error(f"the window {name.name} extends itself", name, "leave out its own name")
        known = self._clause(base, (*within, name.name.casefold()))
        if own == OverClause((), None, None):
            return known
        for part, clause, mine in (
            ("PARTITION BY", known.partition_by, own.partition_by),
            ("ORDER BY", known.order, own.order),
        ):
            if mine and (clause or part == "PARTITION BY"):
                raise sql.error(
                    f"{part} cannot replace that of the window {name.name}",
                    window,
                    "write the whole window without its name",
                )
        if known.frame is not None:
            raise sql.error(
                f"the window {name.name} has a frame, so it cannot be extended",
                name,
                f"write OVER {name.name}; or define the frame here only",
            )
        return OverClause(known.partition_by, own.order or known.order, own.frame)
