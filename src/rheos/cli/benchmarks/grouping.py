"""Measurements by key, with a running count and sum for each record: made-up, uniform keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rheos.connectors.generator import Block


@dataclass(frozen=True)
class Measurements:
    """The generator's function: a random key below `keys`, and a random value."""

    keys: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {"k": rng.integers(0, self.keys, block.rows), "v": rng.random(block.rows)}
