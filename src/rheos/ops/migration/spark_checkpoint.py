"""The positions and the watermark in a checkpoint folder of Structured Streaming.

    offsets/N      planned before batch N: its watermark, and the end offset of each source
    commits/N      written after batch N: the watermark of the next batch
    sources/S/N    file sources: the files of batch N; `N.compact` has those of all batches up to N

The last batch with a commit is the state of the query. Everything read is limited in size, and nothing
is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from rheos.connectors.files.listing import size_of
from rheos.connectors.urls import absolute
from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.ports import Store
from rheos.ops.migration.positions import KafkaOffsets, Positions, ReadFiles
from rheos.runtimes.host.stores import folder_exists, open_store

MAX_FILE_BYTES = 256 << 20
"""Maximum size of one log file. A list of ten million files is smaller."""
MAX_SOURCES = 1000

T = TypeVar("T")


class _BatchPlan(msgspec.Struct, frozen=True, rename="camel"):
    batch_watermark_ms: int = 0


class _BatchCommit(msgspec.Struct, frozen=True, rename="camel"):
    next_batch_watermark_ms: int = 0


class _FileEntry(msgspec.Struct, frozen=True):
    path: str


class _FileOffset(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    log_offset: int


@dataclass(frozen=True)
class SparkCheckpoint:
    """The last committed batch of a query."""

    folder: str
    batch: int
    positions: Sequence[Positions | str]
    """For each source its positions, or its offset as Spark wrote it if it is of another kind."""
    fired_ms: int
    """Watermark of the batch, in ms since the epoch: windows up to it were emitted. 0: none."""
    watermark_ms: int
    """Watermark of the next batch: the latest event time so far, less the delay. 0: none."""
    has_state: bool

    @property
    def progress_ms(self) -> int:
        """Watermark up to which the query has emitted windows, inclusive. Spark's is exclusive."""
        return self.fired_ms - 1 if self.fired_ms > 0 else MIN_TIMESTAMP_MS


def read_checkpoint(path: str) -> SparkCheckpoint:
    """Read the last committed batch of a checkpoint.

    Args:
        path: The folder that the query has as `checkpointLocation`, a path or a URL.

    Returns:
        The batch with its positions.

    Raises:
        ConfigurationError: The folder does not exist.
        CheckpointError: It is not the checkpoint of a query, no batch is committed, or a file is
            damaged or has an unknown version.
    """
    folder = absolute(path)
    if not folder_exists(folder):
        raise ConfigurationError(
            f"the checkpoint {path!r} does not exist",
            hint="pass the folder that the query has as checkpointLocation",
        )
    log = _Logs(open_store(folder, make=False), folder)
    planned, committed = log.numbers("offsets"), log.numbers("commits")
    if not planned:
        raise CheckpointError(
            f"{path!r} is not the checkpoint of a streaming query: it has no folder offsets/",
            hint="pass the folder that the query has as checkpointLocation",
        )
    both = sorted(set(planned) & set(committed))
    if not both:
        raise CheckpointError(
            f"the query of {path!r} has not completed a batch",
            hint="run the query until a batch is complete, stop it, and try again",
        )
    batch = both[-1]
    plan, *offsets = log.lines(f"offsets/{batch}")
    if len(offsets) > MAX_SOURCES:
        raise log.damaged(f"offsets/{batch}", f"it has more than {MAX_SOURCES} sources")
    commit = log.lines(f"commits/{batch}")[0]
    return SparkCheckpoint(
        folder=folder,
        batch=batch,
        positions=[_positions(log, source, offset) for source, offset in enumerate(offsets)],
        fired_ms=log.decoded(f"offsets/{batch}", plan, _BatchPlan).batch_watermark_ms,
        watermark_ms=log.decoded(f"commits/{batch}", commit, _BatchCommit).next_batch_watermark_ms,
        has_state=bool(log.store.list("state")),
    )


def _positions(log: _Logs, source: int, offset: str) -> Positions | str:
    data = offset.encode()
    try:
        last = msgspec.json.decode(data, type=_FileOffset).log_offset
    except msgspec.MsgspecError:
        pass
    else:
        return ReadFiles(_files_read(log, source, last))
    try:
        topics = msgspec.json.decode(data, type=dict[str, dict[str, int]])
        offsets = {(name, int(number)): at for name, of in topics.items() for number, at in of.items()}
    except (msgspec.MsgspecError, ValueError):
        return offset
    return KafkaOffsets(offsets)


def _files_read(log: _Logs, source: int, last: int) -> frozenset[str]:
    """Return the files of all batches of a file source's log up to `last`."""
    folder = f"sources/{source}"
    names = log.names(folder)
    compact = [int(name[: -len(".compact")]) for name in names if name.endswith(".compact")]
    since = max((number for number in compact if number <= last), default=-1)
    files = [f"{since}.compact"] if since >= 0 else []
    files += [str(number) for number in log.numbers(folder) if since < number <= last]
    return frozenset(
        log.decoded(f"{folder}/{name}", line, _FileEntry).path
        for name in files
        for line in log.lines(f"{folder}/{name}")
    )


@dataclass(frozen=True)
class _Logs:
    """The logs of a checkpoint: files with a version in their first line."""

    store: Store
    folder: str

    def names(self, folder: str) -> list[str]:
        names = [path.removeprefix(f"{folder}/") for path in self.store.list(folder)]
        return [name for name in names if "/" not in name]

    def numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self.names(folder) if name.isdecimal())

    def lines(self, path: str) -> list[str]:
        """Return the lines after that of the version, at least one."""
        self._check_size(path, size_of(f"{self.folder}/{path}"))
        try:
            data = self.store.get(path)
        except OSError as error:
            raise CheckpointError(f"{self.folder}/{path} cannot be read: {error}") from error
        # Some storage does not report sizes.
        self._check_size(path, len(data))
        try:
            version, *lines = data.decode().splitlines()
        except (UnicodeDecodeError, ValueError):
            raise self.damaged(path, "it has no text") from None
        if version != "v1":
            raise CheckpointError(
                f"{self.folder}/{path} has the version {version[:20]!r}, but only 'v1' is known",
                hint="a later Spark wrote it; use a later version of Rheos",
            )
        if not lines:
            raise self.damaged(path, "it has only one line")
        return lines

    def _check_size(self, path: str, size_bytes: int | None) -> None:
        if size_bytes is not None and size_bytes > MAX_FILE_BYTES:
            raise self.damaged(path, f"it has {size_bytes} bytes, more than {MAX_FILE_BYTES}")

    def decoded(self, path: str, line: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(line.encode(), type=kind)
        except msgspec.MsgspecError as error:
            raise self.damaged(path, str(error)) from None

    def damaged(self, path: str, why: str) -> CheckpointError:
        return CheckpointError(
            f"{self.folder}/{path} is damaged: {why}", hint="restore it from a copy of the checkpoint"
        )
