"""Optional capabilities of a sink, its writers and its committer. Each is a small protocol.

They work like those of sources (`capabilities.py`): a sink has a capability if it has the protocol's
members. For a sink that lacks a capability, the functions below return the default.
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
    """A sink that inspects or creates its target when the job is submitted."""

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
        """Return the sink that is used for writing.

        Called once on the driver. In runtimes with Spark, a SparkSession is active in the thread, or
        `SparkSession.builder.getOrCreate()` makes one.

        Args:
            schema: the visible columns of the rows.
            writer: names of the job and of the operator, which are the same in each run.

        Returns:
            The sink.

        Raises:
            SchemaError: the rows do not fit the target.
            ConfigurationError: the target cannot be written.
        """


def prepared(sink: Sink, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
    """Return the sink that is used for writing: the same one by default."""
    return sink.prepared(schema, writer) if isinstance(sink, PreparesTarget) else sink


@runtime_checkable
class StagesOutput(Protocol):
    """A sink whose target cannot store prepared rows that are not yet committed."""

    def staged(self, folder: str) -> Sink:
        """Return the sink that stores prepared rows in a folder. The driver calls it after `prepared`.

        Args:
            folder: a path or URL that every worker can access. It belongs to this sink, and exists as
                long as the job's checkpoints, or in batch as long as the job.

        Returns:
            The sink.
        """


def staged_sink(sink: Sink, folder: str) -> Sink:
    """Return the sink that stages below a folder: the same one by default."""
    return sink.staged(folder) if isinstance(sink, StagesOutput) else sink


@runtime_checkable
class WritesChanges(Protocol):
    """A sink that can keep the newest row of each key of an updating table, and delete rows."""

    def of_changes(self, key: Sequence[str], delete: str) -> Sink | None:
        """Return the sink for upserts and deletes; None if it cannot delete what it has written.

        Called when the program is built.

        Args:
            key: a row replaces the one before it with the same values of these columns.
            delete: a boolean column, which is not written. If it is true, the sink deletes the row of
                the key.

        Returns:
            The sink, or None.

        Raises:
            ProgramError: the sink is configured with another key.
        """


def of_changes(sink: Sink, key: Sequence[str], delete: str) -> Sink | None:
    """Return the sink for the rows of an updating table; None if it cannot delete rows."""
    return sink.of_changes(key, delete) if isinstance(sink, WritesChanges) else None


@runtime_checkable
class TakesChanges(Protocol):
    """A sink that writes a changelog unchanged, with its column `op`."""

    takes_changes: bool


def takes_changes(sink: Sink) -> bool:
    """Return whether the sink writes the rows of a changelog unchanged."""
    return sink.takes_changes if isinstance(sink, TakesChanges) else False


@runtime_checkable
class HasTargetShape(Protocol):
    """A sink whose target has columns that other programs may change."""

    def target_shape(self) -> TypeShape | None:
        """Return the columns of the target after `prepared`. `label` names the target, and `name` is
        its kind. A job does not continue from a checkpoint with other columns."""


def target_shape(sink: Sink) -> TypeShape | None:
    """Return the columns of the target; None if no other program can change them."""
    return sink.target_shape() if isinstance(sink, HasTargetShape) else None


@runtime_checkable
class LimitsWriters(Protocol):
    """A sink to which only some of the subtasks may write."""

    max_parallelism: int | None
    """Number of subtasks of a continuous job that write to the sink; None: all. These are the first
    ones. The writers of the other subtasks are opened, too, but receive no rows."""


def most_writers(sink: Sink) -> int | None:
    """Return the number of subtasks that may write to the sink; None if all may."""
    return sink.max_parallelism if isinstance(sink, LimitsWriters) else None


@runtime_checkable
class StaysInProcess(Protocol):
    """A sink whose rows stay in this process. Only the simulated runtime supports it."""

    in_process: bool


def stays_in_process(sink: Sink) -> bool:
    """Return whether the sink cannot be sent to a worker."""
    return sink.in_process if isinstance(sink, StaysInProcess) else False


@runtime_checkable
class CollectsRows(Protocol):
    """A sink whose committables are rows for the program, available as `result.collected`."""

    def collected(self, committables: Iterable[bytes]) -> pa.Table | None:
        """Return the collected rows, in the order of checkpoints and subtasks.

        Args:
            committables: The committables of the sink's writers, each once.

        Returns:
            The rows; None if there are no committables.
        """


# --- writers --------------------------------------------------------------------------------------


@runtime_checkable
class HasRoom(Protocol):
    """A writer that cannot accept rows at some times."""

    def has_room(self) -> bool:
        """Return whether the writer can accept more rows now.

        Called in the mailbox before the subtask takes rows for the writer. While the result is False,
        the subtask takes no rows and no barriers for this sink, so senders wait. The result may be
        False only while a commit runs or is retried; Rheos calls the method again once that commit has
        ended.
        """


@runtime_checkable
class HasCommitter(Protocol):
    """A writer that shares a connection with the committer of what it prepares."""

    def committer(self) -> Committer | None:
        """Return that committer; None: use the sink's. Rheos calls it once. The writer's `close` also
        closes the committer, after the last commit has ended."""


def own_committer(writer: SinkWriter) -> Committer | None:
    """Return the writer's own committer; None if the sink's is used."""
    return writer.committer() if isinstance(writer, HasCommitter) else None


# --- committers -----------------------------------------------------------------------------------


@runtime_checkable
class CommitsOnDriver(Protocol):
    """A committer that needs a SparkSession, or all staged output of a checkpoint at once."""

    on_driver: bool
    """Whether only the driver commits: checkpoint by checkpoint, each before the subtasks are notified
    that it is complete. In runtimes with a SparkSession, the session is active in the committing
    thread."""


def commits_on_driver(committer: Committer) -> bool:
    """Return whether only the driver commits."""
    return committer.on_driver if isinstance(committer, CommitsOnDriver) else False


@runtime_checkable
class CommitsAfterOutages(Protocol):
    """A committer of writers that deliver rows immediately, at least once."""

    for_outages: bool
    """Whether the committer publishes only rows that were staged while the target was unavailable."""


def is_for_outages(committer: Committer) -> bool:
    """Return whether a committer publishes only what was staged in an outage."""
    return committer.for_outages if isinstance(committer, CommitsAfterOutages) else False


@runtime_checkable
class NumbersByLog(Protocol):
    """A committer that stores numbers of checkpoints in its target."""

    def of_log(self, log: str) -> Committer:
        """Return the committer for one log. The driver calls it before it commits.

        Checkpoint numbers rise only within a log. A job whose log is lost counts from one again.

        Args:
            log: Id of the log.

        Returns:
            The committer.
        """


def of_log(committer: Committer, log: str) -> Committer:
    """Return the committer for one log: the same one by default."""
    return committer.of_log(log) if isinstance(committer, NumbersByLog) else committer


@runtime_checkable
class ChecksTarget(Protocol):
    """A committer whose target may already contain rows that must not be mixed with new ones."""

    def check(self) -> None:
        """Check that a job without a checkpoint may start with this target. Change nothing.

        Called on the driver when such a job is submitted, and again before its first attempt.

        Raises:
            ConfigurationError: existing content of the target would be mixed with the job's rows.
        """


def check_target(committer: Committer) -> None:
    """Check that a job without a checkpoint may start with this target. Raise ConfigurationError."""
    if isinstance(committer, ChecksTarget):
        committer.check()


@runtime_checkable
class BeginsTarget(Protocol):
    """A committer that prepares its target for a job without a checkpoint."""

    def begin(self) -> None:
        """Remove content that is to be replaced. Create a target, even if the job has no rows.

        Called on the driver before all publications, and if the job fails without a checkpoint.
        """


def begin_target(committer: Committer) -> None:
    """Prepare the target for a job without a checkpoint."""
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
