"""Conditions over earlier rows, computed for whole batches, compared with a matcher that looks back."""

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
    PatternStep,
    PatternTree,
    Previous,
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

ANY = Condition()
FALLS = Condition((pl.col("v") < pl.col("v before"),))
RISES = Condition((pl.col("v") > pl.col("v before"), pl.col("v") != pl.col("v two before")))
PREVIOUS = (Previous("v before", "v", 1), Previous("v two before", "v", 2))


def step(name: str, condition: Condition, least: int, most: int | None) -> PatternStep:
    quantifier = Quantifier(least, most, Contiguity.NEXT)
    return PatternStep(name, SITE, Contiguity.NEXT, condition, quantifier)


PATTERN = PatternTree(
    (step("s", ANY, 1, 1), step("down", FALLS, 1, None), step("up", RISES, 1, 2)),
    60,
    AfterMatch(Skip.TO_LAST, "up"),
    preferring=True,
    previous=PREVIOUS,
)


def expected(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return each match of one key as its steps with their rows."""

    def holds(condition: Condition, row: int, taken: Taken) -> bool:
        values = [rows[place]["v"] for place, _ in taken] + [rows[row]["v"]]
        if condition is FALLS:
            return bool(values[-1] < values[-2])
        return condition is ANY or bool(values[-1] > values[-2] and values[-1] != values[-3])

    found = matches(PATTERN, [row["at"] for row in rows], holds)
    return [tuple(f"{name} {rows[place]['n']}" for place, name in match) for match in found]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_earlier_rows_are_those_of_the_same_key(seed: int, mode: Any) -> None:
    random = Random(f"previous {seed}")
    rows = [
        {
            "n": n,
            "at": 2 * n,
            "key": random.choice("ab" if n % 20 < 15 else "abcd"),
            "v": random.randrange(5),
        }
        for n in range(60)
    ]
    # No partial match continues at the end, as the last row does not rise.
    rows += [{"n": 200 + n, "at": 200 + n, "key": "abcd"[n % 4], "v": 9 - n // 4} for n in range(8)]

    def detect(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        return {"found": stream.key_by("key").detect_tree(PATTERN)}

    came = replay(OperatorExample(detect, SCHEMA, shuffled(random, rows), on="at"), mode)
    given = [tuple(f"{each[STEP]} {each[ROW]['n']}" for each in match[ROWS]) for match in came["found"]]
    wanted = [each for key in "abcd" for each in expected([row for row in rows if row["key"] == key])]
    assert len(wanted) > 5
    assert sorted(given) == sorted(wanted)
