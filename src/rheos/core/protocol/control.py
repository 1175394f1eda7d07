"""Messages between the master and the subtasks. Every message carries its attempt.

Subtasks send `ToMaster` messages, the master `ToTask` ones. A message of another attempt is ignored.
"""

from __future__ import annotations

import msgspec

from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.log_lines import LogLine
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.protocol.splits import Split
from rheos.core.protocol.stacks import StackProfile


class Message(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    attempt: Attempt


# --- from the master to a subtask ---------------------------------------------------------------


class TriggerCheckpoint(Message, frozen=True):
    """Starts checkpoint `checkpoint`: sources emit its barrier, and ended chains snapshot at once."""

    checkpoint: CheckpointId
    savepoint: str | None = None
    """Directory or URL of a savepoint; None for a plain checkpoint. In addition to the checkpoint's own
    parts, the whole state is written there. The barriers are of kind SAVEPOINT."""


class CheckpointComplete(Message, frozen=True):
    """Announces that the checkpoint is in the log. Sinks commit up to it, except what the driver
    publishes."""

    checkpoint: CheckpointId


class SinkPublished(Message, frozen=True):
    """Announces that the driver has published what the sink staged up to the checkpoint."""

    operator: OperatorId
    checkpoint: CheckpointId


class CheckpointAborted(Message, frozen=True):
    checkpoint: CheckpointId


class Drain(Message, frozen=True):
    """Tells sources to stop as if their input had ended. Windows fire; the final checkpoint ends the
    job."""


class OpenPhase(Message, frozen=True):
    """Announces that all subtasks have read all splits of the source's phases below `phase`."""

    operator: OperatorId
    phase: int


class SplitsEnded(Message, frozen=True):
    """Announces splits of the source that were read to their ends."""

    operator: OperatorId
    splits: list[str]


class SplitsFound(Message, frozen=True):
    """Splits of the source that may be new. Each subtask takes its share of those that it does not know
    yet, in this order. The subtask answers with SplitsTaken."""

    operator: OperatorId
    before: int
    """Number of splits of this source that were sent earlier in this attempt."""
    splits: list[Split]
    gone: list[str] = []
    """Ids of splits that are no longer in the source. Subtasks forget them as soon as the rules of
    `ForgetsSplits` allow it."""
    whole: bool = False
    """Whether this message completes the announcement of all splits in the source."""


class Align(Message, frozen=True):
    """Progress of the slowest split of the source, over all subtasks; None if no split counts. Subtasks
    pause splits that are too far ahead of that split."""

    operator: OperatorId
    least_ms: int | None


class SampleStacks(Message, frozen=True):
    """Requests samples of a subtask's stack at an interval, for some time. The host of the slot answers
    with StacksSampled, concurrently with the slot's work."""

    request: int
    for_ms: int
    every_ms: int


class Finish(Message, frozen=True):
    """Announces that the final checkpoint is committed everywhere. The subtask then exits."""


class Cancel(Message, frozen=True):
    """Tells the subtask to stop its output at once and to exit."""

    replaced: bool = False
    """Whether the attempt has failed. The next attempt may be waiting for the slot, so the subtask
    abandons its work."""


# --- from a subtask to the master ---------------------------------------------------------------


class CommittableHandle(msgspec.Struct, frozen=True):
    """Output that a sink subtask has staged for one checkpoint."""

    operator: OperatorId
    payload: bytes


class Totals(msgspec.Struct, frozen=True):
    """Counts of a subtask since its attempt began, or of a job since it began."""

    records_in: dict[str, int] = {}
    """Number of rows by operator id."""
    records_out: dict[str, int] = {}
    counters: dict[str, int] = {}
    """Counters by "operator id/name"."""
    accumulated: dict[str, Accumulated] = {}
    """Accumulated numbers by "operator id/name"."""

    def plus(self, other: Totals) -> Totals:
        nothing = Accumulated()
        return Totals(
            _add_counts(self.records_in, other.records_in),
            _add_counts(self.records_out, other.records_out),
            _add_counts(self.counters, other.counters),
            {
                name: self.accumulated.get(name, nothing).plus(other.accumulated.get(name, nothing))
                for name in {**self.accumulated, **other.accumulated}
            },
        )


def _add_counts(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


class Cost(msgspec.Struct, frozen=True):
    """Cost of a checkpoint for a subtask."""

    sync_us: int = 0
    """Time for which processing was paused: the sum of all operators' synchronous parts."""
    align_us: int = 0
    """Time from the first barrier to the last, in the chain where it was longest."""
    async_us: int = 0
    """Time from the end of the synchronous part until the last byte was written."""
    written_bytes: int = 0
    """Number of newly written bytes, excluding those shared with earlier checkpoints."""
    in_flight_bytes: int = 0
    """Size of the rows between subtasks that an unaligned checkpoint has stored."""
    unaligned: bool = False

    def plus(self, other: Cost) -> Cost:
        """Combine two costs: the longer of both times, and the sum of both sizes."""
        return Cost(
            max(self.sync_us, other.sync_us),
            max(self.align_us, other.align_us),
            max(self.async_us, other.async_us),
            self.written_bytes + other.written_bytes,
            self.in_flight_bytes + other.in_flight_bytes,
            self.unaligned or other.unaligned,
        )


class Acknowledge(Message, frozen=True):
    """Reports that the subtask has written its share of a checkpoint."""

    subtask: int
    checkpoint: CheckpointId
    handles: list[StateHandle]
    committables: list[CommittableHandle]
    """All staged output that is not yet committed, of this checkpoint and of earlier ones."""
    totals: Totals = Totals()
    """Counts at the barrier. The log stores them so that replayed rows are not counted twice."""
    savepoint_handles: list[StateHandle] = []
    """For a savepoint: handles of the whole state, with paths in the savepoint's directory."""
    savepoint_error: str = ""
    """Error that prevented the savepoint, although the checkpoint succeeded."""
    cost: Cost = Cost()


class Decline(Message, frozen=True):
    """Reports that the subtask could not take the checkpoint, for example because its state could not
    be written."""

    subtask: int
    checkpoint: CheckpointId
    reason: str


class Committed(Message, frozen=True):
    """Reports that the subtask's sinks have committed everything up to the checkpoint."""

    subtask: int
    checkpoint: CheckpointId


class PhaseRead(Message, frozen=True):
    """Reports that the subtask has read all of its splits of the source's phases below `phase`."""

    subtask: int
    operator: OperatorId
    phase: int


class SplitsRead(Message, frozen=True):
    """Reports splits of the source that the subtask has read to their ends. Its first report may be
    empty: it can receive announcements from then on."""

    subtask: int
    operator: OperatorId
    splits: list[str]


class CaughtUp(Message, frozen=True):
    """Reports, in a run over the available input, that the subtask has emitted all its rows of the
    source."""

    subtask: int
    operator: OperatorId


class StopNeeded(Message, frozen=True):
    """Reports that a source cannot continue with this program: the job must stop, with the positions at
    which its readers are now."""

    subtask: int
    operator: OperatorId
    reason: str


class SplitsTaken(Message, frozen=True):
    """Number of the source's splits that the subtask knows, counted in the order in which they were
    sent in this attempt."""

    subtask: int
    operator: OperatorId
    taken: int


class SourceWatermark(Message, frozen=True):
    """Watermark of the slowest split of the source in the subtask, ignoring idle splits; None if it
    reads no such split."""

    subtask: int
    operator: OperatorId
    watermark_ms: int | None


class StacksSampled(Message, frozen=True):
    request: int
    profile: StackProfile


class Logged(Message, frozen=True):
    """Log lines of the subtask's process since the previous message, in order."""

    subtask: int
    lines: list[LogLine]
    dropped: int = 0
    """Number of lines dropped because of the limit."""


class Drained(Message, frozen=True):
    """Reports that the subtask has processed all its input, and waits for the final checkpoint."""

    subtask: int


class Failed(Message, frozen=True):
    """Reports that the subtask has failed."""

    subtask: int
    error: ErrorData


class Progress(Message, frozen=True):
    """The subtask's metrics, sent about once a second; totals since the attempt began."""

    subtask: int
    step_us: int
    """Time of the last step of the main loop, on the subtask's monotonic clock."""
    records_in: dict[str, int]
    """Number of rows by operator id."""
    records_out: dict[str, int]
    watermark_ms: dict[str, int]
    busy_us: int
    blocked_us: int
    """Time of backpressure: rows could be processed, but no credit was left to emit them."""
    counters: dict[str, int]
    """Further counts, such as `late` or `skipped`, by "operator id/name"."""
    strangers: int = 0
    """Number of frames and connections of unauthenticated peers dropped by the data socket."""
    accumulated: dict[str, Accumulated] = {}
    """Accumulators of functions, by "operator id/name"."""
    gauges: dict[str, float] = {}
    """Current values of functions' gauges, by "operator id/name"."""
    readings: list[Reading] = []
    """Readings of all other metrics of the subtask."""


LAPS = "laps since the input ended"
"""Gauge at the head of a loop."""


ToTask = (
    TriggerCheckpoint
    | CheckpointComplete
    | SinkPublished
    | CheckpointAborted
    | Drain
    | OpenPhase
    | SplitsEnded
    | SplitsFound
    | Align
    | SampleStacks
    | Finish
    | Cancel
)
ToMaster = (
    Acknowledge
    | Decline
    | Committed
    | PhaseRead
    | SplitsRead
    | CaughtUp
    | StopNeeded
    | SplitsTaken
    | SourceWatermark
    | StacksSampled
    | Logged
    | Drained
    | Failed
    | Progress
)
