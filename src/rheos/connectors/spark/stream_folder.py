"""Where the micro-batches of a streaming DataFrame lie, beside the checkpoints of the job.

    <folder>/query/                       the checkpoint of Spark's query: how far its source is read
    <folder>/stream.json                  which query it is, and how its rows are cut; put once
    <folder>/batches/<number>/            a staging each, as that of a DataFrame (`staging.py`); a batch
                                          is there when its manifest is, and is never written again
    <folder>/reached/<lane>               the batch that the lane's reader has come to
    <folder>/completed/<lane>             the same as of the newest checkpoint in the job's log
    <folder>/whole.json                   how many batches there are, of a stream that has ended

Batches are numbered as Spark numbers them, from 0 on, without a gap. Those that no checkpoint needs go
from below; the newest stays, so that where the next one goes is always known. On `reached` and
`completed` nothing depends but how far Spark may be ahead, and what may be removed: one that cannot be
read is none.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Literal, TypeAlias, TypeVar
from uuid import uuid4

import msgspec

from rheos.connectors.files.remote import url_to_fs
from rheos.connectors.spark.staging_manifest import (
    Manifest,
    identity,
    put_if_absent,
    read_manifest,
    remove_leftovers,
    remove_whole,
)
from rheos.core.protocol.sealed import Sealed

FORMAT = 1

Mark: TypeAlias = Literal["reached", "completed"]

_NUMBER = re.compile(r"[0-9]{10}")
_MARK_BYTES = 20
_LOST = "restore it from a copy; without it the job cannot go on from its checkpoints"
_LATER = "start the job with the version that it was running with"

T = TypeVar("T")


class StreamNote(msgspec.Struct, frozen=True, kw_only=True):
    """What a job that is started again must find as it was."""

    of: str
    query: str
    """The id that Spark's query has for as long as its checkpoint is there."""
    schema: bytes
    event_time: str | None
    lanes: int
    available_now: bool


class _Whole(msgspec.Struct, frozen=True, kw_only=True):
    of: str
    query: str
    batches: int


_note_decoder: msgspec.json.Decoder[StreamNote] = msgspec.json.Decoder(StreamNote)
_whole_decoder: msgspec.json.Decoder[_Whole] = msgspec.json.Decoder(_Whole)


class StreamFolder:
    """For the driver, which writes batches, and for the workers, which read them. Any call may wait."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._system, self._root = url_to_fs(self.url)

    @property
    def query_url(self) -> str:
        """As Spark takes it."""
        if "file" in self._system.protocol:
            return f"file://{self._root}/query"
        scheme, _, rest = self.url.partition("://")
        return f"{'s3a' if scheme == 's3' else scheme}://{rest}/query"

    # --- what the stream is ---------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return identity(self._root)

    def note(self) -> StreamNote | None:
        """Raises UnrestorableError where it is damaged, or is that of another folder."""
        return self._sealed("stream.json", _note_decoder)

    def put_note(self, note: StreamNote) -> None:
        """Writes it, unless there is one."""
        self._seal("stream.json", note)

    def whole(self, query: str) -> int | None:
        """How many batches there are, once the stream has ended."""
        whole = self._sealed("whole.json", _whole_decoder)
        if whole is not None and whole.query != query:
            raise self._seal_of("whole.json").damaged("it is of another query")
        return None if whole is None else whole.batches

    def put_whole(self, query: str, batches: int) -> None:
        self._seal("whole.json", _Whole(of=self.identity, query=query, batches=batches))

    # --- batches --------------------------------------------------------------------------------------

    def batch_url(self, number: int) -> str:
        return f"{self.url}/batches/{number:010d}"

    def batch(self, number: int) -> Manifest | None:
        """None where it is not there. Raises UnrestorableError where it is damaged."""
        return read_manifest(self._system, self._batch(number))

    def numbers(self) -> list[int]:
        """Of the batches that are there, or begun, or not wholly removed."""
        self._system.invalidate_cache()
        try:
            found = self._system.ls(f"{self._root}/batches", detail=False)
        except FileNotFoundError:
            return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def clear(self, number: int, manifest: Manifest) -> None:
        """Removes what was written for the batch, and is not in it."""
        remove_leftovers(self._system, self._batch(number), manifest)

    def remove(self, number: int, manifest: Manifest) -> None:
        """The batch is read, and no checkpoint needs it."""
        remove_whole(self._system, self._batch(number), manifest)

    def _batch(self, number: int) -> str:
        return f"{self._root}/batches/{number:010d}"

    # --- how far it is read ---------------------------------------------------------------------------

    def mark(self, kind: Mark, lane: int, number: int) -> None:
        """Raises OSError."""
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
        """By lane; those that are not there, or are no numbers, are left out."""
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

    def _seal_of(self, name: str) -> Sealed:
        return Sealed(
            what=f"{self.url}/{name}", key="stream", newest=FORMAT, if_damaged=_LOST, if_later=_LATER
        )

    def _seal(self, name: str, content: StreamNote | _Whole) -> None:
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
