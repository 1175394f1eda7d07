"""Two streams of measurements by key, whose event times go on alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.connectors.generator import Block

ROWS_PER_MS = 50
"""Of each split."""


@dataclass(frozen=True)
class Timed:
    """The generator's function: a random key below `keys`, a random value, and the time in ms."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {
            "k": rng.integers(0, self.keys, block.rows),
            "v": rng.random(block.rows),
            "at": block.index() // ROWS_PER_MS,
        }


def interval_ms(keys: int, splits: int) -> int:
    """How far apart the rows of a pair are at the most, for a row to have about one partner."""
    return max(keys // (2 * ROWS_PER_MS * splits), 1)
