"""Events by key, of a hundred kinds, and a pattern of three of them that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polars import col

from rheos.api.patterns import Pattern, begin, skip_past_last_event
from rheos.cli.benchmarks.joins import ROWS_PER_MS
from rheos.connectors.generator import Block

KINDS = 100


@dataclass(frozen=True)
class Kinds:
    """The generator's function: a random key below `keys`, a random kind, and the time in ms."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {
            "k": rng.integers(0, self.keys, block.rows),
            "kind": rng.integers(0, KINDS, block.rows),
            "at": block.index() // ROWS_PER_MS,
        }


def three_steps() -> Pattern:
    """Return a pattern of three steps. Three rows in a hundred fulfil a condition."""
    first = begin("first", skip_past_last_event()).where(col("kind") == 0)
    second = first.followed_by("second").where(col("kind") == 1)
    return second.followed_by("third").where(col("kind") == 2).within("10m")
