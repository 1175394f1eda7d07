"""The connector contract: a source of replayable splits, or a sink with two phases.

`Source` and `Sink` are frozen, picklable descriptions of what the user configured. Readers, writers
and committers are the running things, made from them on the worker.

A source is cut into *splits* by its data alone, never by the parallelism: watermarks are generated
per split and lateness is decided by them, so the cut is part of the result.
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


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing to read just now.

    `wake_after_us` says when to ask again, if nothing else happens; None means that an I/O
    completion will wake the mailbox.
    """

    wake_after_us: int | None = None


@dataclass(frozen=True, slots=True)
class TimeReached:
    """A poll result without rows that advances the split's event time, as a row with this time would.

    The watermark of the split so advances when other splits have rows and this one has none.
    """

    event_time_ms: int


@dataclass(frozen=True, slots=True)
class EndOfSplit:
    """The split is read to its end."""


Polled: TypeAlias = Batch | Pending | TimeReached | EndOfSplit


class RowPlaces(msgspec.Struct, frozen=True, array_like=True):
    """Positions of rows in their split, in the source's own unit. A user can find the rows there."""

    unit: str
    """Unit of the positions, such as `offset` or `line`."""
    of_rows: Sequence[int | str]
    """The position of each row. Several rows may have the same position."""


@dataclass(slots=True)
class ReaderContext:
    """The context of a reader or a client."""

    clock: Clock
    io: IoExecutor
    count: Callable[[str, int], None]
    """Adds to a named counter of the operator, such as `skipped`."""
    reject: Callable[[Batch], None]
    """Routes rows to the source's side output of rejected rows, if it has one."""
    wake: Callable[[], None]
    """Says that there is something to read: the readers are polled soon. For any thread, at any time.
    Who calls it gives `Pending()`. The batch runtime asks by itself, and often."""
    client: SourceClient | None = None
    """The client of this subtask (`SharesClient`); None in the context of a client itself."""


class SourceClient(ABC):
    """A client that the readers of one subtask share, such as one connection for all of their splits.

    If a reader is not polled, the client must pause it: the data read ahead for it is bounded. The
    readers of other splits continue.
    """

    def completed(self, positions: Mapping[str, bytes]) -> None:
        """Receive the notification that a checkpoint is in the log.

        `positions` are the positions of the subtask's splits in the checkpoint, by split id. Splits
        that were never opened are missing. The notification serves external observers; reading does
        not depend on it.

        The runtime calls this on the I/O executor, one call at a time, with positions that only rise.
        If several notifications are due, it sends only the newest. If that call has not returned, the
        runtime repeats it before `close`. If the method raises an error, the runtime counts it
        (`notices_failed`).
        """

    @abstractmethod
    def close(self) -> None:
        """Called once, when all readers of the subtask are closed, also after an error. May wait, a few
        seconds at the most."""


class SplitReader(ABC):
    """Reads one split. The mailbox calls its methods; none of them blocks.

    `capabilities.py` has what a reader may do in addition: say how far it lags, where its rows are, and
    whether it has caught up.
    """

    @abstractmethod
    def poll(self, max_rows: int) -> Polled:
        """Return up to `max_rows` rows of the source's schema, or the reason why there are none.

        A batch without rows says that records were read and none of them counts. `TimeReached` says
        that the split's event time has advanced without rows. After `EndOfSplit` the reader is not
        polled again.

        Raises:
            InputError: a record is bad. The error has the file, the row and a hint.
        """

    @abstractmethod
    def position(self) -> bytes:
        """Return the position at which a new reader returns just the rows that `poll` has not."""

    def close(self) -> None:
        """Release what the reader holds. Called once, also after an error."""


class Source(ABC):
    """A frozen, picklable description of the origin of rows: list the splits, and read one.

    `capabilities.py` has what a source may do in addition, such as to discover splits at run time.
    """

    schema: pa.Schema
    """The columns of the rows; known when the program is built."""

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
        """Return a reader of the split, at its beginning or at a position that a reader returned."""

    def positions(self) -> str:
        """Return a few words that name the kind of splits and positions. A job cannot continue from
        positions of another kind."""
        return type(self).__qualname__

    def describe(self) -> str:
        """Return a few words for `explain` and the status."""
        return type(self).__name__


@dataclass(slots=True)
class SinkContext:
    """The context of a sink writer."""

    job: JobId
    """Other jobs have others, also a fork of the same name."""
    attempt: Attempt
    operator: str
    """The id of the operator: it distinguishes the sinks of a job."""
    subtask: int
    clock: Clock
    io: IoExecutor
    schema: pa.Schema
    """The visible columns of what will be written."""
    name: str = ""
    """The name of the operator, for people."""
    count: Callable[[str, int], None] = lambda name, by: None
    """Adds to a named counter of the operator, such as `retries`. To be called where the writer is."""


class SinkWriter(ABC):
    """Writes one subtask's rows, in epochs that the checkpoints end.

    `sink_capabilities.py` has what a sink, a writer and a committer may do in addition.
    """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Take at least one row of the context's schema. The writer may buffer a bounded amount.

        Called in the mailbox: while the writer waits, the subtask does.
        """

    @abstractmethod
    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        """Stage durably all that was written, and return what a committer needs to publish it.

        Called in the mailbox at each barrier, also if nothing was written since the last one. Rheos
        keeps the result until the committer has committed it.
        """

    def close(self) -> None:
        """Drop what was not prepared, so that nothing half-written stays. Called once."""


class Committer(ABC):
    """Publishes what writers have staged. Runs on the I/O executor, and on the driver in recovery."""

    @abstractmethod
    def commit(self, committables: Sequence[bytes]) -> None:
        """Publish. To commit the same again does nothing. What it raises is tried again."""

    @abstractmethod
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """Remove what attempts of the job before `before` have staged, except `keep`.

        Called by the driver before an attempt starts, after the recovery commit.
        """


class Sink(ABC):
    """A frozen, picklable description of the target of rows."""

    @abstractmethod
    def open(self, ctx: SinkContext) -> SinkWriter:
        """Return the writer of one subtask in one attempt. Called in the mailbox, before the first
        row."""

    def committer(self) -> Committer | None:
        """Return a new committer of what any writer of the sink has prepared; None for a sink without
        a second phase."""
        return None

    def validate(self, schema: pa.Schema) -> None:
        """Check that rows of the schema can be written. Called when the program is built.

        Raises:
            ProgramError: the schema cannot be written.
            ConfigurationError: the target cannot be written.
        """

    def describe(self) -> str:
        """Return a few words for `explain` and the status."""
        return type(self).__name__
