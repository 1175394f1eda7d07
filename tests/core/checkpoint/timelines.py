"""A coordinator on a timeline: events in, actions out, with its log."""

from __future__ import annotations

from typing import Self

import msgspec

from rheos.core.checkpoint.config import CheckpointConfig, FixedDelay
from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    Announce,
    AppendLog,
    AttemptRunning,
    Event,
    JobShape,
    LogAppended,
    LogRead,
    ReadLog,
    Recovered,
    Start,
    WriteSavepoint,
)
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobCounts,
    JobFinished,
    LogEntry,
    NumberedCheckpoint,
    Origin,
)
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.protocol.control import Acknowledge, CommittableHandle, Committed, Drained, Totals
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind

COUNT = OperatorId("count")
SINK = OperatorId("sink")
SHAPE = JobShape({COUNT: "count per user", SINK: "files"}, parallelism=2, max_parallelism=8)
CONFIG = CheckpointConfig(
    interval_ms=1000,
    timeout_ms=5000,
    retain=2,
    tolerable_failures=1,
    restart=FixedDelay(attempts=3, delay_ms=500),
)


def handle(
    path: str = "",
    *,
    subtask: int = 0,
    operator: str = COUNT,
    state: str = "counts",
    kind: StateKind = StateKind.KEYED,
    mode: PartMode = PartMode.FULL,
    rows: int = 1,
    inline: bytes = b"",
    checksum: int = 0,
    size_bytes: int = 10,
) -> StateHandle:
    return StateHandle(
        operator=OperatorId(operator),
        subtask=subtask,
        state=state,
        kind=kind,
        mode=mode,
        size_bytes=size_bytes,
        rows=rows,
        checksum=checksum,
        path=path,
        inline=inline,
    )


def file(attempt: int, checkpoint: int, subtask: int) -> str:
    return f"job/state/{attempt}/{checkpoint}/count/{subtask}-counts.arrow"


def acknowledge(
    subtask: int,
    checkpoint: int,
    attempt: int = 1,
    paths: tuple[str, ...] | None = None,
    late: int = 0,
    savepoint: bool = False,
    savepoint_error: str = "",
) -> Acknowledge:
    paths = (file(attempt, checkpoint, subtask),) if paths is None else paths
    return Acknowledge(
        attempt=Attempt(attempt),
        subtask=subtask,
        checkpoint=CheckpointId(checkpoint),
        handles=[handle(path, subtask=subtask) for path in paths],
        committables=[CommittableHandle(SINK, f"{attempt}/{checkpoint}/{subtask}".encode())],
        totals=Totals(counters={"count/late": late}) if late else Totals(),
        savepoint_handles=[saved(subtask)] if savepoint else [],
        savepoint_error=savepoint_error,
    )


def saved(subtask: int) -> StateHandle:
    """Return a subtask's part of a savepoint."""
    return handle(f"state/count/{subtask}-counts-0.arrow", subtask=subtask)


def completed(
    checkpoint: int,
    attempt: int = 1,
    *,
    owner: str = "me",
    final: bool = False,
    reserved: int = 1,
    savepoint: str = "",
    origin: Origin | None = None,
) -> CheckpointCompleted:
    """Return the entry that results from `acknowledge` of both subtasks."""
    shares = [acknowledge(subtask, checkpoint, attempt) for subtask in (0, 1)]
    return CheckpointCompleted(
        attempt=Attempt(attempt),
        owner=owner,
        reserved_to=CheckpointId(checkpoint + 1 + reserved),
        checkpoint=CheckpointId(checkpoint),
        final=final,
        parallelism=2,
        max_parallelism=8,
        operators=dict(SHAPE.operators),
        handles=[part for share in shares for part in share.handles],
        committables=[part for share in shares for part in share.committables],
        savepoint=savepoint,
        origin=origin,
    )


def view_of(*entries: LogEntry) -> LogView:
    """Return the view of a log with these entries, from number 1 on."""
    kept = tuple(
        NumberedCheckpoint(number, entry)
        for number, entry in enumerate(entries, 1)
        if isinstance(entry, CheckpointCompleted)
    )
    return LogView(len(entries) + 1, entries[-1] if entries else None, kept)


def _timeless(action: Action) -> Action:
    """Remove durations, counts and the list of kept entries, which other tests check."""
    match action:
        case AppendLog(number, CheckpointCompleted() as entry):
            return AppendLog(number, _plain(entry))
        case AppendLog(number, JobFinished() as entry):
            return AppendLog(number, msgspec.structs.replace(entry, kept=None, counts=JobCounts()))
        case AppendLog(number, AttemptStarted() as entry):
            return AppendLog(number, msgspec.structs.replace(entry, counts=JobCounts()))
        case Announce(entry):
            return Announce(_plain(entry))
        case WriteSavepoint(request, directory, entry):
            return WriteSavepoint(request, directory, _plain(entry))
    return action


def _plain(entry: CheckpointCompleted) -> CheckpointCompleted:
    return msgspec.structs.replace(entry, duration_ms=0, kept=None, counts=JobCounts())


class Timeline:
    """Passes events to a coordinator. `log` has the entries that it appended, and those that it was
    shown."""

    def __init__(
        self,
        config: CheckpointConfig = CONFIG,
        log: list[LogEntry] | None = None,
        shape: JobShape = SHAPE,
        *,
        from_savepoint: str | None = None,
        allow_dropped: bool = False,
        min_parallelism: int | None = None,
    ) -> None:
        self.coordinator = Coordinator(
            JobId("job"),
            "me",
            config,
            shape,
            "DIR",
            from_savepoint=from_savepoint,
            upgrade=Upgrade(allow_dropped),
            min_parallelism=min_parallelism,
        )
        self.log = list(log or [])

    def at(self, now_ms: int, *events: Event) -> list[Action]:
        """Return all resulting actions. Times are removed from entries, so that they can be compared as
        a whole."""
        actions = [action for event in events for action in self.coordinator.handle(event, now_ms)]
        return [_timeless(action) for action in actions]

    def log_takes(self, now_ms: int, action: Action) -> list[Action]:
        """Let the log accept the entry."""
        assert isinstance(action, AppendLog)
        assert action.number == len(self.log) + 1
        self.log.append(action.entry)
        return self.at(now_ms, LogAppended(action.number))

    def view(self) -> LogView:
        return view_of(*self.log)

    def claims(self, now_ms: int) -> list[Action]:
        """Play from reading the log until the claim is in it."""
        [claim] = self.at(now_ms, LogRead(self.view()))
        return self.log_takes(now_ms, claim)

    def starts(self, now_ms: int = 0) -> list[Action]:
        """Play from the beginning to the request to start an attempt."""
        assert self.at(now_ms, Start()) == [ReadLog()]
        self.claims(now_ms)
        return self.at(now_ms, Recovered(self.coordinator.attempt))

    def runs(self, now_ms: int = 0) -> Self:
        """Play from the beginning to a running attempt."""
        self.starts(now_ms)
        assert self.at(now_ms, AttemptRunning(self.coordinator.attempt)) == []
        return self

    def completes(self, now_ms: int, checkpoint: int) -> list[Action]:
        """Let all subtasks acknowledge and the log accept the entry; return the actions."""
        attempt = self.coordinator.attempt
        shares = [acknowledge(subtask, checkpoint, attempt) for subtask in (0, 1)]
        [append] = self.at(now_ms, *shares)
        return self.log_takes(now_ms, append)

    def drains(self, now_ms: int) -> list[Action]:
        attempt = self.coordinator.attempt
        return self.at(now_ms, *(Drained(attempt=attempt, subtask=i) for i in (0, 1)))

    def commits(self, now_ms: int, checkpoint: int) -> list[Action]:
        attempt = self.coordinator.attempt
        told = [
            Committed(attempt=attempt, subtask=i, checkpoint=CheckpointId(checkpoint)) for i in (0, 1)
        ]
        return self.at(now_ms, *told)
