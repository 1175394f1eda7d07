"""Planning of SELECT, WITH and FROM: from tree to plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import polars as pl
from sqlglot import exp

from rheos.api.time_to_live import FOREVER
from rheos.core.connectors.lookup import Lookup
from rheos.core.graph.windows import Window
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import HIDDEN_PREFIX
from rheos.sql import types
from rheos.sql.alter_table import hinted_table
from rheos.sql.call_places import named_by_text, user_calls, with_calls, with_calls_of_groups
from rheos.sql.catalog import Catalog, DeclaredTable
from rheos.sql.clause_names import DATABASES
from rheos.sql.declared_lookups import declared_lookup, is_looked_up
from rheos.sql.expressions.generators import GENERATORS
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.first_rows import first_rows, is_first_rows, sorted_rows
from rheos.sql.functions import UserCall
from rheos.sql.generated_columns import after_groups, generated_after_groups, with_generators
from rheos.sql.group_windows import OF_GROUP, GroupWindow, group_window
from rheos.sql.grouped_plans import WindowedRows
from rheos.sql.grouping import GroupedColumns, calls_in, distinct, grouped, is_grouped
from rheos.sql.join_conditions import few_parts, parts_of
from rheos.sql.join_order import joined_in_order, keeps_order
from rheos.sql.joins import joining
from rheos.sql.lateral_queries import is_lateral_query, with_lateral_query
from rheos.sql.laterals import is_lateral, lateral, lateral_join, one_row
from rheos.sql.lookups import LookupJoin
from rheos.sql.match_parser import MatchRecognize
from rheos.sql.matching import matched
from rheos.sql.membership import Membership, membership, with_membership
from rheos.sql.model_calls import ML_PREDICT, predict_call, predicted
from rheos.sql.nested_keys import check_keys
from rheos.sql.option_hints import hinted_options
from rheos.sql.over import is_behind_time, over_calls, with_over
from rheos.sql.pivots import pivoted
from rheos.sql.plan import (
    SET_EVENT_TIME,
    ColumnRole,
    PlanNode,
    SqlColumn,
    filtered,
    plain_column,
    projected,
    renamed,
)
from rheos.sql.process_calls import process, process_call, process_functions
from rheos.sql.ranking import WITH_TIES, bound, is_rank, limited, numbered, rank_of, ranked, ranks_in
from rheos.sql.scalar_queries import scalar_queries, with_scalars, with_scalars_of_groups
from rheos.sql.scope import Named, NameScope, SqlRelation, TableInSight, with_columns
from rheos.sql.select_forms import qualified, read_aliases, with_plain_clauses
from rheos.sql.set_operations import NO_END, set_operation
from rheos.sql.set_statement import time_to_live
from rheos.sql.stars import columns_of_star, star_of, with_counted_columns
from rheos.sql.syntax_errors import WINDOWS
from rheos.sql.temporal_filters import is_temporal, temporally_filtered
from rheos.sql.text import SqlText, as_sql, number_of
from rheos.sql.values import typed_value_rows, value_rows
from rheos.sql.window_clauses import OverClauses
from rheos.sql.windows import WINDOW_COLUMNS, WindowCall, by_the_clock, is_clock, window_call

if TYPE_CHECKING:
    from rheos.api.time_to_live import TimeToLive


_NO_EFFECT = {
    "hint": "hints have no effect: Rheos chooses how a query runs",
    **{
        name: f"{name.upper()} BY without LIMIT has no effect: the rows of a result have no order"
        for name in ("order", "sort", "cluster")
    },
    "emit": "EMIT has no effect: windows emit rows when they are over, other groups at each change",
    "distribute": "DISTRIBUTE BY has no effect: Rheos chooses where rows are processed",
}
"""Clauses that cannot change the rows of a query, and the note about each."""


@dataclass(frozen=True)
class Planner:
    """Planner of the queries of a string."""

    sql: SqlText
    catalog: Catalog
    ctes: Mapping[str, PlanNode] = field(default_factory=dict)
    """Plans of WITH, by name in lower case."""
    ttl: TimeToLive | None = None
    """Time to live of rows in joins."""

    note: Callable[[SqlText, exp.Expr, str], None] = lambda *_: None
    """Function that reports a clause without an effect."""

    def query(self, node: exp.Expr, *, sorts: bool = False) -> PlanNode:
        """Plan a query. Raises ProgramError, SchemaError at the place in the SQL. With `sorts`, a query
        with ORDER BY has a further column, by which the caller sorts the result (`sorted_rows`)."""
        planner = self._with_queries(node)._with_state_ttl(node)
        with_plain_clauses(self.sql, node)
        is_sorted = sorts and node.args.get("order") is not None
        node = self._without_effect(node, is_ordered=is_sorted or is_first_rows(node))
        if is_sorted:
            return sorted_rows(planner, node)
        if is_first_rows(node):
            return first_rows(planner, node)
        match node:
            case exp.Select() if node.args.get("qualify") is not None:
                return qualified(planner, node)
            case exp.Select() if after_groups(node):
                return generated_after_groups(planner, node)
            case exp.Select():
                return planner._select(node)
            case exp.SetOperation():
                return set_operation(planner, node)
            case exp.Subquery():
                self.sql.only(node, ("this",))
                return planner.query(node.this, sorts=sorts)
            case exp.Values():
                return typed_value_rows(self.sql, node)
        raise self.sql.error("this is not a query", node, "write SELECT ... FROM ...")

    def _without_effect(self, node: exp.Expr, *, is_ordered: bool) -> exp.Expr:
        """Return the query without the clauses that cannot change its rows, and report them."""
        for name, text in _NO_EFFECT.items():
            clause = node.args.get(name)
            if clause is None or (is_ordered and name in ("order", "sort", "cluster")):
                continue
            self.note(self.sql, clause, text)
            node = node.copy()
            node.set(name, None)
        return node

    def _with_queries(self, node: exp.Expr) -> Planner:
        """Return a planner that knows the queries of WITH."""
        clause = node.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            raise self._recursive(clause.expressions[0])
        self.sql.only(clause, ("expressions",), " WITH")
        planner = self
        names: set[str] = set()
        for each in clause.expressions:
            self.sql.only(each, ("this", "alias", "materialized"))
            if each.alias.casefold() in names:
                raise self.sql.error(
                    f"WITH names {each.alias!r} twice", each.args["alias"], "choose another name"
                )
            names.add(each.alias.casefold())
            if not planner._knows(each.alias) and (own := _reads_itself(each)) is not None:
                raise self._recursive(own)
            plan = planner.query(each.this)
            columns = each.args["alias"].args.get("columns")
            plan = planner._renamed(plan, columns or [], each)
            planner = replace(planner, ctes={**planner.ctes, each.alias.casefold(): plan})
        return planner

    def _with_state_ttl(self, node: exp.Expr) -> Planner:
        """Return a planner with the longest time to live of Flink's hint STATE_TTL('t' = '1d')."""
        hint = node.args.get("hint")
        calls = [] if hint is None else [each for each in hint.expressions if _is_state_ttl(each)]
        times = [each.expression for call in calls for each in call.expressions]
        if hint is None or not times:
            return self
        ttl = max((time_to_live(self.sql, each, of_flink=True) for each in times), key=_length_ms)
        if len({each.name for each in times}) > 1:
            self.note(
                self.sql, times[0], f"the rows of all tables are kept for {ttl}, the longest time"
            )
        others = [each for each in hint.expressions if each not in calls]
        node.set("hint", exp.Hint(expressions=others) if others else None)
        return replace(self, ttl=ttl)

    def _knows(self, name: str) -> bool:
        return name.casefold() in self.ctes or self.catalog.knows(name)

    def _recursive(self, at: exp.Expr) -> Exception:
        return self.sql.error(
            "a query that reads its own result is not computed", at, "write it as stream.iterate(...)"
        )

    # --- SELECT ---------------------------------------------------------------------------------------

    def _select(self, node: exp.Select) -> PlanNode:
        for name in ("order", "limit", "sort", "offset", "fetch"):
            if (clause := node.args.get(name)) is not None:
                raise self.sql.error(
                    f"{NO_END}: {clause.key.upper()} is not computed",
                    clause,
                    "for the first rows of each key, write ROW_NUMBER() OVER (PARTITION BY ... "
                    "ORDER BY ...) and filter by it",
                )
        self.sql.only(
            node,
            (
                *("with_", "expressions", "from_", "joins", "laterals"),
                *("where", "group", "having", "windows", "distinct"),
            ),
        )
        window = group_window(self.sql, node)
        where = node.args.get("where")
        conditions = [] if where is None else few_parts(where.this)
        temporal = [each for each in conditions if is_temporal(each)]
        conditions = [each for each in conditions if not is_temporal(each)]
        conditions, members = _split_conditions(conditions)
        relation = self._join_tables(node, conditions)
        named_by_text(node)
        comparing = [each for each in conditions if next(scalar_queries(each), None) is not None]
        conditions = [each for each in conditions if next(scalar_queries(each), None) is None]
        simple = [each for each in conditions if next(user_calls(each), None) is None]
        relation = self._filter_rows(relation, simple)
        relation, calling = with_calls(
            self.sql, relation, [each for each in conditions if each not in simple]
        )
        relation = self._filter_rows(relation, calling)
        relation = temporally_filtered(self.sql, relation, temporal)
        # Semi-joins come before anti-joins.
        for each in sorted(members, key=lambda each: each.absent):
            relation = with_membership(self, relation, each)
        relation, comparing = with_scalars(self, relation, comparing)
        relation = self._filter_rows(relation, comparing)
        parts = _parts_of_groups(node)
        of_rows = [call for part in parts for call in calls_in(part)] if is_grouped(node) else parts
        relation, _ = with_scalars(self, relation, of_rows)
        relation, _ = with_calls(self.sql, relation, parts)
        relation = with_generators(self.sql, relation, node)
        if window is not None:
            relation = self._in_group_window(relation, window)
        scope = NameScope(self.sql, relation.tables)
        read_aliases(scope, node)
        with_counted_columns(scope, node)
        sight: NameScope | GroupedColumns = scope
        compiler, plan = Compiler(self.sql, scope), relation.plan
        if is_grouped(node):
            sight = grouped(self.sql, node, relation)
            sight = with_calls_of_groups(self.sql, sight, parts)
            sight = with_scalars_of_groups(self, sight, parts)
            compiler, plan = sight.compiler, sight.plan
        if (having := node.args.get("having")) is not None:
            if sight is scope:
                raise self.sql.error("HAVING needs GROUP BY", having, "write WHERE, or GROUP BY")
            plan = filtered(plan, compiler.condition(having.this, "HAVING").expr)
        ranks = ranks_in(node)
        if len(ranks) > 1:
            raise self.sql.error(
                "ROW_NUMBER() supports only one order per query", ranks[1], "use a subquery for each"
            )
        if ranks:
            clause = OverClauses.of(self.sql, node).clause(ranks[0].unalias())
            plan, rank = ranked(self.sql, compiler, ranks[0], clause, plan)
            if [call for item in node.expressions for call in over_calls(item)]:
                plan = numbered(self.sql, plan, self.ttl)
            written, before = ranks[0].unalias(), compiler.instead
            compiler = replace(compiler, instead=lambda each: rank if each is written else before(each))
        plan, compiler = with_over(self.sql, node, compiler, plan, self.ttl)
        made = self._projected(node, plan, sight, compiler)
        if is_behind_time(plan):
            made = replace(made, columns=tuple(map(plain_column, made.columns)))
        if (clause := node.args.get("distinct")) is not None:
            self.sql.only(clause, (), " of DISTINCT")
            check_keys(self.sql, made, "DISTINCT", clause.parent)
            made = distinct(made)
        return made

    def _filter_rows(self, relation: SqlRelation, conditions: Sequence[exp.Expr]) -> SqlRelation:
        """Return the rows for which all conditions hold. A bound on the row number becomes the first n
        rows."""
        plan, scope = relation.plan, NameScope(self.sql, relation.tables)
        rest, tables = [], relation.tables
        rank = rank_of(plan)

        def is_rank(node: exp.Expr) -> bool:
            found = scope.find(node) if isinstance(node, exp.Column) else None
            return found is not None and found.column.name == rank

        for each in conditions:
            n = None if rank is None else bound(each, is_rank)
            if n is not None and n > 0:
                ties = bool(each.meta.get(WITH_TIES))
                plan, rank = limited(self.sql, plan, n, with_ties=ties), None
            else:
                rest.append(each)
        if rank is not None and (all_rows := numbered(self.sql, plan, self.ttl)) is not plan:
            plan, rank = all_rows, None
        if rank is None and plan is not relation.plan:
            tables = with_columns(tables, {column.name: column for column in plan.columns})
        compiler = Compiler(self.sql, NameScope(self.sql, tables))
        for each in rest:
            condition = compiler.condition(each, "WHERE").expr
            plan = filtered(plan, condition, pinned=each.find(UserCall) is not None)
        return SqlRelation(plan, tables)

    def _projected(
        self, node: exp.Select, plan: PlanNode, sight: NameScope | GroupedColumns, compiler: Compiler
    ) -> PlanNode:
        """Return the columns of SELECT."""
        exprs: list[pl.Expr] = []
        columns: list[SqlColumn] = []
        items = [(item, self._items(item, sight, compiler)) for item in node.expressions]
        written = {name for _, made in items for name, *_ in made}
        for item, made in items:
            for name, typed, role in made:
                if any(column.name == name for column in columns):
                    name = self._numbered_name(name, written, item)
                self._check_name(name, columns, item)
                if typed.type == types.NULL:
                    raise self.sql.wrong_type(
                        f"the column {name!r} is always NULL, so it has no type",
                        item,
                        "write CAST(NULL AS STRING)",
                    )
                exprs.append(typed.expr)
                columns.append(SqlColumn(name, typed.type, role))
        return projected(plan, tuple(exprs), tuple(columns))

    def _items(
        self, item: exp.Expr, scope: NameScope | GroupedColumns, compiler: Compiler
    ) -> list[tuple[str, Typed, ColumnRole]]:
        star = star_of(item)
        if star is not None:
            self.sql.only(star, ("except_", "replace", "rename"))
            found = columns_of_star(self.sql, item, scope, compiler)
            if not found:
                raise self.sql.error("* needs a table", item, "write SELECT * FROM ...")
            return self._changed_star(star, found, compiler)
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(item, exp.Alias):
            self.sql.only(item, ("this", "alias"))
        name = item.alias if isinstance(item, exp.Alias) else None
        if is_clock(inner):
            nothing = Typed(pl.lit(None, dtype=types.TIMESTAMP), types.TIMESTAMP, inner)
            return [(name or as_sql(inner), nothing, ColumnRole.PROCESSING_TIME)]
        typed = compiler.compile(inner)
        role = ColumnRole.RANK if is_rank(inner) else ColumnRole.PLAIN
        if isinstance(inner, exp.Column):
            named = scope.named(inner)
            if named is not None:
                role = named.column.role
                name = name or named.name
        if isinstance(inner, exp.Column | exp.Dot):  # A field of a struct.
            name = name or inner.name
        return [(name or as_sql(inner), typed, role)]

    def _changed_star(
        self, star: exp.Star, found: list[tuple[str, Typed, ColumnRole]], compiler: Compiler
    ) -> list[tuple[str, Typed, ColumnRole]]:
        """Return the columns of * as EXCEPT, REPLACE and RENAME change them."""
        renames = star.args.get("rename") or []
        for each in [*(star.args.get("except_") or []), *(star.args.get("replace") or []), *renames]:
            is_new = any(each is rename for rename in renames)
            written = each.this.name if is_new else each.alias_or_name
            name = written.casefold()
            place = next((n for n, (known, *_) in enumerate(found) if known.casefold() == name), None)
            if place is None:
                known = [name for name, *_ in found]
                at = each.this if is_new else each
                raise self.sql.unknown("column", written, at, known, "the columns are")
            if is_new:
                found[place] = (each.alias, *found[place][1:])
            elif isinstance(each, exp.Alias):
                value = compiler.compile(each.this)
                found[place] = (found[place][0], value, ColumnRole.PLAIN)
            else:
                del found[place]
        return found

    def _numbered_name(self, name: str, written: set[str], item: exp.Expr) -> str:
        """Return the name of a column whose name an earlier one has, and report it."""
        made = next(each for n in count(1) if (each := f"{name}_{n}") not in written)
        written.add(made)
        self.note(self.sql, item, f"two columns are named {name!r}, so the later one is named {made!r}")
        return made

    def _check_name(self, name: str, columns: list[SqlColumn], at: exp.Expr) -> None:
        if any(column.name == name for column in columns):
            raise self.sql.error(
                f"two columns are named {name!r}", at, "rename one of them: ... AS other"
            )
        if name.startswith(HIDDEN_PREFIX):
            raise self.sql.error(
                f"names that begin with {HIDDEN_PREFIX!r} are reserved for Rheos",
                at,
                "choose another name",
            )

    def tables_of(self, node: exp.Select) -> tuple[TableInSight, ...]:
        """Return the tables of a query, without joining them."""
        clause = node.args.get("from_")
        if clause is None:
            return ()
        planner = self._with_queries(node)
        relation = planner.table(clause.this)
        for each in node.args.get("joins") or []:
            if is_lateral_query(each):
                relation = with_lateral_query(planner, relation, each)
            elif is_lateral(each.this):
                relation = lateral_join(self.sql, relation, each)
            elif planner._lookup(each.this) is None:
                tables = (*relation.tables, *planner.table(each.this).tables)
                relation = replace(relation, tables=tables)
        for each in node.args.get("laterals") or []:
            relation = lateral(self.sql, relation, each, outer=bool(each.args.get("outer")))
        return relation.tables

    # --- FROM -----------------------------------------------------------------------------------------

    def _join_tables(self, node: exp.Select, conditions: list[exp.Expr]) -> SqlRelation:
        """Return the joined tables. Conditions of WHERE that join tables are removed from WHERE."""
        clause = node.args.get("from_")
        if clause is None:
            return one_row()
        self.sql.only(clause, ("this",))
        if clause.this.args.get("version") is not None:
            raise self.sql.error(
                "FOR SYSTEM_TIME AS OF is only computed for the right side of a join",
                clause.this,
                "write FROM bids AS b JOIN rates FOR SYSTEM_TIME AS OF b.ts AS r ON b.id = r.id",
            )
        relation = self.table(clause.this)
        together: list[exp.Join] = []
        for each in node.args.get("joins") or []:
            if not keeps_order(each) and self._lookup(each.this) is None:
                together.append(each)
                continue
            relation = joined_in_order(self, relation, together, conditions)
            together = []
            relation = self.joined(relation, each)
        relation = joined_in_order(self, relation, together, conditions)
        for each in node.args.get("laterals") or []:
            relation = lateral(self.sql, relation, each, outer=bool(each.args.get("outer")))
        return relation

    def joined(self, left: SqlRelation, node: exp.Join) -> SqlRelation:
        """Return the rows of a relation joined with a table. Raise ProgramError or SchemaError."""
        if is_lateral_query(node):
            return with_lateral_query(self, left, node)
        if is_lateral(node.this):
            return lateral_join(self.sql, left, node)
        work = joining(self.sql, node, self.ttl)
        lookup = self._lookup(node.this)
        if lookup is not None:
            on = [*parts_of(node.args.get("on"))]
            if isinstance(lookup, DeclaredTable):
                join = declared_lookup(work, lookup, left, on)
            else:
                join = LookupJoin(self.sql, node, lookup, work.how)
            return join.relation(left, on)
        right = self.table(node.this)
        self.check_alias(left, right, node.this)
        on = [*parts_of(node.args.get("on"))]
        left, on = with_calls(self.sql, left, on, right)
        right, on = with_calls(self.sql, right, on, left)
        return work.relation(left, right, on)

    def check_alias(self, left: SqlRelation, right: SqlRelation, at: exp.Expr) -> None:
        names = {each.alias.casefold() for each in left.tables if each.alias is not None}
        for table in right.tables:
            if table.alias is not None and table.alias.casefold() in names:
                raise self.sql.error(
                    f"two tables here are named {table.alias!r}",
                    at,
                    f"rename one of them: {table.alias} AS other",
                )

    def table(self, node: exp.Expr) -> SqlRelation:
        """Plan a table of FROM. Raise ProgramError or SchemaError."""
        if is_lateral(node):
            return lateral(self.sql, one_row(), node, outer=False)
        if (pivots := node.args.get("pivots")) and isinstance(node, exp.Table | exp.Subquery):
            plain = node.copy()
            plain.set("pivots", None)
            plan = self.table(plain).plan
            for each in pivots:
                plan = pivoted(self, plan, each)
            return self._aliased(plan, pivots[-1], node.alias_or_name or None)
        match node:
            case exp.Table():
                return self._named_table(node)
            case exp.Subquery():
                self.sql.only(node, ("this", "alias"))
                return self._aliased(self.query(node.this), node)
            case exp.Values():
                return self._aliased(value_rows(self.sql, node), node)
            case MatchRecognize():
                return self._aliased(matched(self.sql, node, self.table(node.this)), node)
            case exp.Select():
                raise self.sql.error("FROM takes a table", node, "put a query into parentheses")
        raise self.sql.not_computed(node)

    def _named_table(self, node: exp.Table) -> SqlRelation:
        call = window_call(self.sql, node.this)
        if call is not None:
            self.sql.only(node, ("this", "alias"), " of a window function")
            return self._aliased(self._windowed(call), node)
        if (processed := process_call(node.this)) is not None:
            self.sql.only(node, ("this", "alias"), " of a process function")
            return self._aliased(process(self, processed), node)
        if (call_of_model := predict_call(node.this)) is not None:
            self.sql.only(node, ("this", "alias"), " of ML_PREDICT")
            return self._aliased(predicted(self, call_of_model), node)
        if isinstance(node.this, exp.Anonymous):
            of = node.this
            if of.name.upper() == "TABLE" and len(of.expressions) == 1:
                [of] = of.expressions
            known = [
                *WINDOWS,
                ML_PREDICT,
                *process_functions(self.catalog.functions),
                *map(str.upper, GENERATORS),
            ]
            listed = "the table functions are those of docs/sql-reference.md"
            raise self.sql.unknown("table function", of.name, of, known, listed, names_them=False)
        if not isinstance(node.this, exp.Identifier):
            raise self.sql.not_computed(node.this)
        self.sql.only(node, ("this", "alias", "version", "db", "catalog"), " of a table")
        self._check_database(node)
        name = node.name
        plan = self.ctes.get(name.casefold())
        if plan is not None and hinted_options(node):
            raise self.sql.error(
                f"{name} is a query of WITH, which has no options", node.this, "leave out the hint"
            )
        plan = plan or self._registered(node)
        if plan is None:
            if self._lookup(node) is not None:
                raise self.sql.error(
                    f"{name} is a lookup table, which can only be joined by key",
                    node.this,
                    f"write FROM a stream AS s JOIN {name} ON s.id = {name}.id",
                )
            known = [*self.ctes, *self.catalog.names.values()]
            error = self.sql.unknown("table", name, node.this, known, "the tables here are")
            error.hint = f"{error.hint}; register one with env.register({name!r}, stream)"
            raise error
        return self._aliased(plan, node, name)

    def _registered(self, node: exp.Table) -> PlanNode | None:
        """Return the rows of a table that is not one of WITH. Raise ProgramError."""
        if hinted_options(node) and self.catalog.knows(node.name):
            return self.catalog.changed(hinted_table(self.sql, self.catalog, node))
        return self.catalog.find(node.name)

    def _check_database(self, node: exp.Table) -> None:
        for part in (node.args.get("catalog"), node.args.get("db")):
            if part is not None and part.name.casefold() not in DATABASES:
                raise self.sql.error(
                    f"unknown database {part.name!r}: all tables are in one",
                    part,
                    f"write {node.name}",
                )

    def _lookup(self, node: exp.Expr) -> Lookup | DeclaredTable | None:
        """Return the lookup for a joined table, or the table that declares it; None if it is a
        stream."""
        if not isinstance(node, exp.Table) or node.name.casefold() in self.ctes:
            return None
        declared = self.catalog.declared(node.name)
        if declared is not None and node.args.get("version") is not None:
            if hinted_options(node):
                declared = hinted_table(self.sql, self.catalog, node)
            return declared if is_looked_up(declared) else None
        return self.catalog.lookups.get(node.name.casefold())

    def _windowed(self, call: WindowCall) -> PlanNode:
        """Return the rows of a table with their windows."""
        relation = self.table(call.table)
        scope = NameScope(self.sql, relation.tables)
        keys = tuple(scope.column(key).expr.meta.output_name() for key in call.keys)
        return self._with_window(relation, call.time, call.window, keys, call.table)

    def _in_group_window(self, relation: SqlRelation, of: GroupWindow) -> SqlRelation:
        """Return the rows with the bounds of a window of GROUP BY."""
        plan = self._with_window(relation, of.time, of.window, None, of.node)
        named = tuple(Named(column.name, column) for column in WINDOW_COLUMNS)
        bounds = TableInSight(OF_GROUP, named, hidden=True)
        return SqlRelation(plan, (*relation.tables, bounds))

    def _with_window(
        self,
        relation: SqlRelation,
        column: exp.Column,
        window: Window,
        keys: tuple[str, ...] | None,
        at: exp.Expr,
    ) -> PlanNode:
        """Return the rows with their windows by a column of time."""
        plan, scope = relation.plan, NameScope(self.sql, relation.tables)
        time = scope.named(column)
        if plan.changes is not None:
            raise self.sql.error(
                "windows need append-only rows, but these are updated",
                at,
                "apply the window before the aggregation",
            )
        if time is not None and time.column.role == ColumnRole.PROCESSING_TIME:
            window = by_the_clock(window)
        elif time is None or time.column.role != ColumnRole.EVENT_TIME:
            known = [each.name for each in plan.columns if each.role == ColumnRole.EVENT_TIME]
            raise self.sql.error(
                f"{column.name!r} is not the event time of {at.name or 'the rows'}",
                column,
                f"the event time is {known[0]}" if known else SET_EVENT_TIME,
            )
        for each in WINDOW_COLUMNS:
            self._check_name(each.name, list(plan.columns), at)
        columns = (*plan.columns, *WINDOW_COLUMNS)
        return WindowedRows(plan, time.column.name, window, keys, columns)

    def _aliased(self, plan: PlanNode, node: exp.Expr, name: str | None = None) -> SqlRelation:
        alias = node.args.get("alias")
        if alias is None:
            return SqlRelation.of(plan, name)
        self.sql.only(alias, ("this", "columns"))
        plan = self._renamed(plan, alias.args.get("columns") or [], alias)
        return SqlRelation.of(plan, alias.name or name)

    def _renamed(self, plan: PlanNode, names: list[exp.Expr], at: exp.Expr) -> PlanNode:
        if not names:
            return plan
        if len(names) != len(plan.columns):
            raise self.sql.error(
                f"the rows have {number_of(len(plan.columns), 'column')}, but there are "
                f"{number_of(len(names), 'name')} for them",
                at,
                "write one name for each column",
            )
        return renamed(plan, tuple(each.name for each in names))


def _is_state_ttl(node: exp.Expr) -> bool:
    """Return whether a hint is STATE_TTL('t' = '1d', ...)."""
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() == "STATE_TTL"
    return is_call and all(isinstance(each, exp.EQ) for each in node.expressions)


def _length_ms(ttl: str) -> float:
    return inf if ttl == FOREVER else duration_ms(ttl)


def _reads_itself(cte: exp.Expr) -> exp.Expr | None:
    """Return the table in a query of WITH that has the name of the query itself."""
    tables = cte.this.find_all(exp.Table)
    return next((each for each in tables if each.name.casefold() == cte.alias.casefold()), None)


def _parts_of_groups(node: exp.Select) -> list[exp.Expr]:
    """Return the expressions that are computed after WHERE."""
    parts = (each for name in ("group", "having") if (each := node.args.get(name)))
    return [*node.expressions, *parts, *node.args.get("windows", ())]


def _split_conditions(conditions: list[exp.Expr]) -> tuple[list[exp.Expr], list[Membership]]:
    """Split conditions into those on single rows, and those on other queries."""
    plain, members = [], []
    for each in conditions:
        found = membership(each)
        if found is None:
            plain.append(each)
        else:
            members.append(found)
    return plain, members
