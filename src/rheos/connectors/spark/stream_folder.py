"""Folder with the micro-batches of a streaming DataFrame, next to the checkpoints of the job.

    <folder>/query/                       the checkpoint of Spark's query: its progress
    <folder>/stream.json                  identity of the query and division of its rows; written once
    <folder>/batches/<number>/            one staging per batch, as of a DataFrame (`staging.py`); a
                                          batch exists once its manifest does, and never changes
    <folder>/reached/<lane>               the current batch of the lane's reader
    <folder>/completed/<lane>             the same as of the newest checkpoint in the job's log
    <folder>/whole.json                   number of batches of a stream that has ended

Batches have Spark's numbers, from 0 on, without a gap. Batches that no checkpoint needs are removed,
lowest first; the newest remains, so that the next number is always known. `reached` and `completed`
only determine how far Spark may run ahead and what may be removed: a mark that cannot be read counts as
missing.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Literal, TypeAlias, TypeVar
from uuid import uuid4

import msgspec

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.spark.staging_manifest import (
    Manifest,
    identity,
    put_if_absent,
    read_manifest,
    remove_leftovers,
    remove_whole,
)
from rheos.core.protocol.sealed_files import SealedFileKind

FORMAT = 1

Mark: TypeAlias = Literal["reached", "completed"]

_NUMBER = re.compile(r"[0-9]{10}")
_MARK_BYTES = 20
_LOST = "restore it from a copy; without it the job cannot resume from its checkpoints"
_LATER = "start the job with the version of Rheos that it used before"

T = TypeVar("T")


class StreamNote(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the stream that a restarted job must find unchanged."""

    of: str
    query: str
    """Id that Spark's query keeps as long as its checkpoint exists."""
    schema: bytes
    event_time: str | None
    lanes: int
    available_now: bool


class _StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    of: str
    query: str
    batches: int


_note_decoder: msgspec.json.Decoder[StreamNote] = msgspec.json.Decoder(StreamNote)
_whole_decoder: msgspec.json.Decoder[_StreamEnd] = msgspec.json.Decoder(_StreamEnd)


class StreamFolder:
    """Folder of a stream. The driver writes batches to it, and workers read them. Calls may block."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._system, self._root = url_to_fs(self.url)

    @property
    def query_url(self) -> str:
        """Return the folder's address in Spark's form."""
        if "file" in self._system.protocol:
            return f"file://{self._root}/query"
        scheme, _, rest = self.url.partition("://")
        return f"{'s3a' if scheme == 's3' else scheme}://{rest}/query"

    # --- properties of the stream
    # ---------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return identity(self._root)

    def note(self) -> StreamNote | None:
        """Return the note, or None. Raises UnrestorableError if it is damaged or another folder's."""
        return self._sealed("stream.json", _note_decoder)

    def put_note(self, note: StreamNote) -> None:
        """Write the note, unless one exists."""
        self._seal("stream.json", note)

    def whole(self, query: str) -> int | None:
        """Return the number of batches, once the stream has ended."""
        whole = self._sealed("whole.json", _whole_decoder)
        if whole is not None and whole.query != query:
            raise self._seal_of("whole.json").damaged("it belongs to another query")
        return None if whole is None else whole.batches

    def put_whole(self, query: str, batches: int) -> None:
        self._seal("whole.json", _StreamEnd(of=self.identity, query=query, batches=batches))

    # --- batches --------------------------------------------------------------------------------------

    def batch_url(self, number: int) -> str:
        return f"{self.url}/batches/{number:010d}"

    def batch(self, number: int) -> Manifest | None:
        """Return the batch; None if it does not exist. Raises UnrestorableError if it is damaged."""
        return read_manifest(self._system, self._batch(number))

    def numbers(self) -> list[int]:
        """Return the numbers of batches that exist, were begun, or are not completely removed."""
        self._system.invalidate_cache()
        try:
            found = self._system.ls(f"{self._root}/batches", detail=False)
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def clear(self, number: int, manifest: Manifest) -> None:
        """Remove files that were written for the batch but are not part of it."""
        remove_leftovers(self._system, self._batch(number), manifest)

    def remove(self, number: int, manifest: Manifest) -> None:
        """Remove a batch that is read, and that no checkpoint needs."""
        remove_whole(self._system, self._batch(number), manifest)

    def _batch(self, number: int) -> str:
        return f"{self._root}/batches/{number:010d}"

    # --- progress of readers
    # --------------------------------------------------------------------------------

    def mark(self, kind: Mark, lane: int, number: int) -> None:
        """Write a lane's mark. Raises OSError."""
        folder = f"{self._root}/{kind}"
        path, data = f"{folder}/{lane:05d}", str(number).encode()
        if "file" not in self._system.protocol:
            self._system.pipe_file(path, data)
            return
        os.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/.{uuid4().hex}"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def marks(self, kind: Mark, lanes: int) -> dict[int, int]:
        """Return the marks by lane, without those that are missing or cannot be read."""
        found: dict[int, int] = {}
        for lane in range(lanes):
            with suppress(OSError, ValueError):
                data = self._system.cat_file(f"{self._root}/{kind}/{lane:05d}")
                if len(data) <= _MARK_BYTES and data.isdigit():
                    found[lane] = int(data)
        return found

    def unmark(self, kind: Mark, lanes: int) -> None:
        for lane in range(lanes):
            with suppress(FileNotFoundError):
                self._system.rm_file(f"{self._root}/{kind}/{lane:05d}")

    # --- sealed files ---------------------------------------------------------------------------------

    def _seal_of(self, name: str) -> SealedFileKind:
        return SealedFileKind(
            what=f"{self.url}/{name}", key="stream", newest=FORMAT, if_damaged=_LOST, if_later=_LATER
        )

    def _seal(self, name: str, content: StreamNote | _StreamEnd) -> None:
        self._system.makedirs(self._root, exist_ok=True)
        data = self._seal_of(name).seal(msgspec.json.encode(content), FORMAT)
        put_if_absent(self._system, f"{self._root}/{name}", data)

    def _sealed(self, name: str, decoder: msgspec.json.Decoder[T]) -> T | None:
        try:
            data = self._system.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        sealed = self._seal_of(name)
        content = sealed.decoded(sealed.open(data)[1], decoder)
        if (of := getattr(content, "of", None)) != self.identity:
            raise sealed.damaged(f"it belongs in {of!r}")
        return content
