"""Visits by key for session windows: a third of the keys at a time, so that sessions end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.cli.benchmarks.joins import ROWS_PER_MS
from rheos.connectors.generator import Block

ACTIVE_MS = 15_000
"""For how long a key is visited before it is quiet for twice as long."""


@dataclass(frozen=True)
class Visits:
    """The generator's function: a random key among those that are visited, a value, the time in ms."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        at = block.index() // ROWS_PER_MS
        active = max(self.keys // 3, 1)
        first = at // ACTIVE_MS % 3 * active
        keys = (first + rng.integers(0, active, block.rows)) % self.keys
        return {"k": keys, "v": rng.random(block.rows), "at": at}
