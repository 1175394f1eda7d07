"""A join with rows of an external system, looked up by key when a row arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rheos.core.connectors.lookup import Lookup
from rheos.sql import types
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.joined_plans import DEFAULT_CALLS, LookupArguments, LookupPlan
from rheos.sql.plan import PlanNode, SqlColumn, filtered, with_keys
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight
from rheos.sql.text import SqlText
from rheos.sql.unused_names import unused_name


@dataclass(frozen=True)
class LookupJoin:
    """State of planning one join with a lookup."""

    sql: SqlText
    node: exp.Join
    lookup: Lookup
    how: str
    calls: LookupArguments = DEFAULT_CALLS

    def relation(self, left: SqlRelation, conditions: Sequence[exp.Expr]) -> SqlRelation:
        """Return the rows with the looked-up columns. Raise ProgramError or SchemaError."""
        table, sql = self.node.this, self.sql
        sql.only(table, ("this", "alias", "version", "db", "catalog"), " of a lookup")
        if self.how not in ("inner", "left"):
            raise sql.error(
                f"a lookup join keeps only rows of the left side: {self.how.upper()} JOIN is "
                "not possible",
                table,
                "write JOIN or LEFT JOIN",
            )
        if left.plan.changes is not None:
            raise sql.error(
                "updated rows cannot be looked up",
                table,
                "join with the lookup before the rows are aggregated",
            )
        keys, rest = self._keys(left, conditions)
        plan, on = with_keys(left.plan, keys, "lookup")
        alias = table.alias_or_name
        added = self._columns_to_add(plan, alias)
        columns = (*left.plan.columns, *(column for _, column in added))
        names = tuple((column.name, of) for of, column in added)
        plan = LookupPlan(plan, self.lookup, on, names, self.how, columns, self.calls)
        found = TableInSight(alias, tuple(Named(of, column) for of, column in added))
        made: PlanNode = plan
        tables = (*left.tables, found)
        compiler = Compiler(sql, NameScope(sql, tables))
        for each in rest:
            if self.how == "left":
                raise sql.error(
                    "a LEFT JOIN with a lookup supports only conditions on its keys",
                    each,
                    "move the condition to WHERE",
                )
            made = filtered(made, compiler.condition(each, "ON").expr)
        return SqlRelation(made, tables)

    def _keys(
        self, left: SqlRelation, conditions: Sequence[exp.Expr]
    ) -> tuple[list[Typed], list[exp.Expr]]:
        """Return the values for each key of the lookup, and the other conditions."""
        found: dict[str, Typed] = {}
        rest = []
        compiler = Compiler(self.sql, NameScope(self.sql, left.tables))
        for each in conditions:
            sides = (each.this, each.expression) if isinstance(each, exp.EQ) else ()
            named = [(self._key(one), other) for one, other in zip(sides, reversed(sides), strict=True)]
            asked = next(((key, by) for key, by in named if key is not None and key not in found), None)
            if asked is None:
                rest.append(each)
            else:
                found[asked[0]] = compiler.compile(asked[1])
        missing = [key for key in self.lookup.keys if key not in found]
        if missing:
            alias = self.node.this.alias_or_name
            raise self.sql.error(
                f"the key of {alias} is {', '.join(self.lookup.keys)}, but there is no "
                f"condition for {missing[0]!r}",
                self.node.args.get("on") or self.node.this,
                f"write ON a.id = {alias}.{missing[0]}",
            )
        return [found[key] for key in self.lookup.keys], rest

    def _key(self, node: exp.Expr) -> str | None:
        """Return the lookup's key that a column names, also with its table."""
        if not isinstance(node, exp.Column):
            return None
        if node.table.casefold() != self.node.this.alias_or_name.casefold():
            return None
        return next((key for key in self.lookup.keys if key.casefold() == node.name.casefold()), None)

    def _columns_to_add(self, plan: PlanNode, alias: str) -> list[tuple[str, SqlColumn]]:
        taken = {column.name for column in plan.columns}
        added = []
        for column in self.lookup.schema:
            name = unused_name(column.name, taken, f" of {alias}")
            taken.add(name)
            added.append((column.name, SqlColumn(name, types.of_arrow(column.type))))
        return added
