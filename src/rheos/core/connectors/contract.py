"""What a connector is: a source of replayable splits, or a sink with two phases.

`Source` and `Sink` are frozen, picklable descriptions of what the user configured. Readers, writers
and committers are the running things, made from them on the worker.

A source is cut into *splits* by its data alone, never by the parallelism: watermarks are generated
per split and lateness is decided by them, so the cut is part of the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import msgspec
import pyarrow as pa

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Clock, IoExecutor
from rheos.core.protocol.shapes import TypeShape
from rheos.core.protocol.splits import Split as Split
from rheos.core.times import TimeColumn


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
    """What `Source.client` has made for this subtask; not there for a client."""


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
    """Reads one split. The mailbox calls `poll` and `position`; neither blocks."""

    @abstractmethod
    def poll(self, max_rows: int) -> Polled:
        """At most `max_rows` rows of the source's schema, or why there are none. A batch without rows
        says that some were read, and that none of them counts; `TimeReached` that the split's event
        time has gone on without any.

        After `EndOfSplit` it is not called again. Raises InputError with file, row and hint.
        """

    @abstractmethod
    def position(self) -> bytes:
        """Where a new reader continues so that it gives just the rows not yet returned by `poll`."""

    def lag_rows(self) -> int | None:
        """How many records of the split are there, as far as is known, and were not given by `poll`;
        None where that cannot be said without asking for it. A figure: nothing rests on it. Called in
        the mailbox about once a second, before `close`."""
        return None

    def places(self) -> RowPlaces | None:
        """Where the rows lie that `poll` gave last: the same whichever position was restored before.
        None where the source cannot say it. For `rheos why`: asked right behind such a `poll`, and by
        no job."""
        return None

    def has_caught_up(self) -> bool:
        """Of a source as of now (`Source.as_of_now`): whether `poll` has given all that the split had
        then. Once it has, it gives `Pending()`. Called in the mailbox. A split that ends by itself need
        not say so."""
        return False

    def close(self) -> None:
        """Called once, also after an error."""


class Source(ABC):
    """A frozen description of where rows come from."""

    schema: pa.Schema
    """The rows it gives; known when the program is built."""

    bounded: bool

    discovery_ms: int | None = None
    """How often a continuous job asks for splits that were not there before; None asks never. Such a
    source never ends by itself, is not `bounded`, and may begin without a split."""
    discovery_phase: int = 0
    """That of all splits that `discover` gives: no split has a higher one."""
    forget_ms: int | None = None
    """A split that is read, gone, and older by this than the newest one known is forgotten, so that
    state does not hold each that ever was; one that is found and is as old is an error. What `discover`
    gives is in the order of `made_ms` then. None: a split is never forgotten."""
    event_time_behind: bool = True
    """Whether an event time may be given behind it (`with_event_time`). Not where splits need
    `TimeReached` to come along: that is said of the event time that the source is read with, and by
    another one a split without rows would stand still."""

    def staged(self, folder: str) -> Source:
        """What is really read. A source whose rows must be written down before they can be read again
        does so here, below `folder`, and gives a source of what it wrote.

        Called once on the driver, before `splits`, and not by the batch runtime. `folder` is a path or
        a URL that every worker reaches, is the source's own, and lives as long as the job: a job that
        is started again finds there what it wrote before, and takes that.
        """
        return self

    def released(self) -> None:
        """Ends what `staged` has begun and goes on while the job runs, such as a query beside it.
        Called on the driver when the job has ended, in whatever way, on what `staged` gave; also where
        the job cannot be started after all. May wait, and may be called again."""

    def as_of_now(self) -> Source:
        """The source for a run that stops with what is there now, and that another run follows. It has
        no `discovery_ms`, is `bounded` as this one is, and its positions are the same. A split that has
        more later is not at its end now: its reader says `has_caught_up`.

        Called once on the driver, before all else, and not where all sources of the job are bounded.
        Raises ConfigurationError where the source has no such moment, as by default."""
        if self.bounded:
            return self
        raise ConfigurationError(
            f"{self.describe()} cannot be read until now: it does not say what is there at a moment",
            hint="folders that are watched and Kafka's topics can; leave out --until now, and end the "
            "job with `rheos stop`",
        )

    def only_reader(self) -> str | None:
        """Why nobody else may read it while a job does, such as that rows go to one reader alone; None
        where the job does not notice. `rheos fork` asks, on the driver, and reads it only then."""
        return None

    def lost_by_failure(self) -> str | None:
        """Return which rows a failure of the job loses, for a source that cannot be read again; None,
        the default, for one that can. `rheos explain` shows it."""
        return None

    @abstractmethod
    def splits(self) -> Sequence[Split]:
        """All splits, in a stable order. Called on the driver before the job runs.

        Raises InputError where the input is missing.
        """

    def discover(self) -> Iterable[Split]:
        """All splits that there are now: those whose ids are not known yet are read, too, by the
        subtasks that they are dealt to in this order. A split that is known stays, listed or not.

        Called on the driver every `discovery_ms` while the job runs, one call at a time, in a thread of
        its own, which may wait: then nothing is found meanwhile, and nothing else stands still. What it
        raises is shown in the status, and it is called again; after five times in a row the attempt
        fails with it.
        """
        return self.splits()

    def nothing_found(self) -> RheosError | None:
        """The warning that there is no split yet of a source that looks for splits: logged where the
        job begins so, and in its status until the first is found. None where that is nothing to warn
        of, as of a folder that fills later."""
        return None

    def made_ms(self, split: Split) -> int | None:
        """When the split came to be, for `forget_ms`: ms since the epoch, by any clock that all splits
        go by. None for one that is never forgotten. By the split's own data alone."""
        return None

    @abstractmethod
    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        """A reader of the split, at its beginning or at a position that a reader gave."""

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        """What the readers of one subtask are to share; None where they share nothing. Called in the
        mailbox, which it does not block, before the subtask's first reader is opened, and not where
        the subtask has no split."""
        return None

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Which of its `splits` to read where a job goes on from the positions of the splits `known`,
        by id with their payloads as they were then; the payloads may be others than in `splits`. What
        is known and not listed any more is read on, too. The same in every subtask."""
        return splits

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        """A moment before which no row of the split is, by the time column `on` (ms since the epoch),
        where the source knows one by its description alone. Before the split's first row, the watermark
        may come up to it."""
        return None

    def endless(self, split: Split) -> bool:
        """Whether the split never ends. A subtask reads a few splits that end at a time, and all of its
        endless ones at once."""
        return not self.bounded

    def record_class(self) -> type | None:
        """Whose objects users' functions are given for its rows, where the user has named a class."""
        return None

    def unpaced(self) -> Source:
        """The same rows as fast as they can be read: what the batch runtime reads where a source hands
        them out at some pace."""
        return self

    def reading(self, columns: frozenset[str]) -> Source | None:
        """The same splits, positions and rows with fewer columns, in their order: at least those named,
        of which there is one. None where it reads all of them anyway, or where what is in the others
        counts. Called when the program is planned, and where a split is opened."""
        return None

    def rejected_schema(self) -> pa.Schema | None:
        """The schema of the side output of rejected rows, where the source has one."""
        return None

    def positions(self) -> str:
        """What its splits and positions are, in a few words. A job cannot go on from the positions of a
        source that says otherwise."""
        return type(self).__qualname__

    def describe(self) -> str:
        """A few words for `explain` and the status."""
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
