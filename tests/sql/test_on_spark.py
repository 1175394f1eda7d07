"""The same queries, unchanged, in Spark SQL and in Rheos' batch runtime.

Expressions over one table are in one statement. Spark takes a second for each of the other queries,
so the suite has every twentieth one; the rest are slow variants. All of them are compared
with DuckDB (`test_corpus`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from rheos.connectors.spark.versions import arrow_table
from tests.spark_versions import frame_of, is_since, needs_spark
from tests.sql.compare import Rows, counted, found_by_rheos
from tests.sql.corpus import QUERIES, in_few_statements
from tests.sql.data import TABLES

pytestmark = [pytest.mark.spark]

STATEMENTS = in_few_statements()
SHARE = 20
"""Number of single queries of which one runs with every change."""


def _marks(name: str, *, slow: bool) -> list[pytest.MarkDecorator]:
    since = QUERIES[name].since
    needs = [needs_spark(since, "a subquery without an aggregate for each row")] if since else []
    return [pytest.mark.slow, *needs] if slow else needs


def _each_query() -> list[Any]:
    return [
        pytest.param(name, marks=_marks(name, slow=len(names) == 1 and place % SHARE != 0))
        for place, names in enumerate(STATEMENTS.values())
        for name in names
    ]


@pytest.fixture(scope="module")
def statements(request: pytest.FixtureRequest) -> list[str]:
    """Return the statements whose queries are tested."""
    asked = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    return [
        text
        for text, names in STATEMENTS.items()
        if not asked.isdisjoint(names) and is_since(QUERIES[names[0]].since or "0")
    ]


def _by_query(found: Mapping[str, Rows]) -> dict[str, Rows]:
    """Convert the results of statements to those of queries."""
    of_queries: dict[str, Rows] = {}
    for text in found:
        names = STATEMENTS[text]
        if len(names) == 1:
            of_queries[names[0]] = found[text]
            continue
        for place, name in enumerate(names, start=1):
            of_queries[name] = Counter()
            for row, count in found[text].items():
                of_queries[name][row[0], row[place]] += count
    return of_queries


@pytest.fixture(scope="module")
def theirs(spark: Any, statements: list[str]) -> dict[str, Rows]:
    said = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in said}
    try:
        for name, value in said.items():
            spark.conf.set(name, value)
        for name, table in TABLES.items():
            frame_of(spark, table).createOrReplaceTempView(name)
        return _by_query({text: counted(_rows(spark.sql(text))) for text in statements})
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _rows(df: Any) -> list[tuple[Any, ...]]:
    table = arrow_table(df)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def ours(spark: Any, statements: list[str]) -> dict[str, Rows]:
    return _by_query(found_by_rheos({text: text for text in statements}, runtime="batch"))


@pytest.mark.parametrize("name", _each_query())
def test_a_query_agrees_with_spark(name: str, ours: dict[str, Rows], theirs: dict[str, Rows]) -> None:
    assert ours[name] == theirs[name], QUERIES[name].sql
