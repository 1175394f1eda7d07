"""The connector contract: a source of replayable splits, or a sink with two phases.

`Source` and `Sink` are frozen, picklable descriptions of what the user configured. The worker creates
the running readers, writers and committers from them.

The data alone determines how a source is divided into *splits*, never the parallelism. Watermarks are
generated per split and decide lateness, so the division affects the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Clock, IoExecutor
from rheos.core.protocol.splits import Split as Split
from rheos.core.redaction import RedactedRepr


@dataclass(frozen=True, slots=True)
class Pending:
    """A poll result: no rows are available now.

    `wake_after_us` is the time after which to poll again. None means that the completion of I/O will
    wake the mailbox.
    """

    wake_after_us: int | None = None


@dataclass(frozen=True, slots=True)
class TimeReached:
    """A poll result without rows that advances the split's event time, as a row with this time would.

    It lets the split's watermark advance while only other splits have rows.
    """

    event_time_ms: int


@dataclass(frozen=True, slots=True)
class EndOfSplit:
    """A poll result: the split has been read to its end."""


Polled: TypeAlias = Batch | Pending | TimeReached | EndOfSplit


class RowPlaces(msgspec.Struct, frozen=True, array_like=True):
    """Positions of rows in their split, in the source's own unit, at which a user can find the rows."""

    unit: str
    """Unit of the positions, such as `offset` or `line`."""
    of_rows: Sequence[int | str]
    """Position of each row. Several rows may have the same position."""


@dataclass(slots=True)
class ReaderContext:
    """The environment of a reader or a client."""

    clock: Clock
    io: IoExecutor
    count: Callable[[str, int], None]
    """Function that adds to a named counter of the operator, such as `skipped`."""
    reject: Callable[[Batch], None]
    """Function that routes rows to the source's side output of rejected rows, if it has one."""
    wake: Callable[[], None]
    """Function that notifies the engine that rows are available, so that it polls the readers soon. Any
    thread may call it at any time. Readers that use it return `Pending()`. The batch runtime polls
    often and ignores it."""
    client: SourceClient | None = None
    """The client of this subtask (`SharesClient`); None in the context of a client itself."""


class SourceClient(ABC):
    """A client that the readers of one subtask share, such as one connection for all of their splits.

    If a reader is not polled, the client must pause it, so that its buffered data is bounded. The
    readers of other splits continue.
    """

    def completed(self, positions: Mapping[str, bytes]) -> None:
        """Handle the notification that a checkpoint is in the log.

        The notification serves external observers; reading does not depend on it.

        The runtime calls this on the I/O executor, one call at a time, with positions that only rise.
        If several notifications are due, it sends only the newest. If that call has not returned, the
        runtime repeats it before `close`. If the method raises an error, the runtime counts it
        (`notices_failed`).

        Args:
            positions: The positions of the subtask's splits in the checkpoint, by split id. Splits that
                were never opened are missing.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the client. Called once, after all readers of the subtask are closed, also after an
        error. It may wait for a few seconds at most."""


class SplitReader(ABC):
    """A reader of one split. The mailbox calls its methods; none of them blocks.

    `capabilities.py` lists optional members of a reader: its lag, the coordinates of its rows, and
    whether it has caught up.
    """

    @abstractmethod
    def poll(self, max_rows: int) -> Polled:
        """Return the next rows, or the reason why there are none.

        After `EndOfSplit` the reader is not polled again.

        Args:
            max_rows: Maximum number of rows.

        Returns:
            A batch of the source's schema; without rows, records were read and none of them counts.
            `TimeReached` means that the split's event time has advanced without rows.

        Raises:
            InputError: A record is invalid. The error has the file, the row and a hint.
        """

    @abstractmethod
    def position(self) -> bytes:
        """Return the current position. A reader opened there returns exactly the rows that `poll` has
        not returned."""

    def close(self) -> None:
        """Release all resources of the reader. Called once, also after an error."""


class Source(RedactedRepr, ABC):
    """A frozen, picklable description of the origin of rows. It lists splits, and opens each.

    `capabilities.py` lists optional members of a source, such as the discovery of splits at run time.
    """

    schema: pa.Schema
    """Columns of the rows; known when the program is built."""

    bounded: bool
    """Whether all splits end."""

    @abstractmethod
    def splits(self) -> Sequence[Split]:
        """Return all splits, in a stable order. Called on the driver before the job runs.

        Raises:
            InputError: the input is missing.
        """

    @abstractmethod
    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        """Return a reader of a split.

        Args:
            split: The split.
            position: The position that a reader of the split returned; None for its beginning.
            ctx: The environment of the reader.

        Returns:
            The reader.
        """

    def positions(self) -> str:
        """Return a short name of the kind of splits and positions. A job cannot continue from positions
        of another kind."""
        return type(self).__qualname__

    def describe(self) -> str:
        """Return a short description for `explain` and the status."""
        return type(self).__name__


@dataclass(slots=True)
class SinkContext:
    """The environment of a sink writer."""

    job: JobId
    """Id of the job. Other jobs have other ids, even a fork of the same name."""
    attempt: Attempt
    operator: str
    """Id of the operator. It distinguishes the sinks of a job."""
    subtask: int
    clock: Clock
    io: IoExecutor
    schema: pa.Schema
    """Visible columns of the rows to write."""
    name: str = ""
    """Name of the operator, for people."""
    count: Callable[[str, int], None] = lambda name, by: None
    """Function that adds to a named counter of the operator, such as `retries`. It counts only in the
    writer's process."""


class SinkWriter(ABC):
    """A writer of one subtask's rows, in epochs that checkpoints delimit.

    `sink_capabilities.py` lists optional members of a sink, a writer and a committer.
    """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write rows. The writer may buffer a bounded amount.

        Called in the mailbox: while this call waits, the whole subtask waits.

        Args:
            batch: At least one row, with the context's schema.
        """

    @abstractmethod
    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        """Stage durably all rows written so far.

        Called in the mailbox at each barrier, even if nothing was written since the previous one.

        Args:
            checkpoint: Id of the checkpoint.

        Returns:
            What a committer needs to publish the rows. Rheos keeps it until the committer has committed
            it.
        """

    def close(self) -> None:
        """Drop all rows that were not prepared, so that no partial output remains. Called once."""


class Committer(RedactedRepr, ABC):
    """A committer of rows that writers have staged. It runs on the I/O executor, and on the driver
    during recovery."""

    @abstractmethod
    def commit(self, committables: Sequence[bytes]) -> None:
        """Publish staged rows. Committing the same committables again has no effect.

        After an error, Rheos retries the call.

        Args:
            committables: The results of `SinkWriter.prepare`.
        """

    @abstractmethod
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """Remove what earlier attempts of the job have staged.

        The driver calls this before an attempt starts, after the recovery commit.

        Args:
            job: The job.
            before: The attempt that starts; those before it are stale.
            keep: Committables that stay staged.
        """


class Sink(RedactedRepr, ABC):
    """A frozen, picklable description of the target of rows."""

    @abstractmethod
    def open(self, ctx: SinkContext) -> SinkWriter:
        """Return the writer of one subtask in one attempt. Called in the mailbox, before the first row.

        Args:
            ctx: The environment of the writer.

        Returns:
            The writer.
        """

    def committer(self) -> Committer | None:
        """Return a new committer for what any writer of the sink has prepared; None for a sink without
        a second phase."""
        return None

    def validate(self, schema: pa.Schema) -> None:
        """Check that rows of the schema can be written. Called when the program is built.

        Args:
            schema: The columns of the rows.

        Raises:
            ProgramError: The schema cannot be written.
            ConfigurationError: The target is not writable.
        """

    def describe(self) -> str:
        """Return a short description for `explain` and the status."""
        return type(self).__name__
