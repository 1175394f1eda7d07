"""Rows that the sinks of tables write."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_SEED = 7


def rows_of(count: int) -> pa.Table:
    """Return rows with keys in random order."""
    draw = np.random.default_rng(_SEED)
    shops = np.char.add("shop ", draw.integers(0, 50, count).astype(str))
    return pa.table(
        {"k": draw.permutation(count), "shop": pa.array(shops), "total": draw.random(count)}
    )
