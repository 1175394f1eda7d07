"""Events that the coordinator receives, and actions that it returns: values without behaviour.

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
    SplitsRead,
    SplitsTaken,
    StopNeeded,
    Totals,
    ToTask,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.shapes import StateShape, TypeShape
from rheos.core.protocol.splits import Split


@dataclass(frozen=True)
class WatchedSource:
    """A source whose splits the driver lists repeatedly while the job runs."""

    every_ms: int
    """Time in ms between the announcement of a listing's splits and the next listing."""
    listed: frozenset[str] = frozenset()
    """Ids of the splits that subtasks receive at the start, in addition to those in their state."""
    name: str = ""
    """Name of the source, for people."""
    forgets: bool = False
    """Whether subtasks are notified of splits that no longer exist."""
    nothing_found: RheosError | None = None
    """Warning to show while no split of the source was found; None if that is normal."""


@dataclass(frozen=True)
class JobShape:
    """Properties of a plan that its checkpoints depend on."""

    operators: Mapping[OperatorId, str]
    """Names of all operators."""
    parallelism: int
    """Wanted parallelism; an attempt may have fewer subtasks."""
    max_parallelism: int
    states: Mapping[OperatorId, Mapping[str, StateShape]] = field(default_factory=dict)
    """Shape of each state."""
    on_driver: frozenset[OperatorId] = frozenset()
    """Sinks whose output the driver publishes."""
    targets: Mapping[OperatorId, TypeShape] = field(default_factory=dict)
    """Column types of the targets of sinks, if the sinks do not own these."""
    widths: Mapping[OperatorId, int] = field(default_factory=dict)
    """Maximum number of subtasks that receive rows, for the operators that limit it."""
    watched: Mapping[OperatorId, WatchedSource] = field(default_factory=dict)
    """Sources whose splits may be discovered while the job runs."""
    until_now: frozenset[OperatorId] = frozenset()
    """All sources, if the job stops after the input that they had when the run began; otherwise
    empty."""
    sites: Mapping[OperatorId, Site] = field(default_factory=dict)
    """Lines of the program that define the operators, for errors."""


# --- events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The driver starts."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    pass


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The driver's process must end: the job ends with a checkpoint, for the next driver (CP46)."""


@dataclass(frozen=True, slots=True)
class OtherGone:
    """The other driver of a handover has ended its attempt, or is lost (UP4)."""

    lost: str | None = None
    """Process and host of the lost driver, for people; None if the driver is not lost."""
    seen_ms: int | None = None
    """Wall-clock time of its last sign of life, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class WaitWithdrawn:
    """A driver that waits for the job is no longer needed (UP5)."""


class AfterSavepoint(Enum):
    """Next step of the job once a savepoint is complete."""

    GO_ON = "go on"
    STOP = "stop: do not commit anything after the savepoint"
    DRAIN = "end the input, take it with the final checkpoint, and finish"
    RESCALE = "resume from the checkpoint with another parallelism: no copy is needed"
    HAND_OVER = "hand the job over to another driver: no copy is needed"


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A request for a savepoint. SavepointEnded answers it once; further requests wait for that
    answer."""

    request: int
    directory: str | None
    """Folder of the savepoint, still empty. None: a checkpoint of the job itself is enough."""
    after: AfterSavepoint
    parallelism: int = 0
    """New parallelism, if the job is rescaled."""
    slots: int | None = None
    """Number of subtasks that can run now, if the job is rescaled; None means enough."""
    why: str = ""
    """Reason for people, if the job rescales by itself."""
    successor: str | None = None
    """Owner of the next driver, if the job is handed over."""
    keep_ms: int = 0
    """Time for which this driver is kept ready after the handover."""


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The manifest has been written."""

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
    """Another driver has written the entry of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class LogFailed:
    """The store failed. Whether the entry exists is unknown until the log is read again."""

    number: int
    error: RheosError


@dataclass(frozen=True, slots=True)
class Recovered:
    """The committables of the restored checkpoint are committed, and stale ones are aborted."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RecoveryFailed:
    attempt: Attempt
    error: RheosError


@dataclass(frozen=True, slots=True)
class Published:
    """The publication requested by PublishOnDriver has succeeded."""

    operator: OperatorId
    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class PublishFailed:
    operator: OperatorId
    checkpoint: CheckpointId
    error: RheosError


@dataclass(frozen=True, slots=True)
class SplitsListed:
    """All splits that a source has now, whichever attempt requested the listing."""

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
    prepared: bool = False
    """Whether its slots had restored state before it began (UP10)."""


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
class SlotsLeft:
    """Every slot of an attempt that was requested to stop has closed its operators. Their processes
    still end. Some launchers report it, before AttemptEnded."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The end of an attempt: nothing of it runs. Reported once for every started attempt."""

    attempt: Attempt


Event: TypeAlias = (
    Start
    | Tick
    | CancelRequested
    | LeaveRequested
    | OtherGone
    | WaitWithdrawn
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
    | SlotsLeft
    | AttemptEnded
    | Acknowledge
    | Decline
    | Committed
    | PhaseRead
    | SplitsRead
    | CaughtUp
    | StopNeeded
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
    """Stopped with a savepoint, or after all input that existed when the run began. Also the end of a
    driver that has handed the job over."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the log. Answered by LogRead or LogUnreadable."""


@dataclass(frozen=True, slots=True)
class PrepareState:
    """Let slots restore this checkpoint ahead of the next attempt (UP10, UP12). Slots that have
    restored an earlier one catch up."""

    restore: Restore
    parallelism: int


@dataclass(frozen=True, slots=True)
class ReadSavepoint:
    """Read the manifest in the folder. Answered by SavepointRead or SavepointUnreadable."""

    directory: str
    thorough: bool = False
    """Whether to check all of its files, too. Needed if the job has checkpoints of its own, because
    they are deleted when it starts from the savepoint."""


@dataclass(frozen=True, slots=True)
class AppendLog:
    """Write an entry of the log. Answered by LogAppended, LogLost or LogFailed."""

    number: int
    entry: LogEntry


@dataclass(frozen=True, slots=True)
class Recover:
    """Commit what the checkpoint lists, then abort what attempts before `attempt` have staged in
    addition. Runs concurrently with everything else, as it may take long. Answered by Recovered or
    RecoveryFailed."""

    attempt: Attempt
    checkpoint: CheckpointCompleted | None
    fresh: bool
    """Whether the job starts from nothing: none of its rows has been published."""


@dataclass(frozen=True, slots=True)
class PublishOnDriver:
    """Commit what a sink has staged. Runs concurrently with everything else, as it may take long.
    Answered by Published or PublishFailed, even if the attempt has ended by then."""

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
    """Start an attempt. Answered by AttemptRunning or AttemptLost, and in the end by AttemptEnded."""

    attempt: Attempt
    restore: Restore | None
    parallelism: int


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """End the attempt, by force if necessary. Answered by AttemptEnded."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SendToAll:
    message: ToTask


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete files that nothing refers to any more. After a failure, useless files remain."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropEntries:
    """Rewrite these entries of the log as tombstones. A failure is harmless."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SweepFiles:
    """Delete the state files of attempts before `attempt`, and files of `attempt` itself for
    checkpoints up to `through`, except for `keep`."""

    attempt: Attempt
    keep: frozenset[str]
    through: CheckpointId | None = None


@dataclass(frozen=True, slots=True)
class Announce:
    """Announce a checkpoint that is in the log, for the status and for collected rows."""

    checkpoint: CheckpointCompleted


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write the savepoint's manifest: its checkpoint is in the log and committed everywhere. Answered
    by SavepointWritten or SavepointNotWritten."""

    request: int
    directory: str
    entry: CheckpointCompleted
    """Entry with the savepoint's handles, without committables."""


@dataclass(frozen=True, slots=True)
class DiscardSavepoint:
    """Delete the files of a failed savepoint in its folder. After a failure, useless files remain, but
    without a manifest they are not a savepoint."""

    directory: str


@dataclass(frozen=True, slots=True)
class SavepointEnded:
    """Answer the request. If `error` is None, the savepoint exists."""

    request: int
    error: RheosError | None = None


@dataclass(frozen=True, slots=True)
class EndJob:
    """End the job; always the last action. `error` is set if the outcome is FAILED."""

    outcome: Outcome
    error: RheosError | None = None
    finished_before: Totals | None = None
    """Counts of the job, if it had already finished according to the log. Nothing was run then."""


Action: TypeAlias = (
    ReadLog
    | PrepareState
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
    """Time from the trigger to the entry in the log."""
    failure: str | None = None
    """Error of the newest checkpoint if it failed; None once another one is complete."""
