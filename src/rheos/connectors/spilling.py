"""Sinks that deliver rows immediately, at least once, and do not block the job if their target is down.

If the target is unavailable, the rows that it has not confirmed go to a file next to the job's
checkpoints, and so do all later rows. The file of an epoch is delivered once its checkpoint is
complete, with retries until it succeeds. When no older file is left, the writer delivers the rows that
it has staged since then, in order. After that it delivers rows immediately again.

delivering ──(UnavailableError)──> spilling ──(all earlier epochs are delivered)──> delivering

A sink that delivers exactly once stages all rows, and its delivery finds out which rows of an epoch an
earlier try has delivered.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeAlias, TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.outage_patience import Patience
from rheos.connectors.staged_files import (
    StagedFileWriter,
    StagedRowsFile,
    StagingRoom,
    read_staged,
    staging_error,
)
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

LOGGER = logging.getLogger("rheos.sinks")
SERVER_AWAY = "server_away"
Count: TypeAlias = Callable[[str, int], None]
T = TypeVar("T")

PATIENCE_MS = 1_000
"""Time in ms for which a writer retries before it stages its rows. A call that took longer is not
repeated."""
AHEAD_BYTES = 256 << 20
"""Maximum bytes staged while a commit runs or is retried, unless the commit itself is larger. At this
limit the writer accepts no more rows, and they wait."""
_TOGETHER_BYTES = 4 << 20
"""Size of the epochs that are delivered before they are recorded as delivered."""
_ARROW = ".arrow"
_FILE = re.compile(r"\d+/[0-9a-f]{12}-\d+\.arrow")
_DONE = ".done"


class TargetDelivery(ABC):
    """Delivers rows to a target, in order. It must not be used after it has raised an error."""

    settled_rows: int = 0
    """Number of rows that the target has confirmed; rows are confirmed in order."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Deliver rows, now or later. Raises UnavailableError once its retry budget is spent."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until the target has confirmed everything. Raises UnavailableError, too."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Rows that are not confirmed may be lost."""

    def begin_epoch(self, folder: SinkFolder, path: str) -> None:
        """Begin to deliver the rows of a staged file, some of which may have been delivered before.

        Args:
            folder: folder with the staged files, for notes of the delivery.
            path: path of the file. Names of its notes begin with this path and a dot.
        """

    def succeed(self, before: TargetDelivery) -> None:
        """Take over what the writer's previous delivery knows about the target."""


@dataclass(frozen=True)
class SpillingSink(Sink):
    """Sink that delivers rows immediately, and stages them while its target is down."""

    retry_for_ms: int
    """Time for which the driver retries an unavailable target. The driver has no other retries."""
    folder: str = field(default="", kw_only=True, repr=False)
    """Folder in which rows are staged; empty until a runtime has set it."""

    @property
    def stages_all(self) -> bool:
        """Return whether rows are delivered only after their checkpoint is complete."""
        return False

    def asked(self, ask: Callable[[], T], close: Callable[[], None], logger: logging.Logger) -> T:
        """Return what the target answers to the driver, which retries for `retry_for_ms`.

        Args:
            ask: asks the target; repeated after an UnavailableError.
            close: closes the connection, also after an error.
            logger: receives the reason of an outage.
        """
        try:
            return Patience(self.retry_for_ms, lambda: None, logger).ask(ask)
        finally:
            close()

    @abstractmethod
    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        """Return a new delivery of rows of the schema. It makes no connection yet.

        Args:
            schema: the visible columns of the rows.
            count: adds to a named counter of the operator.
            patience_ms: how long an unavailable target is retried in place.
        """

    def staged(self, folder: str) -> Self:
        return replace(self, folder=folder)

    def open(self, ctx: SinkContext) -> SinkWriter:
        return SpillingWriter(self, ctx)

    def committer(self) -> Committer | None:
        return SpilledCommitter(self) if self.folder else None


class SpilledEpoch(msgspec.Struct, frozen=True):
    """Committable: the rows that one writer staged at the barrier of one checkpoint."""

    attempt: int
    checkpoint: int
    file: StagedRowsFile
    size_bytes: int
    """Size of the rows in memory."""

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


_decoder = msgspec.msgpack.Decoder(SpilledEpoch)


def decode_spilled(committable: bytes) -> SpilledEpoch:
    """Decode a committable. Raises UnrestorableError if it is damaged, or contains a path that no
    writer creates."""
    try:
        epoch = _decoder.decode(committable)
        if _FILE.fullmatch(epoch.file.path) is None or epoch.file.rows <= 0:
            raise ValueError(f"it has the file {epoch.file.path!r} with {epoch.file.rows} rows")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnrestorableError(
            f"the checkpoint's list of staged rows is damaged: {error}",
            hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
        ) from error
    return epoch


class SpillingWriter(SinkWriter):
    """Writer that delivers rows, or stages them while the target is down."""

    def __init__(self, sink: SpillingSink, ctx: SinkContext) -> None:
        self._sink = sink
        self._ctx = ctx
        self._name = uuid4().hex[:12]
        self._delivery = self._new_delivery()
        self._unsettled: list[Batch] = []
        self._settled_rows = 0
        """Number of rows that are confirmed and were removed from `_unsettled`."""
        self._file: StagedFileWriter | None = None
        """Writer of staged rows while the target is down; None while rows are delivered."""
        self._number = 0
        self._epoch_bytes = 0
        self._staged_bytes = 0
        self._waiting: set[int] = set()
        """Checkpoints of staged epochs that were not committed at the last barrier."""
        self._room = StagingRoom(AHEAD_BYTES)
        self._committer = OwnSpilledCommitter(sink, self._room) if sink.folder else None
        if sink.stages_all:
            self._file = StagedFileWriter(SinkFolder(sink.folder))

    def committer(self) -> Committer | None:
        return self._committer

    def has_room(self) -> bool:
        return self._file is None or self._room.has_room(self._staged_bytes)

    def write(self, batch: Batch) -> None:
        if self._file is not None:
            self._spill(batch)
            return
        self._unsettled.append(batch)
        try:
            self._delivery.write(batch)
        except UnavailableError as error:
            self._begin_to_spill(error)
        else:
            self._forget_settled()

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if self._file is None:
            try:
                self._delivery.settle()
            except UnavailableError as error:
                self._begin_to_spill(error)
            else:
                self._forget_settled()
        committables: list[bytes] = []
        if self._file is not None:
            assert self._committer is not None
            for name, count in self._committer.counted().items():
                self._ctx.count(name, count)
            committed = set(self._committer.committed)
            self._waiting -= committed
            if self._sink.stages_all:
                self._committer.committed -= committed
            committables = self._end_epoch(checkpoint)
        return committables

    def close(self) -> None:
        if self._file is not None:
            self._file.abandon()
        self._delivery.close()

    def _forget_settled(self) -> None:
        while self._unsettled:
            left = self._settled_rows + self._unsettled[0].num_rows - self._delivery.settled_rows
            if left > 0:
                break
            self._settled_rows += self._unsettled.pop(0).num_rows

    def _begin_to_spill(self, error: UnavailableError) -> None:
        if self._committer is None:
            raise error from None
        LOGGER.warning("%s; staging rows in files until it is back", error.what)
        self._ctx.count(SERVER_AWAY, 1)
        SERVERS_AWAY.failed(self._committer, error.what)
        self._file = StagedFileWriter(SinkFolder(self._sink.folder))
        self._committer.committed.clear()
        unsettled, self._unsettled = self._unsettled, []
        for batch in unsettled:
            self._spill(batch)
        self._renew_delivery()

    def _renew_delivery(self) -> None:
        before, self._delivery = self._delivery, self._new_delivery()
        self._delivery.succeed(before)
        before.close()
        self._settled_rows = 0

    def _new_delivery(self) -> TargetDelivery:
        sink = self._sink
        patience_ms = min(PATIENCE_MS, sink.retry_for_ms) if sink.folder else sink.retry_for_ms
        return sink.delivery(self._ctx.schema, self._ctx.count, patience_ms)

    def _spill(self, batch: Batch) -> None:
        assert self._file is not None
        try:
            self._file.write(f"{self._ctx.attempt}/{self._name}-{self._number}.arrow", batch)
        except OSError as error:
            raise self._unwritable(error) from error
        self._epoch_bytes += batch.nbytes
        self._staged_bytes += batch.nbytes

    def _end_epoch(self, checkpoint: CheckpointId) -> list[bytes]:
        """Stage the file's rows as an epoch; or deliver them, if the target has all older rows."""
        assert self._file is not None
        assert self._committer is not None
        is_back = self._committer.committed and not self._waiting and not self._sink.stages_all
        if not self._file.is_open:
            if is_back:
                self._file = None
            return []
        try:
            file = self._file.finish()
        except OSError as error:
            raise self._unwritable(error) from error
        self._number += 1
        size_bytes, self._epoch_bytes = self._epoch_bytes, 0
        if is_back and self._deliver(file):
            self._staged_bytes -= size_bytes
            self._file = None
            return []
        self._waiting.add(checkpoint)
        return [SpilledEpoch(self._ctx.attempt, checkpoint, file, size_bytes).encoded()]

    def _deliver(self, file: StagedRowsFile) -> bool:
        """Deliver a file immediately. Return False if the target is down again."""
        folder = SinkFolder(self._sink.folder)
        try:
            for batch in read_staged(folder, file):
                self._delivery.write(batch)
                self._settled_rows += batch.num_rows
            self._delivery.settle()
        except UnavailableError:
            assert self._committer is not None
            self._committer.committed.clear()
            self._renew_delivery()
            return False
        except OSError as error:
            raise self._unwritable(error) from error
        with contextlib.suppress(OSError):  # The next attempt removes it.
            folder.remove(file.path)
        return True

    def _unwritable(self, error: OSError) -> CheckpointError:
        where = f"rows could not be staged in {self._sink.folder} while the target is unavailable"
        return staging_error(where, error, self._ctx.name)


class SpilledCommitter(Committer):
    """Committer that delivers staged rows. A note replaces the file of a delivered epoch."""

    for_outages: ClassVar[bool] = True

    def __init__(self, sink: SpillingSink, patience_ms: int | None = None) -> None:
        self._sink = sink
        self._patience_ms = sink.retry_for_ms if patience_ms is None else patience_ms
        self._counts: Counter[str] = Counter()

    def commit(self, committables: Sequence[bytes]) -> None:
        self._commit(list(map(decode_spilled, committables)))

    def _commit(self, epochs: Sequence[SpilledEpoch]) -> None:
        """Deliver epochs, the oldest first, some megabytes at a time."""
        group: list[SpilledEpoch] = []
        for epoch in sorted(epochs, key=lambda epoch: epoch.checkpoint):
            group.append(epoch)
            if sum(each.size_bytes for each in group) >= _TOGETHER_BYTES:
                self._deliver(group)
                group = []
        self._deliver(group)

    def _committed(self, epoch: SpilledEpoch) -> None:
        """Run after each committed epoch; subclasses override it."""

    def _deliver(self, epochs: Sequence[SpilledEpoch]) -> None:
        folder = SinkFolder(self._sink.folder)
        left = [epoch for epoch in epochs if not folder.exists(epoch.file.path + _DONE)]
        delivery: TargetDelivery | None = None
        try:
            for epoch in left:
                has_begun = False
                for batch in self._batches(folder, epoch):
                    if delivery is None:
                        delivery = self._sink.delivery(batch.schema, self._count, self._patience_ms)
                    if not has_begun:
                        delivery.begin_epoch(folder, epoch.file.path)
                        has_begun = True
                    delivery.write(batch)
            if delivery is not None:
                delivery.settle()
        finally:
            if delivery is not None:
                delivery.close()
        for epoch in left:
            folder.create(epoch.file.path + _DONE).close()
            folder.remove(epoch.file.path)
        for epoch in epochs:
            self._committed(epoch)

    def _batches(self, folder: SinkFolder, epoch: SpilledEpoch) -> Iterator[Batch]:
        path = epoch.file.path
        try:
            yield from read_staged(folder, epoch.file)
        except (OSError, pa.ArrowInvalid) as error:
            if folder.exists(path + _DONE):  # Another committer was faster.
                return
            raise UnrestorableError(
                f"{epoch.file.rows} rows that were staged for checkpoint {epoch.checkpoint} cannot be "
                f"read, and may not be in {self._sink.describe()}: {folder.path(path)}: {error}",
                hint="check whether something deleted or changed files in the checkpoint directory "
                "while the job ran; restore the file, or start the job from an earlier "
                "savepoint",
            ) from error

    def _count(self, name: str, by: int) -> None:
        self._counts[name] += by

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        folder = SinkFolder(self._sink.folder)
        kept = {decode_spilled(committable).file.path for committable in keep}
        for attempt in folder.names(""):
            if not attempt.isdigit() or int(attempt) >= before:
                continue
            for name in folder.names(attempt):
                path = posixpath.join(attempt, name)
                if path.partition(_ARROW)[0] + _ARROW not in kept:
                    folder.remove(path)
            folder.remove_if_empty(attempt)


class OwnSpilledCommitter(SpilledCommitter):
    """Committer of a task, for the epochs of its own writer. Its caller retries."""

    def __init__(self, sink: SpillingSink, room: StagingRoom) -> None:
        super().__init__(sink, patience_ms=0)
        self._room = room
        self.committed: set[int] = set()
        """Checkpoints of epochs that were committed since the target was last down."""

    def commit(self, committables: Sequence[bytes]) -> None:
        epochs = list(map(decode_spilled, committables))
        sizes = {epoch.checkpoint: epoch.size_bytes for epoch in epochs}
        self._room.begin(sizes)
        try:
            self._commit(epochs)
        except UnavailableError as error:
            SERVERS_AWAY.failed(self, error.what)
            raise
        self._room.end(sizes)

    def counted(self) -> Counter[str]:
        """Return the counts since the last call, and reset them."""
        counts, self._counts = self._counts, Counter()
        return counts

    def _committed(self, epoch: SpilledEpoch) -> None:
        self.committed.add(epoch.checkpoint)
        SERVERS_AWAY.answered(self)
