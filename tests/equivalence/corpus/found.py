"""A source whose splits are discovered while the job runs; one without rows holds the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rheos.core.connectors.contract import Pending, Polled, ReaderContext, Source, Split, SplitReader

HOLDER = Split("holds the watermark")


@dataclass(frozen=True)
class FoundLate(Source):
    """Source with the same splits in reverse order, of which each listing discovers one more."""

    source: Source
    listings: list[None] = field(default_factory=list, compare=False)
    discovery_ms: int | None = 10
    bounded: bool = False

    @property
    def schema(self) -> pa.Schema:  # type: ignore[override]
        return self.source.schema

    def endless(self, split: Split) -> bool:
        return split == HOLDER

    def splits(self) -> Sequence[Split]:
        return [HOLDER]

    def discover(self) -> Sequence[Split]:
        self.listings.append(None)
        return list(self.source.splits())[-len(self.listings) :]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return _Silent() if split == HOLDER else self.source.open(split, position, ctx)

    def record_class(self) -> type | None:
        return self.source.record_class()


class _Silent(SplitReader):
    def poll(self, max_rows: int) -> Polled:
        return Pending()

    def position(self) -> bytes:
        return b""
