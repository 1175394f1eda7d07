"""A new node of the plan is one class: every pass calls the node itself. This test adds one."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

import rheos as rh
from rheos import sql
from rheos.api.streams import DataStream
from rheos.core.graph.changelog import Changes
from rheos.sql import grouped_plans, joined_plans, plan
from rheos.sql.dialect import parse
from rheos.sql.explain import explained
from rheos.sql.lineage import lineage
from rheos.sql.lowering import Lowering
from rheos.sql.plan import (
    Columns,
    Filter,
    Names,
    Origins,
    PlanNode,
    Scan,
    SqlColumn,
    filtered,
    origins_of,
)
from rheos.sql.plan_numbers import PlanNumbers
from rheos.sql.plan_pushdown import pushed
from rheos.sql.text import SqlText


@dataclass(frozen=True, eq=False)
class Doubled(PlanNode):
    """Plan node that adds twice the value of a column as a new column."""

    input: PlanNode
    column: str
    columns: Columns
    changes: Changes | None

    def summary(self) -> str:
        return f"double {self.column}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed | {self.column}]

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        return None if "double" in read else self.with_filtered_input(0, condition)

    def origins(self) -> Origins:
        of = self.input.origins()
        return {**of, "double": origins_of(of, [self.column])}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.stream(self.input).with_columns((pl.col(self.column) * 2).alias("double"))


def doubled(input: PlanNode, column: str) -> Doubled:
    return Doubled(input, column, (*input.columns, SqlColumn("double", pl.Int64())), input.changes)


@pytest.fixture
def env() -> rh.Environment:
    env = rh.Environment(1, runtime="simulated")
    rows = [{"k": k, "n": n, "unread": "x"} for k, n in (("a", 1), ("b", 2), ("c", 3))]
    env.register("t", env.from_source(rh.collection(rows)))
    return env


def query(env: rh.Environment, text: str) -> PlanNode:
    of = SqlText(text)
    return env._sql_session().planned(of, parse(of)[0], "forever")


@pytest.fixture
def root(env: rh.Environment) -> PlanNode:
    """Return k and the double of rows with n > 1: the filter is above the new node."""
    node = doubled(query(env, "SELECT k, n, unread FROM t"), "n")
    above = filtered(node, pl.col("n") > 1)
    columns = tuple(column for column in node.columns if column.name in ("k", "double"))
    return plan.projected(above, tuple(pl.col(column.name) for column in columns), columns)


def test_a_new_node_is_explained_and_has_lineage(root: PlanNode) -> None:
    assert "  double n\n" in explained(root)
    assert lineage([("out", root)]).splitlines()[1:] == ["  out.k from t.k", "  out.double from t.n"]


def test_filters_and_projections_are_pushed_below_a_new_node(root: PlanNode) -> None:
    [made] = pushed([root])
    steps = [line.strip() for line in explained(made).splitlines() if " emits " not in line]
    kinds = [step.split()[0] for step in steps]
    assert kinds.index("double") < kinds.index("filter")
    node = made
    while not isinstance(node, Doubled):
        [node] = node.upstream()
    assert [column.name for column in node.columns] == ["k", "n", "double"]


def test_a_filter_on_a_computed_column_stays_above(env: rh.Environment) -> None:
    above = filtered(doubled(query(env, "SELECT k, n FROM t"), "n"), pl.col("double") > 2)
    [made] = pushed([above])
    assert isinstance(made, Filter)


def test_equal_new_nodes_are_computed_once(env: rh.Environment) -> None:
    numbers, scan = PlanNumbers(), query(env, "SELECT k, n FROM t")
    assert numbers.number(doubled(scan, "n")) == numbers.number(doubled(scan, "n"))
    other = replace(doubled(scan, "n"), column="k")
    assert numbers.number(doubled(scan, "n")) != numbers.number(other)


def test_a_new_node_runs(env: rh.Environment, root: PlanNode) -> None:
    [made] = pushed([root])
    Lowering(env).stream(made).collect("found")
    found = env.execute("doubled").collected["found"].to_pylist()
    assert found == [{"k": "b", "double": 4}, {"k": "c", "double": 6}]


def test_no_pass_matches_on_many_kinds_of_nodes() -> None:
    """A pass that names many kinds would be another place to change. A few check for single kinds."""
    kinds = {
        name
        for module in (plan, grouped_plans, joined_plans)
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, PlanNode)
    }
    assert len(kinds) > 15
    assert Scan.__name__ in kinds
    for file in Path(sql.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Match):
                named = {
                    ast.unparse(each.cls) for each in ast.walk(node) if isinstance(each, ast.MatchClass)
                }
                assert len(named & kinds) <= 5, (file.name, node.lineno)
