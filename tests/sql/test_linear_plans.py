"""Planning takes time in proportion to the length of a query: the visited nodes and the compiled values
are counted, not the seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlglot import exp

import rheos as rh
from rheos.sql.expressions.table import Compiler

FORMS = {
    "IN": ("SELECT id FROM t WHERE id IN ({})", "{i}", ", "),
    "IN columns": ("SELECT id FROM t WHERE id IN ({})", "id + {i}", ", "),
    "LIKE ANY": ("SELECT id FROM t WHERE s LIKE ANY ({})", "'a{i}%'", ", "),
    "ANY": ("SELECT id FROM t WHERE id = ANY ({})", "{i}", ", "),
    "ALL": ("SELECT id FROM t WHERE id > ALL ({})", "{i}", ", "),
    "rows": ("SELECT id FROM t WHERE (id, id) IN ({})", "({i}, {i})", ", "),
    "arrays": ("SELECT id FROM t WHERE ARRAY(id) IN ({})", "ARRAY({i})", ", "),
    "CASE of a value": ("SELECT CASE id {} END AS c FROM t", "WHEN {i} THEN {i}", " "),
    "CASE": ("SELECT CASE {} END AS c FROM t", "WHEN id = {i} THEN {i}", " "),
    "COALESCE": ("SELECT COALESCE({}) AS c FROM t", "NULLIF(id, {i})", ", "),
    "GREATEST": ("SELECT GREATEST({}) AS c FROM t", "id + {i}", ", "),
    "CONCAT": ("SELECT CONCAT({}) AS c FROM t", "s", ", "),
    "OR": ("SELECT id FROM t WHERE {}", "id = {i}", " OR "),
    "AND": ("SELECT id FROM t WHERE {}", "id <> {i}", " AND "),
    "columns": ("SELECT {} FROM t", "id + {i} AS c{i}", ", "),
    "VALUES": ("SELECT x FROM (VALUES {}) AS v(x)", "({i})", ", "),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", FORMS)
def test_twice_the_text_takes_twice_the_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    around, each, between = FORMS[name]
    steps, walk, compile_ = 0, exp.Expression.walk, Compiler._compile

    def counted_walk(node: exp.Expr, *options: Any, **named: Any) -> Iterator[exp.Expr]:
        nonlocal steps
        for found in walk(node, *options, **named):
            steps += 1
            yield found

    def counted_compile(compiler: Compiler, node: exp.Expr) -> Any:
        nonlocal steps
        steps += 1
        return compile_(compiler, node)

    monkeypatch.setattr(exp.Expression, "walk", counted_walk)
    monkeypatch.setattr(Compiler, "_compile", counted_compile)
    taken = []
    for n in (70, 140, 280):
        env = rh.Environment(runtime="simulated")
        env.register("t", env.from_source(rh.collection([{"id": 1, "s": "a"}])))
        steps = 0
        env.sql(around.format(between.join(each.format(i=i) for i in range(n))))
        taken.append(steps)
    first, second = taken[1] - taken[0], taken[2] - taken[1]
    assert first >= 70, "the steps are counted"
    assert second <= 2.1 * first, taken
