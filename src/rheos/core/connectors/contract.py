"""What a connector is: a source of replayable splits, or a sink with two phases.

`Source` and `Sink` are frozen, picklable descriptions of what the user configured. Readers, writers
and committers are the running things, made from them on the worker.

A source is cut into *splits* by its data alone, never by the parallelism: watermarks are generated
per split and lateness is decided by them, so the cut is part of the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import msgspec
import pyarrow as pa

from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Clock, IoExecutor
from rheos.core.protocol.shapes import TypeShape
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
    """No rows, but the split has come to this moment, as if it had given a row of it: so its watermark
    goes on where others have rows and this one has none."""

    event_time_ms: int


@dataclass(frozen=True, slots=True)
class EndOfSplit:
    """The split is read to its end."""


Polled: TypeAlias = Batch | Pending | TimeReached | EndOfSplit


class RowPlaces(msgspec.Struct, frozen=True, array_like=True):
    """Where rows lie in their split, as the source itself counts: whoever looks there finds them."""

    unit: str
    """What is counted, such as `offset` or `line`."""
    of_rows: Sequence[int | str]
    """One for each row. Several rows may lie at one place."""


@dataclass(slots=True)
class ReaderContext:
    """What a reader is handed, and a client."""

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
    """What the readers of one subtask share, such as one connection for all of their splits.

    A reader that is not polled is to stand still: what is read ahead for it is bounded, and those of
    other splits go on.
    """

    def completed(self, positions: Mapping[str, bytes]) -> None:
        """A checkpoint is in the log. `positions` are those that it holds of the subtask's splits, by
        id, without splits that were never opened.

        For those who watch from outside: nothing that is read depends on it. Called on the I/O
        executor, one call at a time, with positions that only rise; where several are due, for the
        newest alone, and for that again before `close`, where it has not returned. May raise: that is
        counted (`notices_failed`).
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
    """What a sink writer is handed."""

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
    """Writes one subtask's rows, in epochs that the checkpoints end."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Takes rows, at least one, of the context's schema. May buffer a bounded amount. Called in the
        mailbox: while it waits, the subtask does."""

    def has_room(self) -> bool:
        """Return whether it can take more rows now; by default it always can.

        Called in the mailbox before rows are taken for it. While it returns False, the subtask takes no
        rows and no barriers for this sink, so senders wait. Only a commit that is under way, or that is
        retried, may make it False: it is asked again once that commit has ended.
        """
        return True

    @abstractmethod
    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        """Stages durably all that was written and returns what a committer needs to publish it.

        Called in the mailbox at each barrier, also where nothing was written since the last one. What
        it returns is kept until the committer has committed it.
        """

    def committer(self) -> Committer | None:
        """The committer of what this writer prepares, where the two share a connection; None: that of
        the sink. Called once; `close` lets go of it, too, when no commit is under way any more."""
        return None

    def close(self) -> None:
        """Called once. What was not prepared is dropped; nothing half-written stays."""


class Committer(ABC):
    """Publishes what writers have staged. Runs on the I/O executor, and on the driver in recovery."""

    on_driver: ClassVar[bool] = False
    """Publishing needs all that a checkpoint has staged, or a SparkSession: the driver alone commits,
    checkpoint by checkpoint, each before the subtasks hear that it is complete. In the runtimes that
    have a SparkSession it is active in the thread that commits."""

    for_outages: ClassVar[bool] = False
    """It publishes only what was staged while the target was away. Otherwise the writers deliver rows
    at once, at least once."""

    def of_log(self, log: str) -> Committer:
        """The committer for one log, called before it commits on the driver. Only within a log do the
        numbers of checkpoints rise; a job whose log is lost begins another, and counts from one."""
        return self

    def check(self) -> None:
        """Whether a job may begin here that goes on from nothing: ConfigurationError where what is in
        the target would be mixed with its rows against the user's wish. Changes nothing. Called on the
        driver when such a job is submitted, and again before its first attempt."""

    def begin(self) -> None:
        """Makes the target ready for such a job: what is to be replaced goes, and readers find a target
        though no row ever comes. Called on the driver before anything is published, and again where the
        job fails before its first checkpoint."""

    @abstractmethod
    def commit(self, committables: Sequence[bytes]) -> None:
        """Publishes; committing the same again does nothing. Raises on failure; it is retried."""

    @abstractmethod
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """Removes what attempts of the job before `before` staged, but for `keep`.

        Called by the driver before an attempt starts, after the recovery commit.
        """


class Sink(ABC):
    """A frozen description of where rows go."""

    in_process: ClassVar[bool] = False
    """Its rows stay in this process: it is for the simulated runtime alone, and cannot be sent."""

    takes_changes: ClassVar[bool] = False
    """It shows or keeps what comes, and rows that are changes of a table (`op`) are written as such."""

    max_parallelism: ClassVar[int | None] = None
    """How many subtasks of a continuous job write it at the most, the first ones; None: all. Writers of
    the others are opened, too, and have no rows."""

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
        """What is really written. A sink whose target has a life of its own looks at it here, and makes
        it where there is none; `schema` are the visible columns that it will be given, `writer` the
        names of the job and of the operator, which are the same at each run.

        Called once on the driver, when the job is submitted. Where Spark runs and has a session, it is
        active in the thread; a continuous job may have had no need of one yet, and
        `SparkSession.builder.getOrCreate()` makes it. Raises SchemaError where the rows do not fit the
        target, ConfigurationError where it cannot be written.
        """
        return self

    def staged(self, folder: str) -> Sink:
        """What is really written. A sink whose target cannot hold what is prepared and not yet
        committed keeps that below `folder`, a path or a URL that every worker reaches, which is the
        sink's own and lives as long as the job's checkpoints, or in batch as long as the job.

        Called once on the driver, after `prepared`.
        """
        return self

    def of_changes(self, key: Sequence[str], delete: str) -> Sink | None:
        """The same sink for the newest rows of a table that changes: each stands for the one before it
        with the same `key`, and where the boolean column `delete` is true, that one goes. That column
        is not written. None where the sink cannot delete what it has written.

        Called when the program is built. Raises ProgramError where it writes by another key.
        """
        return None

    def target_shape(self) -> TypeShape | None:
        """The columns of the target, once prepared, where others may change them: `label` says which
        it is, `name` what kind of thing. A job does not go on from a checkpoint that knew them
        otherwise."""
        return None

    @abstractmethod
    def open(self, ctx: SinkContext) -> SinkWriter:
        """The writer of one subtask in one attempt. Called in the mailbox, before the first row."""

    def committer(self) -> Committer | None:
        """Who publishes what any writer of the sink has prepared; made anew wherever it is needed. None
        for a sink without a second phase (print)."""
        return None

    def validate(self, schema: pa.Schema) -> None:
        """Called when the program is built. Raises ProgramError where the schema cannot be written,
        ConfigurationError where the target cannot."""

    def describe(self) -> str:
        """A few words for `explain` and the status."""
        return type(self).__name__
