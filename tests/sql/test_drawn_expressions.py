"""Random expressions are computed, or refused at their place: no text of a query raises another error.

A draw that fails shows the expressions. More of them: `-m slow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

import rheos as rh
from rheos.core.errors import InternalError
from tests.sql.drawn_expressions import drawn
from tests.sql.edges import table

PLACES = (
    *("SELECT {} AS v FROM edges", "SELECT {} AS v FROM edges", "SELECT i FROM edges WHERE {}"),
    "SELECT COUNT(*) AS n FROM edges GROUP BY {}",
    "SELECT i, MAX({}) AS v FROM edges GROUP BY i HAVING {}",
    "SELECT i, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS n FROM edges",
    "SELECT e.i FROM edges AS e JOIN edges AS f ON {}",
    "SELECT i, v FROM edges, UNNEST({}) AS u(v)",
    "SELECT i FROM edges ORDER BY {} LIMIT {}",
    "SELECT i FROM edges WHERE i IN (SELECT {} FROM edges)",
    "SELECT i FROM edges WHERE EXISTS (SELECT 1 FROM edges AS f WHERE {})",
    "SELECT i FROM TABLE(TUMBLE(TABLE edges, DESCRIPTOR({}), {}))",
    "SELECT i FROM edges MATCH_RECOGNIZE (ORDER BY {} MEASURES {} AS m PATTERN (A) DEFINE A AS {})",
    "VALUES ({}, {})",
)


def _queries(seed: int, count: int) -> list[str]:
    draw = Random(seed)
    places = [draw.choice(PLACES) for _ in range(count)]
    return [place.format(*(drawn(draw) for _ in range(place.count("{}")))) for place in places]


def _failure(queries: Sequence[str], *, run: bool) -> str | None:
    """Return the message of an error without a place in the SQL, or None."""
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(table(0).slice(0, 8))))
    for place, query in enumerate(queries):
        try:
            env.sql(query, state_ttl="forever").collect(f"{place}")
        except InternalError as error:
            return f"{query}\n{error}"
        except rh.RheosError as error:
            if "^" not in str(error):
                return f"no place: {query}\n{error}"
        except Exception as error:  # The test fails on any other error.
            return f"{query}\n{error!r}"
    try:
        if run:
            env.execute("drawn")
    except InternalError as error:
        return str(error)
    except rh.RheosError:
        return None
    return None


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 120), *(pytest.param(seed, 2000, marks=pytest.mark.slow) for seed in range(1, 6))],
)
def test_a_random_query_is_planned_or_refused_at_its_place(seed: int, count: int) -> None:
    wrong = [found for query in _queries(seed, count) if (found := _failure([query], run=False))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 80), *(pytest.param(seed, 1000, marks=pytest.mark.slow) for seed in range(1, 6))],
)
def test_random_expressions_run_without_internal_errors(seed: int, count: int) -> None:
    draw = Random(seed)
    accepted = [f"SELECT {drawn(draw)} AS v FROM edges" for _ in range(count)]
    accepted = [query for query in accepted if _is_accepted(query)]
    assert len(accepted) > count // 20
    assert _failure(accepted, run=True) is None


def _is_accepted(query: str) -> bool:
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(table(0).slice(0, 8))))
    try:
        env.sql(query, state_ttl="forever")
    except rh.RheosError:
        return False
    return True
