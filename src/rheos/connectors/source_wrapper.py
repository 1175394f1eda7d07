"""Base classes of sources and readers that wrap others and forward all other calls to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, datasets_of
from rheos.core.errors import RheosError
from rheos.core.times import TimeColumn


@dataclass(frozen=True, eq=False)
class WrappedSource(Source):
    """Base of sources that observe or change how another is read. Subclasses are frozen dataclasses."""

    source: Source

    def __post_init__(self) -> None:
        inner = self.source
        for name, value in {
            "schema": inner.schema,
            "bounded": inner.bounded,
            "discovery_ms": capabilities.discovery_ms(inner),
            "discovery_phase": capabilities.discovery_phase(inner),
            "forget_ms": capabilities.forget_ms(inner),
            "may_stop": capabilities.may_stop(inner),
            "orders_splits": capabilities.orders_splits(inner),
            "event_time_behind": capabilities.allows_event_time(inner),
        }.items():
            object.__setattr__(self, name, value)

    def staged(self, folder: str) -> Source:
        return replace(self, source=capabilities.staged(self.source, folder))

    def released(self) -> None:
        capabilities.release(self.source)

    def as_of_now(self) -> Source:
        return replace(self, source=capabilities.until_now(self.source))

    def only_reader(self) -> str | None:
        return capabilities.reads_alone(self.source)

    def lost_by_failure(self) -> str | None:
        return capabilities.lost_by_failure(self.source)

    def datasets(self) -> Sequence[Dataset]:
        return datasets_of(self.source)

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def discover(self) -> Iterable[Split]:
        return capabilities.discovered(self.source)

    def nothing_found(self) -> RheosError | None:
        return capabilities.nothing_found(self.source)

    def made_ms(self, split: Split) -> int | None:
        return capabilities.made_ms(self.source, split)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return self.source.open(split, position, ctx)

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return capabilities.shared_client(self.source, ctx)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        return capabilities.resumed(self.source, splits, known)

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        return capabilities.earliest_ms(self.source, split, on)

    def endless(self, split: Split) -> bool:
        return capabilities.is_endless(self.source, split)

    def read_after(self, split: Split) -> Sequence[str]:
        return sorted(capabilities.read_after(self.source, split))

    def record_class(self) -> type | None:
        return capabilities.record_class(self.source)

    def unpaced(self) -> Source:
        return replace(self, source=capabilities.unpaced(self.source))

    def rejected_schema(self) -> pa.Schema | None:
        return capabilities.rejected_schema_of(self.source)

    def positions(self) -> str:
        return self.source.positions()

    def describe(self) -> str:
        return self.source.describe()


class WrappedReader(SplitReader):
    """Base of readers that wrap another reader: a subclass defines `poll`. Lag and coordinates of rows
    are not forwarded, because some rows of the inner reader may not count."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    def position(self) -> bytes:
        return self._reader.position()

    def has_caught_up(self) -> bool:
        return capabilities.has_caught_up(self._reader)

    def stop_reason(self) -> str | None:
        return capabilities.stop_reason(self._reader)

    def close(self) -> None:
        self._reader.close()
