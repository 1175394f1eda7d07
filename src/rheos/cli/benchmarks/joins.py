"""Two streams of measurements by key, with the same event-time progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.connectors.generator import Block

ROWS_PER_MS = 50
"""Rows per ms of event time, in each split."""


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
    """Return the maximum distance of the rows of a pair for which a row has about one partner."""
    return max(keys // (2 * ROWS_PER_MS * splits), 1)
