"""The queries of TPC-H as incremental queries: after inserts, updates and deletes of all tables, each
result is that of an independent engine over the final tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pytest

import rheos as rh
from tests.sql.compare import key_of, rows_of
from tests.sql.tpch import final_tables, registered, table_of
from tests.sql.tpch_queries import QUERIES

QUICK = [2, 16, 17, 21]
"""Queries of every run: first rows without a key, NOT IN, a correlated aggregate, and EXISTS with
further conditions."""


def found_by_rheos(numbers: Iterable[int], seed: int) -> dict[int, list[tuple[Any, ...]]]:
    rng = Random(seed)
    tables = final_tables(rng)
    env = rh.Environment(parallelism=2, runtime="simulated")
    registered(env, rng, tables)
    keys = {}
    for number in numbers:
        stream = env.sql(QUERIES[number], state_ttl="forever")
        keys[number] = key_of(stream)
        stream.collect(str(number))
    found = env.execute("tpch").collected
    return {number: [*rows_of(found[str(number)], key).elements()] for number, key in keys.items()}


def found_by_duckdb(numbers: Iterable[int], seed: int) -> dict[int, list[tuple[Any, ...]]]:
    with duckdb.connect() as connection:
        for name, rows in final_tables(Random(seed)).items():
            connection.register(name, table_of(name, rows))
        return {number: connection.execute(QUERIES[number]).fetchall() for number in numbers}


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows with floats for numbers, in the order of their other values."""
    plain = [
        tuple(float(value) if isinstance(value, Decimal | int) else value for value in row)
        for row in rows
    ]
    return sorted(plain, key=lambda row: [*map(_place, row)])


def _place(value: Any) -> str:
    """Return a string that is the same for numbers which differ by rounding alone. Whole numbers, such
    as years, keep all digits."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.3g}"
    return str(value)


def agree(ours: Iterable[tuple[Any, ...]], theirs: Iterable[tuple[Any, ...]]) -> bool:
    """Return whether rows are the same. A decimal mean has 6 digits, where the other engine has a
    float."""
    mine, others = _sorted(ours), _sorted(theirs)
    return len(mine) == len(others) and all(
        len(one) == len(other) and all(map(_same, one, other))
        for one, other in zip(mine, others, strict=True)
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=2e-6)
    return bool(one == other)


@pytest.mark.parametrize(
    ("numbers", "seed"),
    [
        (QUICK, 5),
        pytest.param([*QUERIES], 1, marks=pytest.mark.slow),
        pytest.param([*QUERIES], 23, marks=pytest.mark.slow),
    ],
)
def test_incremental_results_are_those_of_the_final_tables(numbers: list[int], seed: int) -> None:
    ours, theirs = found_by_rheos(numbers, seed), found_by_duckdb(numbers, seed)
    right = [number for number in numbers if agree(ours[number], theirs[number])]
    print(f"{len(right)} of {len(numbers)} queries of TPC-H are right: {right}")
    assert right == numbers
    assert sum(bool(theirs[number]) for number in numbers) >= 0.8 * len(numbers), "most find rows"
