"""Source of the rows of one version of a table, and then of its changes.

The table has one split, because only the rows of a split are in order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import msgspec
import pyarrow as pa

from rheos.connectors.table_log.change_feed import ChangeLog, ChangePosition, ChangesReader, FeedColumns
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.errors import ProgramError


class ChangeBounds(msgspec.Struct, frozen=True, array_like=True):
    """Payload of the split: the first version, and the last one of a source with an end."""

    begin: int
    end: int | None


@dataclass(frozen=True, kw_only=True)
class TableChanges(Source):
    """Source of the changes of a table with a log."""

    format: ClassVar[str]
    """Name of the format for people, such as "Delta"."""
    version_name: ClassVar[str]
    """Name of a version in the format, such as "snapshot"."""

    name: str
    """Name of the table for people."""
    rows: FeedColumns
    bounds: ChangeBounds
    snapshot: bool
    """Whether the rows of the first version come first."""
    look_every_ms: int
    record: type | None = None
    until: int | None = None
    """Version at which a run that is limited to the present has caught up."""

    @abstractmethod
    def log(self) -> ChangeLog:
        """Return the log for one reader. Makes no request."""

    @abstractmethod
    def newest(self) -> int:
        """Return the newest version. Raises ConfigurationError."""

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.bounds.end is not None

    def record_class(self) -> type | None:
        return self.record

    def as_of_now(self) -> Self:
        return self if self.bounded else replace(self, until=self.newest())

    def reading(self, columns: frozenset[str]) -> Self | None:
        kept = self.rows.reading(columns)
        return None if kept.schema.names == self.schema.names else replace(self, rows=kept)

    def splits(self) -> Sequence[Split]:
        return [Split("changes", msgspec.msgpack.encode(self.bounds))]

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return the known split, which keeps its bounds."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        bounds = msgspec.msgpack.decode(split.payload, type=ChangeBounds)
        if position is not None:
            at = msgspec.msgpack.decode(position, type=ChangePosition)
        elif self.snapshot:
            at = ChangePosition(bounds.begin, True)
        else:
            at = ChangePosition.after(bounds.begin)
        return ChangesReader(
            self.log(),
            self.rows,
            at,
            ctx,
            look_every_ms=self.look_every_ms,
            end=bounds.end,
            until=self.until,
        )

    def describe(self) -> str:
        first = "rows and changes" if self.snapshot else "changes"
        begin = f"{self.version_name} {self.bounds.begin}"
        return f"{first} of the {self.format} table {self.name} from {begin} on"


def check_end(end: object) -> None:
    """Raise ProgramError if the argument `end` is not known."""
    if end not in (None, "now"):
        raise ProgramError(f"end={end!r} is not known", hint='write end="now", or leave it out')


def without_metadata(wanted: pa.Schema, metadata: Sequence[str]) -> pa.Schema:
    """Return the declared columns of the table itself."""
    return pa.schema([each for each in wanted if each.name not in metadata])
