"""Queries that are long or deep: they are computed, or refused at their place with the limit."""

from __future__ import annotations

import pytest

import rheos as rh


def _rows(text: str) -> list[dict[str, object]]:
    env = rh.Environment(runtime="simulated")
    env.register("t", env.from_source(rh.collection([{"id": 1, "s": "a"}, {"id": 2, "s": None}])))
    env.sql(text).collect("found")
    return env.execute("deep").collected["found"].to_pylist()


def _many(n: int, each: str, between: str) -> str:
    return between.join(each.format(i=i) for i in range(n))


LONG = {
    "OR": (f"SELECT id FROM t WHERE {_many(500, 'id = {i}', ' OR ')}", [1, 2]),
    "AND": (f"SELECT id FROM t WHERE {_many(500, 'id <> {i} + 2', ' AND ')}", [1]),
    "IN": (f"SELECT id FROM t WHERE id IN ({_many(20000, '{i}', ', ')})", [1, 2]),
    "IN negative": (f"SELECT id FROM t WHERE -id IN ({_many(5000, '-{i}', ', ')})", [1, 2]),
    "IN times": (
        f"SELECT id FROM t WHERE DATE_ADD(DATE '2026-01-01', CAST(id AS INT)) IN "
        f"({_many(28, repr('2026-01-{i:02}'), ', ').replace('-00', '-31')})",
        [1, 2],
    ),
    "IN columns": (f"SELECT id FROM t WHERE id IN ({_many(200, 'id + {i}', ', ')})", [1, 2]),
    "CASE": (f"SELECT CASE id {_many(200, 'WHEN {i} THEN {i} * 2', ' ')} END AS id FROM t", [2, 4]),
    "CASE of nulls": (
        f"SELECT CASE {_many(50, 'WHEN id = {i} THEN NULLIF(id, 1)', ' ')} ELSE 7 END AS id FROM t",
        [None, 2],
    ),
    "UNION ALL": (_many(60, "SELECT id FROM t WHERE id = {i}", " UNION ALL "), [1, 2]),
    "||": (f"SELECT LENGTH({_many(300, 's', ' || ')}) AS id FROM t", [300, None]),
    "GREATEST": (f"SELECT GREATEST({_many(400, 'id - {i}', ', ')}) AS id FROM t", [1, 2]),
    "LEAST of floats": (f"SELECT LEAST({_many(400, 'id + {i}e0', ', ')}) AS id FROM t", [1, 2]),
    "IN strings": (f"SELECT id FROM t WHERE s IN ({_many(5000, repr('a{i}'), ', ')}, 'a')", [1]),
    "COALESCE": (f"SELECT COALESCE({_many(200, 'NULLIF(id, id)', ', ')}, id) AS id FROM t", [1, 2]),
    "columns": (f"SELECT id, {_many(300, 'id + {i} AS c{i}', ', ')} FROM t", [1, 2]),
    "+": (f"SELECT {_many(45, 'id', ' + ')} AS id FROM t", [45, 90]),
    "%": (f"SELECT {'(' * 20}id{' % 7)' * 20} AS id FROM t", [1, 2]),
    "% right": (f"SELECT {'7 % (8 + ' * 10}id{')' * 10} AS id FROM t", [7, 7]),
    "/": (f"SELECT {'4 / (' * 21}id{')' * 21} AS id FROM t", [4.0, 2.0]),
    "DIV": (f"SELECT {'4 DIV (' * 21}id{')' * 21} AS id FROM t", [4, 2]),
    "PMOD": (f"SELECT {'PMOD(' * 20}id{', 7)' * 20} AS id FROM t", [1, 2]),
    "<<": (f"SELECT {'(' * 20}id{' << 1)' * 20} AS id FROM t", [1 << 20, 1 << 21]),
    "lambdas": (
        f"SELECT {'TRANSFORM(ARRAY(id), x -> ' * 12}id{'[0])' * 12}[0] AS id FROM t".replace(
            "id[0]", "id", 1
        ),
        [1, 2],
    ),
    "lambdas of elements": (
        f"SELECT {'TRANSFORM(ARRAY(id), x -> ' * 12}x{'[0])' * 12}[0] AS id FROM t".replace(
            "x[0]", "x", 1
        ),
        [1, 2],
    ),
}
DEEP = {
    "digits": (f"SELECT {'9' * 5000} AS v FROM t", "38 digits"),
    "+": (f"SELECT {_many(500, 'id', ' + ')} AS v FROM t", "50 levels"),
    "(": (f"SELECT {'(' * 60}id{')' * 60} AS v FROM t", "30 levels"),
    "never closed": (f"SELECT {'(' * 60}id AS v FROM t", "30 levels"),
    "calls": (f"SELECT {'ABS(' * 60}id{')' * 60} AS v FROM t", "30 levels"),
    "NOT": (f"SELECT {'NOT ' * 60}id = 1 AS v FROM t", "30 levels"),
    "minus": (f"SELECT {'- ' * 60}id AS v FROM t", "30 levels"),
    "CASE": (f"SELECT {'CASE WHEN id = 1 THEN ' * 60}1{' END' * 60} AS v FROM t", "30 levels"),
    "queries": (f"SELECT id FROM {'(SELECT id FROM ' * 60}t{')' * 60}", "30 levels"),
    "elements": (f"SELECT s{'[0' * 60}{']' * 60} AS v FROM t", "30 levels"),
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", LONG)
def test_a_long_query_is_computed(name: str) -> None:
    text, ids = LONG[name]
    assert [row["id"] for row in _rows(text)] == ids


@pytest.mark.parametrize("name", DEEP)
def test_a_too_deep_query_is_refused_at_its_place(name: str) -> None:
    text, limit = DEEP[name]
    with pytest.raises(rh.ProgramError, match=limit) as raised:
        _rows(text)
    assert "^" in str(raised.value)


def test_a_query_at_the_depth_limit_is_computed() -> None:
    assert _rows(f"SELECT {'(' * 30}id{')' * 30} AS id FROM t WHERE id = 1") == [{"id": 1}]


def test_a_pattern_without_groups_extracts_the_whole_match() -> None:
    env = rh.Environment(runtime="simulated")
    env.register("t", env.from_source(rh.collection([{"s": "ab/cd"}])))
    env.sql(
        "SELECT REGEXP_EXTRACT(s, '[^/]+') AS v, REGEXP_EXTRACT(s, '/(.)(.)') AS w, "
        "REGEXP_EXTRACT(s, '/(.)(.)', 2) AS x FROM t"
    ).collect("found")
    found = env.execute("patterns").collected["found"].to_pylist()
    assert found == [{"v": "ab", "w": "c", "x": "d"}]
