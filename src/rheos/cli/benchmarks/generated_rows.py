"""Generated rows of the benchmarks' sources: random keys and values, with event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.connectors.generator import Block

ROWS_PER_MS = 50
"""Number of rows per ms of event time, in each split."""
KINDS = 100
"""Number of kinds of events."""
ACTIVE_MS = 15_000
"""Time in ms for which a key has rows; then it pauses for twice as long."""


@dataclass(frozen=True)
class Measurements:
    """Generator of rows with a random key below `keys`, and a random value."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {"k": rng.integers(0, self.keys, block.rows), "v": rng.random(block.rows)}


class MeasurementsWithTime(Measurements):
    """Generator of the same rows with the time in ms."""

    def __call__(self, block: Block) -> dict[str, Any]:
        return {**super().__call__(block), "at": block.index() // ROWS_PER_MS}


@dataclass(frozen=True)
class KeysWithKinds:
    """Generator of rows with a random key below `keys`, a random kind, and the time in ms."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {
            "k": rng.integers(0, self.keys, block.rows),
            "kind": rng.integers(0, KINDS, block.rows),
            "at": block.index() // ROWS_PER_MS,
        }


@dataclass(frozen=True)
class Visits:
    """Generator of rows with a random key among the active ones, a value, and the time in ms.

    A third of the keys is active at a time, so that sessions end.
    """

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        at = block.index() // ROWS_PER_MS
        active = max(self.keys // 3, 1)
        first = at // ACTIVE_MS % 3 * active
        keys = (first + rng.integers(0, active, block.rows)) % self.keys
        return {"k": keys, "v": rng.random(block.rows), "at": at}


def interval_ms(keys: int, splits: int) -> int:
    """Return the time distance within which a row has about one partner."""
    return max(keys // (2 * ROWS_PER_MS * splits), 1)
