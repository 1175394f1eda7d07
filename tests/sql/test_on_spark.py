"""The same queries, word for word, in Spark SQL; and in Rheos' batch runtime."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.compare import Rows, counted, found_by_rheos
from tests.sql.corpus import QUERIES
from tests.sql.data import TABLES

pytestmark = [pytest.mark.spark]

ALIKE = {name: query.sql for name, query in QUERIES.items() if query.spark}


@pytest.fixture(scope="module")
def theirs(spark: Any) -> dict[str, Rows]:
    said = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in said}
    try:
        for name, value in said.items():
            spark.conf.set(name, value)
        for name, table in TABLES.items():
            spark.createDataFrame(table).createOrReplaceTempView(name)
        return {name: counted(_rows(spark.sql(text))) for name, text in ALIKE.items()}
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _rows(df: Any) -> list[tuple[Any, ...]]:
    table = df.toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def ours(spark: Any) -> dict[str, Rows]:
    return found_by_rheos(ALIKE, runtime="batch")


@pytest.mark.parametrize("name", ALIKE)
def test_a_query_finds_what_spark_finds(
    name: str, ours: dict[str, Rows], theirs: dict[str, Rows]
) -> None:
    assert ours[name] == theirs[name], QUERIES[name].sql
