"""Conditions over later rows, compared with a matcher that has all rows of a key."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.graph.patterns import (
    AfterMatch,
    Condition,
    Contiguity,
    Following,
    PatternStep,
    PatternTree,
    Quantifier,
    Skip,
)
from rheos.core.operators.pattern.match_rows import ROW, ROWS, STEP
from rheos.testing import OperatorExample
from rheos.testing.harness import replay
from tests.patterns.drawn import SITE
from tests.patterns.regular import Taken, matches
from tests.patterns.test_operator import MODES, shuffled

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.int64()), ("key", pa.string()), ("v", pa.int64())])

RISES = Condition((pl.col("v") < pl.col("v next"),))
PEAK = Condition((pl.col("v").ge(pl.col("v next")) & pl.col("v second").ne_missing(pl.col("v")),))


def step(name: str, condition: Condition, most: int | None) -> PatternStep:
    return PatternStep(name, SITE, Contiguity.NEXT, condition, Quantifier(1, most, Contiguity.NEXT))


PATTERN = PatternTree(
    (step("up", RISES, None), step("peak", PEAK, 1)),
    9,
    AfterMatch(Skip.TO_NEXT),
    preferring=True,
    following=(Following("v next", "v", 1), Following("v second", "v", 2)),
)


def expected(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return each match of one key as its steps with their rows."""
    values = [row["v"] for row in rows] + [None, None]

    def holds(condition: Condition, row: int, taken: Taken) -> bool:
        here, after, second = values[row : row + 3]
        if after is None:
            return False
        return bool(here < after if condition is RISES else here >= after and second != here)

    found = matches(PATTERN, [row["at"] for row in rows], holds)
    return [tuple(f"{name} {rows[place]['n']}" for place, name in match) for match in found]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_later_rows_are_those_of_the_same_key(seed: int, mode: Any) -> None:
    random = Random(f"following {seed}")
    rows = [
        {
            "n": n,
            "at": 2 * n,
            "key": random.choice("ab" if n % 20 < 15 else "abcd"),
            "v": random.randrange(6),
        }
        for n in range(60)
    ]

    def detect(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        return {"found": stream.key_by("key").detect_tree(PATTERN)}

    came = replay(OperatorExample(detect, SCHEMA, shuffled(random, rows), on="at"), mode)
    given = [tuple(f"{each[STEP]} {each[ROW]['n']}" for each in match[ROWS]) for match in came["found"]]
    wanted = [each for key in "abcd" for each in expected([row for row in rows if row["key"] == key])]
    assert len(wanted) > 5
    assert sorted(given) == sorted(wanted)
