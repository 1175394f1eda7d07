"""Epochs that are written but not committed: their records are in files next to the job's checkpoints.

The staging folder of a sink contains

    <attempt>/<writer>-<number>.arrow      an epoch's records: an Arrow stream; the committable
                                           contains a checksum per block
    <attempt>/<writer>-<checkpoint>.done   the note: the writer's epochs up to this are committed

A writer's name is never used twice. A file of records is deleted when its epoch is noted (KS8).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.kafka.cluster import is_topic_name
from rheos.connectors.staged_files import StagedFileWriter, StagedRowsFile, read_staged
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt

_WRITER = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,240}")
_NOTE = re.compile(r"(.+)-(\d+)\.done")


class MissingRecordsError(UnrestorableError):
    """Raised if an epoch's file is missing: another committer may have committed and removed it."""


class StagedEpoch(msgspec.Struct, frozen=True):
    """Committable: the records that one writer staged at the barrier of one checkpoint."""

    writer: str
    """Transactional id and group of the writer."""
    topic: str
    attempt: int
    checkpoint: int
    number: int
    """Number of the writer's file."""
    records: int
    """Number of records. Without records there is no file."""
    size_bytes: int
    checksums: bytes

    @property
    def path(self) -> str:
        """Return the file's path, relative to the staging folder."""
        return f"{self.attempt}/{self.writer}-{self.number}.arrow"

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


_decoder = msgspec.msgpack.Decoder(StagedEpoch)


def decode_epoch(committable: bytes) -> StagedEpoch:
    """Decode a committable. Raises UnrestorableError if it is damaged, or contains a path or topic that
    Rheos would not write (KS9)."""
    try:
        epoch = _decoder.decode(committable)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if _WRITER.fullmatch(epoch.writer) is None or not is_topic_name(epoch.topic):
        raise _damaged(f"the writer is {epoch.writer!r} and the topic {epoch.topic!r}")
    if min(epoch.attempt, epoch.number, epoch.records, epoch.checkpoint - 1) < 0:
        raise _damaged(f"it has {epoch.records} records of checkpoint {epoch.checkpoint}")
    return epoch


def _damaged(why: str) -> UnrestorableError:
    return UnrestorableError(
        f"the checkpoint's list of staged rows is damaged: {why}",
        hint="restore the job's checkpoint directory from a copy, or start it from a savepoint",
    )


class EpochStaging:
    """Writes the epochs of one writer, each to a file."""

    def __init__(self, url: str, writer: str, topic: str, attempt: Attempt) -> None:
        self._file = StagedFileWriter(SinkFolder(url))
        self._begin = StagedEpoch(writer, topic, attempt, 0, 0, 0, 0, b"")

    def write(self, batch: Batch) -> None:
        """Append records. Raises OSError if the folder is not writable."""
        self._file.write(self._begin.path, batch)

    def finish(self, checkpoint: int) -> StagedEpoch:
        """Make the written records durable as the checkpoint's epoch. Raises OSError."""
        epoch = msgspec.structs.replace(self._begin, checkpoint=checkpoint)
        if not self._file.is_open:
            return epoch
        file = self._file.finish()
        self._begin = msgspec.structs.replace(self._begin, number=epoch.number + 1)
        return msgspec.structs.replace(
            epoch, records=file.rows, size_bytes=file.size_bytes, checksums=file.checksums
        )

    def abandon(self) -> None:
        """Remove the file that is not finished."""
        self._file.abandon()


class StagedEpochs:
    """The staging folder of a sink, for committers."""

    def __init__(self, url: str) -> None:
        self._folder = SinkFolder(url)

    def batches(self, epoch: StagedEpoch) -> Iterator[Batch]:
        """Yield the records; each block is checked before it is decoded. Raises UnrestorableError if
        they are damaged, and MissingRecordsError if the file does not exist."""
        if not epoch.records:
            return
        file = StagedRowsFile(epoch.path, epoch.records, epoch.size_bytes, epoch.checksums)
        try:
            yield from read_staged(self._folder, file)
        except FileNotFoundError as error:
            raise self._lost_error(epoch, "the file does not exist", MissingRecordsError) from error
        except (OSError, pa.ArrowInvalid) as error:
            raise self._lost_error(epoch, str(error)) from error

    def _lost_error(
        self, epoch: StagedEpoch, why: str, kind: type[UnrestorableError] = UnrestorableError
    ) -> UnrestorableError:
        return kind(
            f"{epoch.records} records that were staged for checkpoint {epoch.checkpoint} cannot be "
            f"read, and are not in the topic {epoch.topic!r}: {self._folder.path(epoch.path)}: {why}",
            hint="check whether something deleted or changed files in the checkpoint directory "
            "while the job ran; restore the file, or start the job from an earlier savepoint",
        )

    def noted(self, of: StagedEpoch) -> int:
        """Return the newest committed epoch according to the writer's note; 0 without a note."""
        notes = map(_NOTE.fullmatch, self._folder.names(str(of.attempt)))
        return max((int(note[2]) for note in notes if note and note[1] == of.writer), default=0)

    def settle(self, epoch: StagedEpoch, noted: int) -> None:
        """Note that the epoch is committed, then remove its staged records. `noted` is the number in
        the current note."""
        if epoch.checkpoint > noted:
            self._folder.create(_note(epoch, epoch.checkpoint)).close()
            if noted:
                self._folder.remove(_note(epoch, noted))
        if epoch.records:
            self._folder.remove(epoch.path)

    def clear(self, before: Attempt, keep: Sequence[StagedEpoch]) -> None:
        """Remove what attempts before `before` have staged, except for the writers of `keep`, whose
        notes tell which epochs are committed."""
        writers = {epoch.writer for epoch in keep}
        for attempt in self._folder.names(""):
            if not attempt.isdigit() or int(attempt) >= before:
                continue
            for name in self._folder.names(attempt):
                if name.rpartition("-")[0] not in writers:
                    self._folder.remove(posixpath.join(attempt, name))
            self._folder.remove_if_empty(attempt)


def _note(epoch: StagedEpoch, checkpoint: int) -> str:
    return f"{epoch.attempt}/{epoch.writer}-{checkpoint}.done"
