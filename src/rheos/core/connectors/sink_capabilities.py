"""Optional capabilities of a sink, its writers and its committer. Each is a small protocol.

They work as those of sources (`capabilities.py`): a sink has a capability by its members, and the
functions below return the default for one that lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from rheos.core.connectors.contract import Committer, Sink, SinkWriter
from rheos.core.protocol.shapes import TypeShape

# --- sinks ----------------------------------------------------------------------------------------


@runtime_checkable
class PreparesTarget(Protocol):
    """A sink that looks at its target, or makes it, when the job is submitted."""

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
        """Return the sink that is really written.

        Called once on the driver. In runtimes with Spark, a SparkSession is active in the thread, or
        `SparkSession.builder.getOrCreate()` makes one.

        Args:
            schema: the visible columns of the rows.
            writer: the names of the job and of the operator, which are the same at each run.

        Raises:
            SchemaError: the rows do not fit the target.
            ConfigurationError: the target cannot be written.
        """


def prepared(sink: Sink, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
    """Return the sink that is really written: the same one by default."""
    return sink.prepared(schema, writer) if isinstance(sink, PreparesTarget) else sink


@runtime_checkable
class StagesOutput(Protocol):
    """A sink whose target cannot hold what is prepared and not yet committed."""

    def staged(self, folder: str) -> Sink:
        """Return the sink that keeps such output below a folder. Called once on the driver, after
        `prepared`.

        Args:
            folder: a path or URL that every worker reaches. It belongs to this sink, and lives as long
                as the job's checkpoints, or in batch as long as the job.
        """


def staged_sink(sink: Sink, folder: str) -> Sink:
    """Return the sink that stages below a folder: the same one by default."""
    return sink.staged(folder) if isinstance(sink, StagesOutput) else sink


@runtime_checkable
class WritesChanges(Protocol):
    """A sink that can keep the newest row of each key of an updating table, and delete rows."""

    def of_changes(self, key: Sequence[str], delete: str) -> Sink | None:
        """Return the sink for such rows; None if it cannot delete what it has written.

        Called when the program is built.

        Args:
            key: a row replaces the one before it with the same values of these columns.
            delete: a boolean column, which is not written. If it is true, the row of the key goes.

        Raises:
            ProgramError: the sink writes by another key.
        """


def of_changes(sink: Sink, key: Sequence[str], delete: str) -> Sink | None:
    """Return the sink for the rows of an updating table; None if it cannot delete rows."""
    return sink.of_changes(key, delete) if isinstance(sink, WritesChanges) else None


@runtime_checkable
class TakesChanges(Protocol):
    """A sink that shows or keeps a changelog as it is, with its column `op`."""

    takes_changes: bool


def takes_changes(sink: Sink) -> bool:
    """Return whether the sink writes the rows of a changelog as they are."""
    return sink.takes_changes if isinstance(sink, TakesChanges) else False


@runtime_checkable
class HasTargetShape(Protocol):
    """A sink whose target has columns that others may change."""

    def target_shape(self) -> TypeShape | None:
        """Return the columns of the target, once prepared. `label` names the target, and `name` is
        its kind. A job does not continue from a checkpoint with other columns."""


def target_shape(sink: Sink) -> TypeShape | None:
    """Return the columns of the target; None if nobody else can change them."""
    return sink.target_shape() if isinstance(sink, HasTargetShape) else None


@runtime_checkable
class LimitsWriters(Protocol):
    """A sink that only some subtasks write."""

    max_parallelism: int | None
    """Number of subtasks of a continuous job that write it, the first ones; None: all. The writers of
    the others are opened, too, and have no rows."""


def most_writers(sink: Sink) -> int | None:
    """Return how many subtasks may write the sink; None if all may."""
    return sink.max_parallelism if isinstance(sink, LimitsWriters) else None


@runtime_checkable
class StaysInProcess(Protocol):
    """A sink whose rows stay in this process, for the simulated runtime alone."""

    in_process: bool


def stays_in_process(sink: Sink) -> bool:
    """Return whether the sink cannot be sent to a worker."""
    return sink.in_process if isinstance(sink, StaysInProcess) else False


@runtime_checkable
class CollectsRows(Protocol):
    """A sink whose committables are rows for the program: `result.collected` has them."""

    def collected(self, committables: Iterable[bytes]) -> pa.Table | None:
        """Return the rows in the order of checkpoints and subtasks, each committable once; None if
        there are no committables."""


# --- writers --------------------------------------------------------------------------------------


@runtime_checkable
class HasRoom(Protocol):
    """A writer that cannot always take rows."""

    def has_room(self) -> bool:
        """Return whether it can take more rows now.

        Called in the mailbox before rows are taken for it. While it returns False, the subtask takes no
        rows and no barriers for this sink, so senders wait. Only a commit that is under way, or that is
        retried, may make it False: it is asked again once that commit has ended.
        """


@runtime_checkable
class HasCommitter(Protocol):
    """A writer that shares a connection with the committer of what it prepares."""

    def committer(self) -> Committer | None:
        """Return that committer; None: the sink's. Called once. `close` of the writer also closes it,
        when no commit is under way any more."""


def own_committer(writer: SinkWriter) -> Committer | None:
    """Return the writer's own committer; None if the sink's is used."""
    return writer.committer() if isinstance(writer, HasCommitter) else None


# --- committers -----------------------------------------------------------------------------------


@runtime_checkable
class CommitsOnDriver(Protocol):
    """A committer that needs all that a checkpoint has staged, or a SparkSession."""

    on_driver: bool
    """Whether the driver alone commits: checkpoint by checkpoint, each before the subtasks are notified
    that it is complete. In runtimes with a SparkSession, it is active in the thread that commits."""


def commits_on_driver(committer: Committer) -> bool:
    """Return whether only the driver commits."""
    return committer.on_driver if isinstance(committer, CommitsOnDriver) else False


@runtime_checkable
class CommitsAfterOutages(Protocol):
    """A committer of writers that deliver rows at once, at least once."""

    for_outages: bool
    """Whether it publishes only what was staged while the target was unavailable."""


def is_for_outages(committer: Committer) -> bool:
    """Return whether a committer publishes only what was staged in an outage."""
    return committer.for_outages if isinstance(committer, CommitsAfterOutages) else False


@runtime_checkable
class NumbersByLog(Protocol):
    """A committer that stores numbers of checkpoints in its target."""

    def of_log(self, log: str) -> Committer:
        """Return the committer for one log, before it commits on the driver.

        Numbers of checkpoints rise only within a log: a job whose log is lost begins another one, and
        counts from one.
        """


def of_log(committer: Committer, log: str) -> Committer:
    """Return the committer for one log: the same one by default."""
    return committer.of_log(log) if isinstance(committer, NumbersByLog) else committer


@runtime_checkable
class ChecksTarget(Protocol):
    """A committer whose target may have content that must not be mixed with new rows."""

    def check(self) -> None:
        """Check that a job without a checkpoint may start here. Changes nothing.

        Called on the driver when such a job is submitted, and again before its first attempt.

        Raises:
            ConfigurationError: content of the target would be mixed with the job's rows.
        """


def check_target(committer: Committer) -> None:
    """Check that a job without a checkpoint may start here. Raises ConfigurationError."""
    if isinstance(committer, ChecksTarget):
        committer.check()


@runtime_checkable
class BeginsTarget(Protocol):
    """A committer that makes its target ready for a job without a checkpoint."""

    def begin(self) -> None:
        """Remove what is to be replaced, and make a target that readers find even if no row comes.

        Called on the driver before anything is published, and again if the job fails before its first
        checkpoint.
        """


def begin_target(committer: Committer) -> None:
    """Make the target ready for a job without a checkpoint."""
    if isinstance(committer, BeginsTarget):
        committer.begin()


SINK_CAPABILITIES: Final = (
    PreparesTarget,
    StagesOutput,
    WritesChanges,
    TakesChanges,
    HasTargetShape,
    LimitsWriters,
    StaysInProcess,
    CollectsRows,
)
WRITER_CAPABILITIES: Final = (HasRoom, HasCommitter)
COMMITTER_CAPABILITIES: Final = (
    CommitsOnDriver,
    CommitsAfterOutages,
    NumbersByLog,
    ChecksTarget,
    BeginsTarget,
)
