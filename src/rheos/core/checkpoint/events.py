"""The events that the coordinator receives, and the actions that it returns: values without behaviour.

It also receives the subtasks' own messages (`rheos.core.protocol.control`) unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry
from rheos.core.checkpoint.savepoint import Restore, Savepoint
from rheos.core.errors import RheosError, Site
from rheos.core.protocol.control import (
    Acknowledge,
    CaughtUp,
    CommittableHandle,
    Committed,
    Decline,
    Drained,
    PhaseRead,
    SplitsTaken,
    Totals,
    ToTask,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.protocol.splits import Split


@dataclass(frozen=True)
class WatchedSource:
    """A source that is listed anew while the job runs."""

    every_ms: int
    """Time in ms between the announcement of a listing's splits and the next listing."""
    listed: frozenset[str] = frozenset()
    """Ids of the splits that subtasks receive when an attempt begins, besides those in their state."""
    name: str = ""
    """For people."""
    forgets: bool = False
    """Subtasks are to hear of splits that are gone."""
    nothing_found: RheosError | None = None
    """Warning to show while no split of the source was found; None if that is normal."""


@dataclass(frozen=True)
class JobShape:
    """Properties of a plan that its checkpoints depend on."""

    operators: Mapping[OperatorId, str]
    """The name of every operator."""
    parallelism: int
    """The one that is wanted; an attempt may run with less."""
    max_parallelism: int
    states: Mapping[OperatorId, Mapping[str, StateShape]] = field(default_factory=dict)
    """Shape of each state."""
    on_driver: frozenset[OperatorId] = frozenset()
    """The sinks whose output the driver publishes."""
    targets: Mapping[OperatorId, TypeShape] = field(default_factory=dict)
    """Column types of the targets of sinks, if the sinks do not own these."""
    widths: Mapping[OperatorId, int] = field(default_factory=dict)
    """Maximum number of subtasks that receive rows, for the operators that limit it."""
    watched: Mapping[OperatorId, WatchedSource] = field(default_factory=dict)
    """The sources whose splits may be found while the job runs."""
    until_now: frozenset[OperatorId] = frozenset()
    """All sources, where the job stops once it has read what they had when the run began."""
    sites: Mapping[OperatorId, Site] = field(default_factory=dict)
    """Lines of the program that define the operators, for errors."""


# --- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The driver begins."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    pass


class After(Enum):
    """What the job does once the savepoint is complete."""

    GO_ON = "go on"
    STOP = "stop: do not commit anything after the savepoint"
    DRAIN = "end the input, take it with the final checkpoint, and finish"
    RESCALE = "resume from the checkpoint with another parallelism: no copy is needed"


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Answered by SavepointEnded, once. Requests that come while one is open wait their turn."""

    request: int
    directory: str | None
    """The savepoint's own folder; nothing is in it yet. None: a checkpoint of the job's own will do, of
    which nobody wants a copy."""
    after: After
    parallelism: int = 0
    """To go on with, where the job is rescaled."""
    slots: int | None = None
    """Number of subtasks that can run now, if the job is rescaled; None means enough."""
    why: str = ""
    """For people, where the job is rescaled by itself."""


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The manifest is in its place."""

    request: int


@dataclass(frozen=True, slots=True)
class SavepointNotWritten:
    request: int
    error: RheosError


@dataclass(frozen=True, slots=True)
class LogRead:
    view: LogView
    slots: int | None = None
    """Number of subtasks that can run now; None means enough."""


@dataclass(frozen=True, slots=True)
class LogUnreadable:
    error: RheosError


@dataclass(frozen=True, slots=True)
class SavepointRead:
    directory: str
    savepoint: Savepoint


@dataclass(frozen=True, slots=True)
class SavepointUnreadable:
    directory: str
    error: RheosError


@dataclass(frozen=True, slots=True)
class LogAppended:
    number: int


@dataclass(frozen=True, slots=True)
class LogLost:
    """Another driver has made the number."""

    number: int


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The store failed; the entry may or may not be there until the log is read again."""

    number: int
    error: RheosError


@dataclass(frozen=True, slots=True)
class Recovered:
    """The committables of the restored checkpoint are committed, the stale ones aborted."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RecoveryFailed:
    attempt: Attempt
    error: RheosError


@dataclass(frozen=True, slots=True)
class Published:
    """The publication that PublishOnDriver requested is done."""

    operator: OperatorId
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class PublishFailed:
    operator: OperatorId
    checkpoint: CheckpointId
    error: RheosError


@dataclass(frozen=True, slots=True)
class SplitsListed:
    """All that a source has now, whatever attempt had it listed."""

    operator: OperatorId
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class SplitsNotListed:
    operator: OperatorId
    error: RheosError


@dataclass(frozen=True, slots=True)
class AttemptRunning:
    """All subtasks of the attempt are connected."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SubtaskFailed:
    attempt: Attempt
    subtask: int
    error: RheosError


@dataclass(frozen=True, slots=True)
class AttemptLost:
    """The attempt as a whole has failed, or could not be started."""

    attempt: Attempt
    error: RheosError


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """Nothing of the attempt runs any more. Reported of every attempt that was started, once."""

    attempt: Attempt


Event: TypeAlias = (
    Start
    | Tick
    | CancelRequested
    | SavepointRequested
    | SavepointWritten
    | SavepointNotWritten
    | LogRead
    | LogUnreadable
    | SavepointRead
    | SavepointUnreadable
    | LogAppended
    | LogLost
    | LogFailed
    | Recovered
    | RecoveryFailed
    | Published
    | PublishFailed
    | AttemptRunning
    | SubtaskFailed
    | AttemptLost
    | AttemptEnded
    | Acknowledge
    | Decline
    | Committed
    | PhaseRead
    | CaughtUp
    | SplitsTaken
    | SplitsListed
    | SplitsNotListed
    | Drained
)


# --- actions ------------------------------------------------------------------------------------


class Outcome(Enum):
    FINISHED = "finished"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """With a savepoint, or with a checkpoint that holds all that a run as of now was to read."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Answered by LogRead or LogUnreadable."""


@dataclass(frozen=True, slots=True)
class ReadSavepoint:
    """Read the manifest in the folder. Answered by SavepointRead or SavepointUnreadable."""

    directory: str
    thorough: bool = False
    """Check all of its files, too: the job has checkpoints of its own, which go when it begins from
    the savepoint."""


@dataclass(frozen=True, slots=True)
class AppendLog:
    """Answered by LogAppended, LogLost or LogFailed."""

    number: int
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class Recover:
    """Commit what the checkpoint lists, then abort what attempts before `attempt` staged next to it.
    Runs next to everything else: it may take long. Answered by Recovered or RecoveryFailed."""

    attempt: Attempt
    checkpoint: CheckpointCompleted | None
    fresh: bool
    """The job goes on from nothing: no row of it has been published."""


@dataclass(frozen=True, slots=True)
class PublishOnDriver:
    """Commit what a sink has staged. Runs next to everything else: it may take long. Answered by
    Published or PublishFailed, also if the attempt has ended meanwhile."""

    attempt: Attempt
    checkpoint: CheckpointId
    operator: OperatorId
    committables: tuple[CommittableHandle, ...]


@dataclass(frozen=True, slots=True)
class ListSplits:
    """List the splits of the source, concurrently with everything else, as it may take long. Answered
    by SplitsListed or SplitsNotListed, even if the attempt has ended by then."""

    operator: OperatorId


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Answered by AttemptRunning or AttemptLost, and in the end by AttemptEnded."""

    attempt: Attempt
    restore: Restore | None
    parallelism: int


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Make an end of it, by force where need be. Answered by AttemptEnded."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SendToAll:
    message: ToTask


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Nothing refers to these any more. A failure leaves rubbish and nothing worse."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropEntries:
    """Rewrite these entries of the log as tombstones; a failure is harmless here too."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SweepFiles:
    """Delete the state files of attempts before `attempt`, and those that it has written itself for
    checkpoints up to `through`, but for `keep`."""

    attempt: Attempt
    keep: frozenset[str]
    through: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """The checkpoint exists and counts: for the status, and for the rows that are collected."""

    checkpoint: CheckpointCompleted


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """The checkpoint is in the log and committed everywhere: write the savepoint's manifest.
    Answered by SavepointWritten or SavepointNotWritten."""

    request: int
    directory: str
    entry: CheckpointCompleted
    """With the savepoint's handles, and no committables."""


@dataclass(frozen=True, slots=True)
class DiscardSavepoint:
    """Delete what a savepoint that failed has left in its folder. A failure leaves rubbish and nothing
    worse: without a manifest it is no savepoint."""

    directory: str


@dataclass(frozen=True, slots=True)
class SavepointEnded:
    """Answer whoever asked. `error` None: the savepoint exists."""

    request: int
    error: RheosError | None = None


@dataclass(frozen=True, slots=True)
class EndJob:
    """The last action. `error` is there where the outcome is FAILED."""

    outcome: Outcome
    error: RheosError | None = None
    finished_before: Totals | None = None
    """Counts of the job, if the log showed at the start that it has finished. Nothing was run then."""


Action: TypeAlias = (
    ReadLog
    | ReadSavepoint
    | AppendLog
    | Recover
    | PublishOnDriver
    | ListSplits
    | StartAttempt
    | StopAttempt
    | SendToAll
    | DeleteFiles
    | DropEntries
    | SweepFiles
    | Announce
    | WriteSavepoint
    | DiscardSavepoint
    | SavepointEnded
    | EndJob
)


@dataclass(slots=True)
class CheckpointStats:
    """Statistics over this driver's attempts."""

    restarts: int = 0
    completed: int = 0
    failed: int = 0
    last_id: CheckpointId | None = None
    last_duration_ms: int | None = None
    """From the trigger to the log."""
    failure: str | None = None
    """Why the newest one failed; None once another is complete."""
