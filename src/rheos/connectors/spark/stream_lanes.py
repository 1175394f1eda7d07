"""Reading of staged micro-batches by workers: in lanes, each an endless split.

Every batch was distributed to the lanes when it was written, one file each, sorted by event time. A
lane's reader reads its files batch by batch; its position is the batch, and the row in the file. After
each batch it emits the latest event time of the *whole* batch. So before batch n, all lanes have
reached the same time, that of the earlier batches: whether a row is late depends only on the batch in
which it arrived.

    batch        0              1                 2
    lane 0   12:01 12:05  |  12:07         |  (none)        each lane is at 12:07 after batch 1,
    lane 1   12:02        |  12:03 12:04   |  12:08         and 12:03 is late if the bound is 1 min
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec
import pyarrow as pa

from rheos.connectors.spark.staging import file_at, open_staged
from rheos.connectors.spark.staging_manifest import Manifest, StagedFile
from rheos.connectors.spark.stream_folder import StreamFolder
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    SourceClient,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.errors import InputError, UnrestorableError
from rheos.core.protocol.ports import Completion, IoExecutor

_LOOK_AGAIN_US = 100_000
"""Interval at which a lane looks for the next batch."""
_CHECK_MS = 1_000
"""Interval at which the driver checks whether the query is alive."""


class RunningQuery(Protocol):
    """The query that runs alongside the job, on the driver."""

    def check(self) -> None: ...
    def end(self) -> None: ...


class _LanePosition(msgspec.Struct, frozen=True, array_like=True):
    batch: int
    inside: bytes | None
    """Position in the lane's file of the batch; None at its beginning."""


@dataclass(frozen=True)
class StagedStream(Source):
    """Batches of one query. The id of a lane begins with that of the query."""

    folder: str
    query: str
    schema: pa.Schema
    event_time: str | None
    lanes: int
    batches: int | None = None
    """Number of batches; None if more may follow."""
    running: RunningQuery | None = field(default=None, compare=False, repr=False)
    """The query; only on the driver."""
    bounded: bool = field(default=False, init=False)
    event_time_behind: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounded", self.batches is not None)
        object.__setattr__(self, "discovery_ms", None if self.bounded else _CHECK_MS)

    def splits(self) -> Sequence[Split]:
        payload = msgspec.msgpack.encode(self.folder)
        return [Split(f"{self.query}/{lane:05d}", payload) for lane in range(self.lanes)]

    def discover(self) -> Sequence[Split]:
        """Return the lanes, to which none is ever added, and check that the query is alive."""
        if self.running is not None:
            self.running.check()
        return self.splits()

    def released(self) -> None:
        if self.running is not None:
            self.running.end()

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        for id, payload in known.items():
            if id.rpartition("/")[0] != self.query:
                there = msgspec.msgpack.decode(payload, type=str)
                raise UnrestorableError(
                    "the checkpoint or savepoint has read part of another stream, which was "
                    f"staged in {there}, but this job's stream is in {self.folder}",
                    hint="staged rows belong to the name and the checkpoint directory of the job "
                    "that staged them: start the job with these",
                )
        return splits

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return None if self.bounded else _LaneMarks(StreamFolder(self.folder), ctx.io)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        at = _LanePosition(0, None)
        if position is not None:
            at = msgspec.msgpack.decode(position, type=_LanePosition)
        return _LaneReader(self, _lane_of(split.id), at, ctx)

    def __reduce__(self) -> tuple[object, ...]:
        kept = (self.folder, self.query, self.schema, self.event_time, self.lanes, self.batches)
        return StagedStream, kept

    def positions(self) -> str:
        return "a Spark stream"

    def describe(self) -> str:
        return "Spark stream"


def _lane_of(name: str) -> int:
    """Return the lane of a split, from its id."""
    return int(name.rpartition("/")[2])


def lane_of(file: StagedFile) -> int:
    """Return the lane of a batch's file: the number of the Spark partition that wrote it."""
    return int(file.name[:5])


class _LaneReader(SplitReader):
    def __init__(self, source: StagedStream, lane: int, at: _LanePosition, ctx: ReaderContext) -> None:
        self._source = source
        self._lane = lane
        self._number = at.batch
        self._inside = at.inside
        self._ctx = ctx
        self._folder = StreamFolder(source.folder)
        self._coming: Completion[Manifest | None] | None = None
        self._look_at_us: int | None = None
        self._is_first = True
        """Whether the reader has not looked for a batch yet."""
        self._file: SplitReader | None = None
        self._last_ms: int | None = None
        self._note_place()

    def poll(self, max_rows: int) -> Polled:
        if self._file is None:
            if self._number == self._source.batches:
                return EndOfSplit()
            manifest = self._find_manifest()
            if isinstance(manifest, Pending):
                return manifest
            if not self._open(manifest):
                return self._go_on()
        assert self._file is not None
        polled = self._file.poll(max_rows)
        return self._go_on() if isinstance(polled, EndOfSplit) else polled

    def _find_manifest(self) -> Manifest | Pending:
        now_us = self._ctx.clock.monotonic_us()
        if self._coming is None:
            if self._look_at_us is not None and now_us < self._look_at_us:
                return Pending(self._look_at_us - now_us)
            look = partial(_look, self._folder, self._number, is_first=self._is_first)
            self._coming = self._ctx.io.submit(look)
        if not self._coming.done():
            return Pending()
        manifest = self._coming.result()
        self._coming = None
        if manifest is None:
            self._is_first = False
            self._look_at_us = now_us + _LOOK_AGAIN_US
            return Pending(_LOOK_AGAIN_US)
        self._is_first, self._look_at_us = False, None
        return manifest

    def _open(self, manifest: Manifest) -> bool:
        """Open the lane's file of the batch; return False if the lane has no file in it."""
        self._last_ms = max((f.last_ms for f in manifest.files if f.last_ms is not None), default=None)
        own = [file for file in manifest.files if lane_of(file) == self._lane]
        assert len(own) < 2, (self._number, own)
        if not own:
            return False
        file = file_at(f"{self._folder.batch_url(self._number)}/{manifest.staging}", own[0])
        self._file = open_staged(file, self._source.schema, self._inside, self._ctx)
        return True

    def _go_on(self) -> Polled:
        """Continue with the next batch."""
        if self._file is not None:
            self._file.close()
        self._file = self._inside = None
        self._number += 1
        self._note_place()
        if self._last_ms is not None:
            return TimeReached(self._last_ms)
        return pa.RecordBatch.from_pylist([], schema=self._source.schema)

    def _note_place(self) -> None:
        """Record the lane's current batch, also at the beginning: an earlier mark may be lost, and the
        query would wait for it."""
        if isinstance(self._ctx.client, _LaneMarks):
            self._ctx.client.reached(self._lane, self._number)

    def position(self) -> bytes:
        inside = self._inside if self._file is None else self._file.position()
        return msgspec.msgpack.encode(_LanePosition(self._number, inside))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _look(folder: StreamFolder, number: int, *, is_first: bool) -> Manifest | None:
    """Return the batch if it exists. Raises InputError if it was removed, and UnrestorableError if it
    cannot appear, so that a reader never waits for a lost batch."""
    manifest = folder.batch(number)
    if manifest is not None or not is_first:
        return manifest
    numbers = folder.numbers()
    if any(other > number for other in numbers):
        manifest = folder.batch(number)  # It may have been staged in the meantime.
        if manifest is None:
            raise InputError(
                f"batch {number} of the stream is needed but was deleted: the oldest batch is "
                f"{min(n for n in numbers if n > number)}",
                hint="batches that the job has read are deleted after a while; rh.spark_stream(..., "
                'retain="1h") sets for how long a savepoint can be used',
            )
    elif number > max(numbers, default=-1) + 1:
        raise UnrestorableError(
            f"the job has read the batches of the stream before {number}, but the newest batch "
            f"in {folder.url} is {max(numbers, default=-1)}",
            hint="restore the folder from a copy",
        )
    return manifest


class _LaneMarks(SourceClient):
    """Records for the driver how far a subtask has read its lanes."""

    def __init__(self, folder: StreamFolder, io: IoExecutor) -> None:
        self._folder = folder
        self._io = io
        self._lock = threading.Lock()
        self._due: dict[int, int] = {}
        self._is_writing = False

    def reached(self, lane: int, number: int) -> None:
        """Record a lane's progress. Called in the mailbox; the newest value is written soon."""
        with self._lock:
            self._due[lane] = number
            if self._is_writing:
                return
            self._is_writing = True
        self._io.submit(self._write)

    def _write(self) -> None:
        while True:
            with self._lock:
                due, self._due = self._due, {}
                if not due:
                    self._is_writing = False
                    return
            try:
                for lane, number in due.items():
                    self._folder.mark("reached", lane, number)
            except BaseException:
                with self._lock:
                    self._due = due | self._due
                    self._is_writing = False
                raise

    def completed(self, positions: Mapping[str, bytes]) -> None:
        with self._lock:
            retry = bool(self._due) and not self._is_writing
            self._is_writing |= retry
        if retry:
            self._write()
        for id, position in positions.items():
            at = msgspec.msgpack.decode(position, type=_LanePosition)
            self._folder.mark("completed", _lane_of(id), at.batch)

    def close(self) -> None:
        """Do nothing: losing unwritten marks only makes the driver wait a little longer."""
