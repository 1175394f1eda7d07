"""Random aggregates next to each other, in groups of append-only and of updating rows, and over
frames, compared with DuckDB."""

from __future__ import annotations

from random import Random

import pytest

from tests.sql.compare import Rows, found_by_duckdb, found_by_rheos

_CHANGING = (
    "(SELECT auction, bidder, channel, COUNT(*) AS price, SUM(price) AS total FROM bids "
    "GROUP BY auction, bidder, channel{having}) AS t"
)
_HAVING = ("", " HAVING SUM(price) > 600", " HAVING COUNT(*) < 3")
_KEYS = ("auction", "bidder", "channel", "price % 3")
_NUMBERS = ("price", "bidder", "price * auction", "price % 7")
_ORDER = ("price", "channel", "bidder")


def _call(draw: Random, *, distinct: bool = True) -> str:
    """Return an aggregate of a column that needs no rounding."""
    each = "DISTINCT " if distinct and draw.random() < 0.4 else ""
    match draw.choice(("count", "sum", "avg", "least", "most", "rows")):
        case "count":
            call = f"COUNT({each}{draw.choice((*_NUMBERS, 'channel'))})"
        case "sum":
            call = f"SUM({each}{draw.choice(_NUMBERS)})"
        case "avg":
            call = f"AVG({each}{draw.choice(_NUMBERS)})"
        case "least":
            call = f"MIN({draw.choice((*_NUMBERS, *_ORDER))})"
        case "most":
            call = f"MAX({draw.choice((*_NUMBERS, *_ORDER))})"
        case _:
            call = "COUNT(*)"
    if draw.random() < 0.3:
        call += f" FILTER (WHERE {draw.choice(('price > 2', 'auction <> 1', 'channel IS NOT NULL'))})"
    return call


def _groups(draw: Random) -> str:
    table = "bids" if draw.random() < 0.4 else _CHANGING.format(having=draw.choice(_HAVING))
    keys = draw.sample(_KEYS, draw.randint(0, 2))
    columns = [f"{key} AS k{place}" for place, key in enumerate(keys)]
    columns += [f"{_call(draw)} AS c{place}" for place in range(draw.randint(1, 5))]
    text = f"SELECT {', '.join(columns)} FROM {table}"
    if not keys:
        return text
    by = draw.choice(("{}", "{}", "ROLLUP({})", "CUBE({})", "GROUPING SETS (({}), ())"))
    return f"{text} GROUP BY {by.format(', '.join(keys))}"


def _over(draw: Random) -> str:
    key = draw.choice(("auction", "channel"))
    begin, end = draw.randint(0, 4), draw.choice(("CURRENT ROW", "1 FOLLOWING", "3 FOLLOWING"))
    over = f"OVER (PARTITION BY {key} ORDER BY ts ROWS BETWEEN {begin} PRECEDING AND {end})"
    columns = [
        f"{_call(draw, distinct=False)} {over} AS c{place}" for place in range(draw.randint(1, 3))
    ]
    return f"SELECT ts, price, {', '.join(columns)} FROM bids"


DRAWN = {
    f"{made.__name__} {seed}": made(Random(seed)) for made in (_groups, _over) for seed in range(14)
}


@pytest.fixture(scope="module")
def ours() -> dict[str, Rows]:
    return found_by_rheos(DRAWN)


@pytest.fixture(scope="module")
def theirs() -> dict[str, Rows]:
    return found_by_duckdb(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_random_aggregates_agree_with_duckdb(
    name: str, ours: dict[str, Rows], theirs: dict[str, Rows]
) -> None:
    assert ours[name] == theirs[name], DRAWN[name]
    assert ours[name], "it finds something"
