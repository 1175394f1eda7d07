"""Counting of keys on an edge, by an operator that a sample's plan has in addition: the share of the
heaviest key, and the number of different keys among the first rows.

The number of different keys is estimated from the smallest of their hashes. If n hashes are spread
evenly over the numbers up to M, the k-th smallest is about k / n * M.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.core.operators.contract import Operator, OperatorContext, Out, RowSpec
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.hashing import hash_keys
from rheos.core.protocol.polars_frames import polars_frame

COUNTED, HEAVIEST = "rows_counted", "heaviest_key"
"""Counters of the operator: rows that it counted, and those of its heaviest key."""
DISTINCT = "distinct_"
"""Start of the names of counters of different keys, before the binary logarithm of a number of rows."""

_EVERY = 8
"""Ratio of all batches to those that are counted."""
_MAX_KEYS = 50_000
"""Maximum number of keys that are counted."""
_HASHES = 1 << 14
"""Number of kept hashes; the standard error is the inverse of its root, 0.8 %."""
_FIRST_LEVEL = 8
"""Binary logarithm of the smallest number of rows whose different keys are counted."""


class KeyCounter:
    """Counts of keys, in bounded memory. If there are too many, the lightest half is dropped, so that
    counts of heavy keys are slightly too small."""

    def __init__(self, max_keys: int = _MAX_KEYS) -> None:
        self._counts: dict[tuple[object, ...], int] = {}
        self._max_keys = max_keys
        self.rows = 0

    def add(self, keys: pl.DataFrame) -> None:
        counted = keys.group_by(pl.all()).len("__count")
        for *key, count in counted.iter_rows():
            kept = tuple(key)
            self._counts[kept] = self._counts.get(kept, 0) + count
        self.rows += keys.height
        if len(self._counts) > self._max_keys:
            heavy = sorted(self._counts.items(), key=lambda item: item[1], reverse=True)
            self._counts = dict(heavy[: self._max_keys // 2])

    @property
    def heaviest(self) -> int:
        return max(self._counts.values(), default=0)


class DistinctKeys:
    """Number of different keys among the first 2**n rows, for each n, in bounded memory."""

    def __init__(self, hashes: int = _HASHES) -> None:
        self._most = hashes
        self._least = np.empty(0, np.uint64)
        self._rows = 0
        self._level = _FIRST_LEVEL

    def add(self, hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
        """Add the hashes of rows. Yield n and the number of keys for each n that they reach."""
        while len(hashes):
            part, hashes = np.split(hashes, [(1 << self._level) - self._rows])
            self._rows += len(part)
            self._keep(part)
            if self._rows == 1 << self._level:
                yield self._level, self.count
                self._level += 1

    @property
    def count(self) -> int:
        if len(self._least) < self._most:
            return len(self._least)
        return round((self._most - 1) * 2.0**64 / (float(self._least[-1]) + 1))

    def _keep(self, hashes: npt.NDArray[np.uint64]) -> None:
        if len(self._least) == self._most:
            hashes = hashes[hashes < self._least[-1]]
        if len(hashes):
            self._least = np.unique(np.concatenate([self._least, hashes]))[: self._most]


@dataclass(frozen=True)
class KeyCountSpec(RowSpec):
    """Passes all rows on, and counts the keys of some."""

    kind: ClassVar[str] = "key_count"
    keeps_changes: ClassVar[bool] = True
    keeps_splits: ClassVar[bool] = True

    keys: tuple[str, ...]

    def operator(self, ctx: OperatorContext) -> Operator:
        return KeyCountOperator(ctx, self)

    @property
    def takes_changes(self) -> bool:
        return True

    def summary(self) -> str:
        return f"counts keys of {', '.join(self.keys)}"


class KeyCountOperator(Operator):
    """Counts the different keys of all batches, and the rows of each key of every eighth batch,
    beginning with the first one."""

    def __init__(self, ctx: OperatorContext, spec: KeyCountSpec) -> None:
        super().__init__(ctx)
        self._keys = list(spec.keys)
        self._counter = KeyCounter()
        self._distinct = DistinctKeys()
        self._batches = 0

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows:
            hashes = hash_keys([batch.column(key) for key in self._keys])
            for level, keys in self._distinct.add(hashes):
                self.ctx.count(f"{DISTINCT}{level}", keys)
        if batch.num_rows and self._batches % _EVERY == 0:
            before = self._counter.heaviest
            self._counter.add(polars_frame(batch.select(self._keys)))
            self.ctx.count(COUNTED, batch.num_rows)
            self.ctx.count(HEAVIEST, max(0, self._counter.heaviest - before))
        self._batches += 1
        yield Out(batch)
