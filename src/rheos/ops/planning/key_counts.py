"""Counting of the heaviest key on an edge, by an operator that a sample's plan has in addition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from rheos.core.operators.contract import Operator, OperatorContext, Out, RowSpec
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.polars_frames import polars_frame

COUNTED, HEAVIEST = "rows_counted", "heaviest_key"
"""Counters of the operator: rows that it counted, and those of its heaviest key."""

_EVERY = 8
"""Ratio of all batches to those that are counted."""
_MAX_KEYS = 50_000
"""Maximum number of keys that are counted."""


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
    """Counts the keys of every eighth batch, beginning with the first one."""

    def __init__(self, ctx: OperatorContext, spec: KeyCountSpec) -> None:
        super().__init__(ctx)
        self._keys = list(spec.keys)
        self._counter = KeyCounter()
        self._batches = 0

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows and self._batches % _EVERY == 0:
            before = self._counter.heaviest
            self._counter.add(polars_frame(batch.select(self._keys)))
            self.ctx.count(COUNTED, batch.num_rows)
            self.ctx.count(HEAVIEST, max(0, self._counter.heaviest - before))
        self._batches += 1
        yield Out(batch)
