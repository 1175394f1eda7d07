"""Results of queries equal those of an independent SQL engine over the same rows."""

from __future__ import annotations

import pytest

from tests.sql.compare import Rows, found_by_duckdb, found_by_rheos
from tests.sql.corpus import QUERIES


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    return found_by_rheos({name: query.sql for name, query in QUERIES.items()})


@pytest.fixture(scope="module")
def theirs() -> dict[str, Rows]:
    return found_by_duckdb({name: query.duckdb or query.sql for name, query in QUERIES.items()})


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_agrees_with_duckdb(name: str, ours: dict[str, Rows], theirs: dict[str, Rows]) -> None:
    assert ours[name] == theirs[name], QUERIES[name].sql
    assert ours[name], "it finds something"
