"""Benchmark that searches lines by a regular expression. One line in a hundred matches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.generator import Block

LINES = 1 << 16
"""Number of distinct lines. A generator's block is a range of them."""

PATTERN = r"ERROR \[[a-z]+-\d+\] .*timed out after \d{4,} ms"

_ACTIONS = ("accepted", "opened", "closed", "flushed", "queued", "parsed", "cached", "expired")
_PARTS = ("billing", "search", "orders", "images", "mailer", "gateway", "sessions", "reports")


@lru_cache(maxsize=1)
def lines(seed: int) -> pa.Array:
    """Return log lines of an imaginary service, about 100 bytes each. One in each hundred matches."""
    rng = np.random.default_rng(seed)
    hours, minutes, seconds = (rng.integers(0, limit, LINES) for limit in (24, 60, 60))
    actions = rng.integers(0, len(_ACTIONS), LINES)
    parts = rng.integers(0, len(_PARTS), LINES)
    workers, requests = rng.integers(1, 64, LINES), rng.integers(0, 2**48, LINES)
    millis, matching = rng.integers(1000, 9999, LINES), rng.integers(0, 100, LINES // 100 + 1)
    made = []
    for i in range(LINES):
        if i % 100 == matching[i // 100]:
            level, what = "ERROR", f"timed out after {millis[i]} ms"
        else:
            level, what = ("WARN ", "INFO ")[i % 2], f"{_ACTIONS[actions[i]]} after {millis[i]} us"
        made.append(
            f"2025-03-14T{hours[i]:02}:{minutes[i]:02}:{seconds[i]:02}Z {level} "
            f"[{_PARTS[parts[i]]}-{workers[i]}] "
            f"request {requests[i]:012x} to /api/{_PARTS[parts[i]]} {what}"
        )
    return pa.array(made, pa.string())


@dataclass(frozen=True)
class Lines:
    """Generator of ranges of lines, cut from the pool without a copy."""

    def __call__(self, block: Block) -> dict[str, Any]:
        pool = lines(block.seed)
        start = block.start % LINES
        run = pool.slice(start, block.rows)
        rest = block.rows - len(run)
        return {"line": run if rest == 0 else pa.concat_arrays([run, *_rounds(pool, rest)])}


def _rounds(pool: pa.Array, rows: int) -> list[pa.Array]:
    """Return slices of the pool, repeated from its start, with this number of rows in total."""
    return [pool.slice(0, min(rows - done, LINES)) for done in range(0, rows, LINES)]
