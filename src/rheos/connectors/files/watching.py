"""Watched folders: files are discovered while the job runs, each once, when they are complete.

A file is discovered when two consecutive listings show the same size and time of change. Files that
exist when the job begins are read without this check. Names that begin with "." or "_", and unknown
extensions, are ignored, so a file that is renamed when it is complete is never read too early. If a
file's length changes between discovery and the end of reading, the source raises an error, and never
skips rows silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from rheos.connectors.files.listing import FileToRead, ListedFile, list_watched, size_of
from rheos.connectors.files.source import FileSource
from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    RowPlaces,
    Split,
    SplitReader,
)
from rheos.core.errors import InputError
from rheos.core.protocol.ports import Completion

Order: TypeAlias = Literal["name", "time"]


@dataclass(frozen=True)
class WatchedFiles(FileSource):
    """Source that `files.source(..., discover=...)` creates. It never ends, but each file does."""

    order: Order = "name"
    """Order in which the files of one listing are assigned and opened: by name, or by time of their
    last change."""
    bounded: bool = field(default=False, init=False)
    discovery_ms: int | None = 10_000
    forget_ms: int | None = None
    seen: SeenListings = field(default_factory=lambda: SeenListings(), compare=False, repr=False)

    def endless(self, split: Split) -> bool:
        return False

    def as_of_now(self) -> WatchedFiles:
        """Return a source of the files that the first listing finds."""
        return replace(self, discovery_ms=None)

    def made_ms(self, split: Split) -> int | None:
        return msgspec.msgpack.decode(split.payload, type=FileToRead).changed_ms

    def splits(self) -> Sequence[Split]:
        return self._splits_of(self.seen.first(self._listed()))

    def discover(self) -> Sequence[Split]:
        listed = self._listed()
        if self.forget_ms is not None:
            self.seen.forget_others(listed)
        return self._splits_of(self.seen.settled(listed))

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        for split in splits:
            before = _size_in(known[split.id]) if split.id in known else None
            now = _size_in(split.payload)
            if before is not None and before != now:
                raise _changed(split.id, before, now)
        return splits

    def _listed(self) -> list[ListedFile]:
        listed = list_watched(self.paths, self._word, self.compression)
        # An empty file has no rows, and may be about to get some.
        found = [each for each in listed if each.file.size_bytes != 0]
        if self.order == "name":
            return found
        for each in found:
            if each.changed_s is None:
                raise InputError(
                    f"the modification time of {each.file.path} is unknown",
                    hint='this kind of storage does not report modification times: use order="name"',
                )
        in_order = sorted(found, key=lambda each: (each.changed_s or 0.0, each.file.path))
        return in_order if self.forget_ms is None else list(map(_with_time, in_order))

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = super().open(split, position, ctx)
        file = msgspec.msgpack.decode(split.payload, type=FileToRead)
        # A checkpoint from before the folder was watched contains no size to check.
        return (
            reader
            if file.size_bytes is None or self._skips(file)
            else _CheckedReader(reader, file, ctx)
        )

    def positions(self) -> str:
        return FileSource.__qualname__

    def describe(self) -> str:
        return f"{super().describe()}, watched"


class SeenListings:
    """Listings that the driver remembers. They do not affect which files are discovered in the end.
    They only show which files are stable, and which have changed since discovery."""

    def __init__(self) -> None:
        self._before: dict[str, ListedFile] = {}
        self._found: dict[str, int | None] = {}
        """Sizes of the discovered files."""

    def first(self, listed: Sequence[ListedFile]) -> list[FileToRead]:
        """Return the files that exist when a job begins."""
        self._before = {each.file.path: each for each in listed}
        self._found = {each.file.path: each.file.size_bytes for each in listed}
        return [each.file for each in listed]

    def settled(self, listed: Sequence[ListedFile]) -> list[FileToRead]:
        """Return the files that have not changed since the last listing. Raises InputError if a
        discovered file has another length now."""
        before, self._before = self._before, {each.file.path: each for each in listed}
        for each in listed:
            path, size = each.file.path, each.file.size_bytes
            if self._found.get(path, size) != size:
                raise _changed(path, self._found[path], size)
        settled = [each.file for each in listed if before.get(each.file.path) == each]
        self._found.update({file.path: file.size_bytes for file in settled})
        return settled

    def forget_others(self, listed: Sequence[ListedFile]) -> None:
        """Forget files that do not exist any more."""
        there = {each.file.path for each in listed}
        self._found = {path: size for path, size in self._found.items() if path in there}

    def __reduce__(self) -> tuple[Any, ...]:
        return SeenListings, ()  # Only the driver uses its content.


class _CheckedReader(WrappedReader):
    """Reader that checks at the end of a file that its size is still the discovered one."""

    def __init__(self, reader: SplitReader, file: FileToRead, ctx: ReaderContext) -> None:
        super().__init__(reader)
        self._file = file
        self._ctx = ctx
        self._size: Completion[int | None] | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._size is None:
            polled = self._reader.poll(max_rows)
            if not isinstance(polled, EndOfSplit):
                return polled
            self._size = self._ctx.io.submit(partial(size_of, self._file.path))
        if not self._size.done():
            return Pending()
        size = self._size.result()
        if size is not None and size != self._file.size_bytes:
            raise _changed(self._file.path, self._file.size_bytes, size)
        return EndOfSplit()

    def places(self) -> RowPlaces | None:
        return capabilities.places(self._reader)


def _with_time(listed: ListedFile) -> ListedFile:
    assert listed.changed_s is not None
    changed_ms = int(listed.changed_s * 1000)
    return replace(listed, file=msgspec.structs.replace(listed.file, changed_ms=changed_ms))


def _size_in(payload: bytes) -> int | None:
    return msgspec.msgpack.decode(payload, type=FileToRead).size_bytes


def _changed(path: str, before: int | None, size: int | None) -> InputError:
    return InputError(
        f"{path} had {before} bytes when it was found, but has {size} now: appended or "
        "overwritten data is not read",
        hint="write the file under a temporary name that begins with a dot, and rename it when it "
        "is complete; never reuse a name",
    )
