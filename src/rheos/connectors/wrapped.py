"""Sources and readers around others: the contract is the inner one's, but for what a subclass says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.errors import RheosError
from rheos.core.times import TimeColumn


@dataclass(frozen=True, eq=False)
class WrappedSource(Source):
    """Base of sources that watch or change how another is read: frozen dataclasses, too."""

    source: Source

    def __post_init__(self) -> None:
        for name in (
            *("schema", "bounded", "discovery_ms", "discovery_phase"),
            *("forget_ms", "event_time_behind"),
        ):
            object.__setattr__(self, name, getattr(self.source, name))

    def staged(self, folder: str) -> Source:
        return replace(self, source=self.source.staged(folder))

    def released(self) -> None:
        self.source.released()

    def as_of_now(self) -> Source:
        return replace(self, source=self.source.as_of_now())

    def only_reader(self) -> str | None:
        return self.source.only_reader()

    def lost_by_failure(self) -> str | None:
        return self.source.lost_by_failure()

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def discover(self) -> Iterable[Split]:
        return self.source.discover()

    def nothing_found(self) -> RheosError | None:
        return self.source.nothing_found()

    def made_ms(self, split: Split) -> int | None:
        return self.source.made_ms(split)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        return self.source.open(split, position, ctx)

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return self.source.client(ctx)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        return self.source.resumed(splits, known)

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        return self.source.earliest_ms(split, on)

    def endless(self, split: Split) -> bool:
        return self.source.endless(split)

    def record_class(self) -> type | None:
        return self.source.record_class()

    def unpaced(self) -> Source:
        return replace(self, source=self.source.unpaced())

    def rejected_schema(self) -> pa.Schema | None:
        return self.source.rejected_schema()

    def positions(self) -> str:
        return self.source.positions()

    def describe(self) -> str:
        return self.source.describe()


class WrappedReader(SplitReader):
    """Base of readers that watch or change what another gives: a subclass says `poll`. How far it lags
    behind, and where its rows lie, is not passed on, as not every row of the inner one need count."""

    def __init__(self, reader: SplitReader) -> None:
        self._reader = reader

    def position(self) -> bytes:
        return self._reader.position()

    def has_caught_up(self) -> bool:
        return self._reader.has_caught_up()

    def close(self) -> None:
        self._reader.close()
