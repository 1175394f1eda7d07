"""The messages between the master and the subtasks. Every message carries its attempt.

Subtasks send `ToMaster` messages, the master `ToTask` ones. A message of another attempt is ignored.
"""

from __future__ import annotations

import msgspec

from rheos.core.protocol.accumulated import Accumulated
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
    """Take checkpoint `checkpoint`: sources emit its barrier, ended chains snapshot at once."""

    checkpoint: CheckpointId
    savepoint: str | None = None
    """A directory or URL. If it is set, the checkpoint is a savepoint, too: in addition to the
    checkpoint's own parts, the whole state is written there. Its barriers are of kind SAVEPOINT."""


class CheckpointComplete(Message, frozen=True):
    """The checkpoint is in the log: sinks commit it and all before it, except those that the driver
    publishes."""

    checkpoint: CheckpointId


class SinkPublished(Message, frozen=True):
    """The driver has published what the sink staged up to the checkpoint."""

    operator: OperatorId
    checkpoint: CheckpointId


class CheckpointAborted(Message, frozen=True):
    checkpoint: CheckpointId


class Drain(Message, frozen=True):
    """Sources stop reading as if their input had ended: windows fire, and all ends with the final
    checkpoint."""


class OpenPhase(Message, frozen=True):
    """All splits of the source's phases below `phase` are read, in all subtasks."""

    operator: OperatorId
    phase: int


class SplitsFound(Message, frozen=True):
    """Splits that the source has had for a while or has now: those that the subtask does not know yet
    are dealt out in this order. Answered by SplitsTaken."""

    operator: OperatorId
    before: int
    """Number of splits of this source that were sent in this attempt before these."""
    splits: list[Split]
    gone: list[str] = []
    """Splits that are not in the source any more, by id. They are forgotten once they may be."""
    whole: bool = False
    """With these, all was announced that is in the source."""


class Align(Message, frozen=True):
    """The slowest split of the source is there, of those that count in any subtask; None where none
    does. Those that are too far ahead of it are not read."""

    operator: OperatorId
    least_ms: int | None


class SampleStacks(Message, frozen=True):
    """Asks a subtask to sample its stack at an interval, for some time. The host of the slot answers
    with StacksSampled, concurrently with the slot's work."""

    request: int
    for_ms: int
    every_ms: int


class Finish(Message, frozen=True):
    """The final checkpoint is committed everywhere: leave."""


class Cancel(Message, frozen=True):
    """Stop output at once and leave."""

    replaced: bool = False
    """The attempt has failed: another may wait for the slot, and nobody wants what is under way."""


# --- from a subtask to the master ---------------------------------------------------------------


class CommittableHandle(msgspec.Struct, frozen=True):
    """Output that a sink subtask has staged for one checkpoint."""

    operator: OperatorId
    payload: bytes


class Totals(msgspec.Struct, frozen=True):
    """Counts of a subtask since its attempt began, or of a whole job since it began."""

    records_in: dict[str, int] = {}
    """By operator id."""
    records_out: dict[str, int] = {}
    counters: dict[str, int] = {}
    """By "operator id/name"."""
    accumulated: dict[str, Accumulated] = {}
    """Likewise."""

    def plus(self, other: Totals) -> Totals:
        nothing = Accumulated()
        return Totals(
            _added(self.records_in, other.records_in),
            _added(self.records_out, other.records_out),
            _added(self.counters, other.counters),
            {
                name: self.accumulated.get(name, nothing).plus(other.accumulated.get(name, nothing))
                for name in {**self.accumulated, **other.accumulated}
            },
        )


def _added(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


class Cost(msgspec.Struct, frozen=True):
    """Cost of a checkpoint for a subtask."""

    sync_us: int = 0
    """Time for which processing was paused: the sum of all operators' synchronous parts."""
    align_us: int = 0
    """From the first barrier to the last one, in the chain that waited longest."""
    async_us: int = 0
    """From the end of the synchronous part to the last byte written."""
    written_bytes: int = 0
    """Number of newly written bytes, without those shared with earlier checkpoints."""
    in_flight_bytes: int = 0
    """Rows between subtasks that an unaligned checkpoint has stored."""
    unaligned: bool = False

    def plus(self, other: Cost) -> Cost:
        """The cost of both: times the longest of each, sizes together."""
        return Cost(
            max(self.sync_us, other.sync_us),
            max(self.align_us, other.align_us),
            max(self.async_us, other.async_us),
            self.written_bytes + other.written_bytes,
            self.in_flight_bytes + other.in_flight_bytes,
            self.unaligned or other.unaligned,
        )


class Acknowledge(Message, frozen=True):
    """The subtask's share of a checkpoint is written."""

    subtask: int
    checkpoint: CheckpointId
    handles: list[StateHandle]
    committables: list[CommittableHandle]
    """All that is staged and not yet committed, of this checkpoint and of earlier ones."""
    totals: Totals = Totals()
    """Counts at the barrier. The log keeps them, so that rows replayed after a failure are not counted
    twice."""
    savepoint_handles: list[StateHandle] = []
    """For a savepoint: handles of the whole state, with paths in the savepoint's directory."""
    savepoint_error: str = ""
    """Why the savepoint could not be written, though the checkpoint could."""
    cost: Cost = Cost()


class Decline(Message, frozen=True):
    """The subtask could not take the checkpoint (its state could not be written)."""

    subtask: int
    checkpoint: CheckpointId
    reason: str


class Committed(Message, frozen=True):
    """The subtask's sinks have committed everything up to the checkpoint."""

    subtask: int
    checkpoint: CheckpointId


class PhaseRead(Message, frozen=True):
    """The subtask has read all of its splits of the source's phases below `phase`."""

    subtask: int
    operator: OperatorId
    phase: int


class CaughtUp(Message, frozen=True):
    """In a run as of now: the subtask has given all that it is to give of the source."""

    subtask: int
    operator: OperatorId


class SplitsTaken(Message, frozen=True):
    """The subtask knows this many of the source's splits that were sent in this attempt: all up to
    there."""

    subtask: int
    operator: OperatorId
    taken: int


class Reached(Message, frozen=True):
    """The watermark of the slowest split of the source that the subtask reads, without idle splits;
    None if it reads no such split."""

    subtask: int
    operator: OperatorId
    watermark_ms: int | None


class StacksSampled(Message, frozen=True):
    request: int
    profile: StackProfile


class Logged(Message, frozen=True):
    """Lines that were logged in the subtask's process since the last message, in order."""

    subtask: int
    lines: list[LogLine]
    dropped: int = 0
    """Number of lines that were dropped because of the bound."""


class Drained(Message, frozen=True):
    """All input of the subtask has ended and is processed; it waits for the final checkpoint."""

    subtask: int


class Failed(Message, frozen=True):
    """The subtask has failed."""

    subtask: int
    error: ErrorData


class Progress(Message, frozen=True):
    """The subtask's metrics, sent about once a second; totals since the attempt began."""

    subtask: int
    step_us: int
    """Time of the main loop's last step, by the subtask's monotonic clock."""
    records_in: dict[str, int]
    """By operator id."""
    records_out: dict[str, int]
    watermark_ms: dict[str, int]
    busy_us: int
    blocked_us: int
    """Time in which work was at hand and no credit to emit it: back-pressure."""
    counters: dict[str, int]
    """Further counts, such as `late` or `skipped`, by "operator id/name"."""
    strangers: int = 0
    """Frames and connections of strangers that its data socket has dropped."""
    accumulated: dict[str, Accumulated] = {}
    """Accumulators of functions, by "operator id/name"."""
    gauges: dict[str, float] = {}
    """Current values of functions' gauges, by "operator id/name"."""
    readings: list[Reading] = []
    """Readings of all other metrics of a subtask."""


LAPS = "laps since the input ended"
"""The gauge that the head of a loop shows."""


ToTask = (
    TriggerCheckpoint
    | CheckpointComplete
    | SinkPublished
    | CheckpointAborted
    | Drain
    | OpenPhase
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
    | CaughtUp
    | SplitsTaken
    | Reached
    | StacksSampled
    | Logged
    | Drained
    | Failed
    | Progress
)
