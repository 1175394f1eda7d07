"""The coordinator: opens checkpoints, enters them in the log, and takes a job through its attempts.

Pure decisions: `handle(event, now_ms)` returns the actions that follow, and the same events give the
same actions. It reads no clock and does no I/O; whoever drives it carries the actions out and tells it
what came of them. CP numbers are those of docs/protocols/checkpoints.md.

    NEW -> READING -> CLAIMING -> RECOVERING -> STARTING -> RUNNING -> FINISHING -> ENDED
              ^                       |            |           |
              |                       v            v           v
           WAITING <--------------- (restart strategy) <--- STOPPING

This file says what an event means, and what happens while an attempt runs. The ways into and out of an
attempt are in `job_life`; the checkpoints, with what is open, what was asked for, and what is kept, in
`checkpointing`.
"""

from __future__ import annotations

from rheos.checkpoint.events import (
    Action,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    CancelRequested,
    CheckpointStats,
    Event,
    LogAppended,
    LogFailed,
    LogLost,
    LogRead,
    LogUnreadable,
    Outcome,
    Published,
    PublishFailed,
    Recovered,
    RecoveryFailed,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRead,
    SavepointRequested,
    SavepointUnreadable,
    SavepointWritten,
    Start,
    SubtaskFailed,
    Tick,
)
from rheos.checkpoint.job_life import JobLife, Phase
from rheos.checkpoint.log_entries import CheckpointCompleted
from rheos.errors import RheosError
from rheos.protocol.control import Acknowledge, Committed, Decline, Drained, PhaseRead


class Coordinator(JobLife):
    """Owned by the master of one driver."""

    # --- asked from outside -----------------------------------------------------------------------

    @property
    def stats(self) -> CheckpointStats:
        return self._checkpoints.stats

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """The checkpoints that are kept, the oldest first."""
        return self._checkpoints.kept

    def next_deadline_ms(self) -> int | None:
        """When a Tick will next change anything, if nothing else happens."""
        match self.phase:
            case Phase.WAITING:
                return self._resume_ms
            case Phase.RUNNING if self._appending is None:
                return self._checkpoints.deadline_ms()
            case _:
                return None

    def handle(self, event: Event, now_ms: int, wall_ms: int = 0) -> list[Action]:
        """`now_ms` is monotonic; `wall_ms`, the time of day, is only written down."""
        if self.phase is Phase.ENDED:
            if isinstance(event, SavepointRequested):
                self._checkpoints.savepoints.ask(event)
                return self._checkpoints.savepoints.end("the job has ended")
            return []
        actions = self._decide(event, now_ms)
        if self.phase is Phase.RUNNING and self._appending is None:
            actions += self._proceed(now_ms, wall_ms)
        self._check()
        return actions

    def _decide(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case Acknowledge() | Decline() | Committed() | Drained() | PhaseRead():
                # CP5: a zombie is not listened to. Its files go with the sweep of the next attempt.
                own = event.attempt == self.attempt and 0 <= event.subtask < self.parallelism
                return self._told(event, now_ms) if own else []
            case Tick():
                return self._tick(now_ms)
            case LogAppended():
                return self._appended(event.number, now_ms)
            case LogLost():
                return self._log_lost(event.number, now_ms)
            case LogFailed():
                return self._log_failed(event, now_ms)
            case LogRead() | SavepointRead():
                return self._claim(event, now_ms)
            case LogUnreadable() | SavepointUnreadable():
                assert self.phase is Phase.READING
                return self._not_started(event.error, now_ms)
            case Recovered():
                return self._recovered(event)
            case RecoveryFailed():
                assert self.phase is Phase.RECOVERING
                return self._fails_to_start(event.error, now_ms)
            case Published():
                return [
                    *self._checkpoints.publishing.published(event.checkpoint),
                    *self._settle(now_ms),
                ]
            case PublishFailed():
                return self._publish_failed(event, now_ms)
            case AttemptRunning():
                if event.attempt == self.attempt and self.phase is Phase.STARTING:
                    self.phase = Phase.RUNNING
                    self._checkpoints.connected(now_ms)
                return []
            case SubtaskFailed() | AttemptLost():
                return self._failed(event.error, now_ms) if event.attempt == self.attempt else []
            case AttemptEnded():
                return self._ended(event, now_ms)
            case CancelRequested():
                return self._leave(Outcome.CANCELLED)
            case SavepointRequested():
                self._checkpoints.savepoints.ask(event)
                return []
            case SavepointWritten():
                return self._savepoint_written(event)
            case SavepointNotWritten():
                failed = self._checkpoints.savepoints.not_written(event.request, event.error)
                return [*failed, *self._go_on()]
            case Start():
                assert self.phase is Phase.NEW
                return self._read_log()

    # --- while it runs ----------------------------------------------------------------------------

    def _told(
        self, event: Acknowledge | Decline | Committed | Drained | PhaseRead, now_ms: int
    ) -> list[Action]:
        running = self.phase is Phase.RUNNING
        match event:
            case Acknowledge():
                self._checkpoints.acknowledge(event, now_ms, running)
            case Drained() if running or self.phase is Phase.STARTING:
                self._checkpoints.drained(event.subtask)
            case Decline() if running:
                return self._aborted(*self._checkpoints.decline(event, now_ms), now_ms)
            case PhaseRead() if running or self.phase is Phase.STARTING:
                return self._phases.told(event)
            case Committed() if running:
                return [*self._checkpoints.committed(event), *self._go_on()]
            case _:
                pass
        return []

    def _tick(self, now_ms: int) -> list[Action]:
        if self.phase is Phase.WAITING and now_ms >= self._resume_ms:
            self.restarts += self.shortage is None
            return self._read_log()
        if self.phase is Phase.RUNNING:
            again = self._checkpoints.publishing.tick(now_ms)
            return [*again, *self._aborted(*self._checkpoints.overdue(now_ms), now_ms)]
        return []

    def _publish_failed(self, event: PublishFailed, now_ms: int) -> list[Action]:
        """As a commit that fails in a task does, so one that goes on failing fails the attempt."""
        error = self._checkpoints.publishing.failed(event.checkpoint, event.error, now_ms)
        return self._settle(now_ms) if error is None else self._failed(error, now_ms)

    def _aborted(self, told: list[Action], error: RheosError | None, now_ms: int) -> list[Action]:
        return told if error is None else [*told, *self._failed(error, now_ms)]

    def _proceed(self, now_ms: int, wall_ms: int) -> list[Action]:
        """Enters what is complete, or opens what is due: one entry is written at a time (CP1)."""
        entry = self._checkpoints.entry(wall_ms)
        return self._checkpoints.proceed(now_ms) if entry is None else self._append(entry)

    def _go_on(self) -> list[Action]:
        """A commit has come in, or a savepoint is settled: does anything follow?"""
        if self.phase is Phase.RUNNING and self._appending is None and self._checkpoints.is_done():
            self.phase = Phase.FINISHING
            return self._append(self._checkpoints.finished())
        if self.phase is Phase.RECOVERING and self._is_recovered:
            return self._start_attempt()
        return []

    def _savepoint_written(self, event: SavepointWritten) -> list[Action]:
        stops = self._checkpoints.savepoints.written(event.request)
        if stops is None:
            return []
        return [
            SavepointEnded(event.request),
            *(self._leave(Outcome.STOPPED) if stops else self._go_on()),
        ]

    def _check(self) -> None:
        """What holds after every event."""
        self._checkpoints.check()
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            assert self._attempt_lives
        if self.phase in (Phase.READING, Phase.CLAIMING, Phase.RECOVERING, Phase.WAITING):
            assert not self._attempt_lives, "CP6: the attempt before has ended"
