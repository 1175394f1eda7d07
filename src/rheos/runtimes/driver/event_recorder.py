"""The recorder of a job's event log, from what the coordinator handles and decides. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import assert_never

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AfterSavepoint,
    AppendLog,
    AttemptLost,
    AttemptRunning,
    EndJob,
    Event,
    JobShape,
    LogRead,
    OtherGone,
    Outcome,
    SavepointEnded,
    SavepointRequested,
    SendToAll,
    StartAttempt,
    SubtaskFailed,
    Tick,
)
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, LogEntry
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import FencedError, RheosError, WorkerLostError
from rheos.core.metrics.event_log import EventKind, EventLevel, EventLog, OngoingCondition
from rheos.core.metrics.health import FindingKind, JobHealth, Severity
from rheos.core.protocol.control import CheckpointAborted, Decline
from rheos.core.redaction import redacted
from rheos.runtimes.job import Predecessor

_MAX_NAMES = 5
_WITH_OWN_EVENTS = (
    FindingKind.FAILED,
    FindingKind.NOT_RUNNING,
    FindingKind.RESTARTS,
    FindingKind.CHECKPOINTS,
)
_ENDED_BEFORE = {
    Outcome.FINISHED: "had finished",
    Outcome.CANCELLED: "had been cancelled",
    Outcome.STOPPED: "had been stopped",
    Outcome.FAILED: "had failed",
}


class EventRecorder:
    """A recorder of one driver's events. The master calls it after each event of the coordinator."""

    def __init__(
        self, log: EventLog, shape: JobShape, driver: str, predecessor: Predecessor | None
    ) -> None:
        self._log = log
        self._shape = shape
        self._driver = driver
        self._predecessor = predecessor
        self._newest: LogEntry | None = None
        """Newest entry of the log when this driver started."""
        self._began = False
        self._restored = ""
        """Description of the state from which the attempt starts."""
        self._start: tuple[str, str] | None = None
        """The event of this driver's start, until the job runs; and its outcome."""
        self._restart: str | None = None
        """The event of a restart, until the job runs."""
        self._restart_cause = ""
        self._shortage: RheosError | None = None
        """The event of a lack of slots, while the job waits for them."""
        self._failed_subtask: int | None = None
        self._requests: dict[int, str] = {}
        """Events of requested savepoints and rescales, by the number of the request."""

    def note(
        self,
        before: LifecycleState,
        event: Event,
        actions: Sequence[Action],
        coordinator: Coordinator,
        wall_ms: int,
    ) -> None:
        """Record the result of one event.

        Args:
            before: state of the job before the event.
            event: the event that the coordinator has handled.
            actions: the actions that it has decided.
            coordinator: the coordinator after the event.
            wall_ms: the wall-clock time.
        """
        after = coordinator.state
        if isinstance(event, LogRead) and not self._began:
            self._newest = event.view.newest
        if isinstance(event, OtherGone) and event.lost is not None and not self._began:
            self._predecessor = Predecessor(event.lost, released=False, seen_ms=event.seen_ms)
        if isinstance(event, SavepointRequested):
            self._requested(event, coordinator, wall_ms)
        if isinstance(event, Decline | Tick):
            self._checkpoints_failed(actions, coordinator, wall_ms)
        if after is LifecycleState.STOPPING and before is not after:
            self._failed_subtask = None
            if isinstance(event, SubtaskFailed):
                self._failed_subtask = event.subtask
            elif isinstance(event, AttemptLost) and isinstance(event.error, WorkerLostError):
                self._failed_subtask = event.error.subtask
            if coordinator.last_error is not None:
                self._failed(coordinator.last_error, coordinator, wall_ms)
        for action in actions:
            match action:
                case AppendLog(entry=AttemptStarted()):
                    if not self._began:
                        self._begin(wall_ms, coordinator)
                    elif coordinator.situation is not None and self._start is None:
                        self._taken_back(coordinator.situation, wall_ms, coordinator)
                case StartAttempt():
                    self._starting(action, wall_ms)
                case SavepointEnded():
                    self._answered(action, wall_ms)
                case _:
                    pass
        if after is LifecycleState.WAITING and before is not after:
            self._waiting(before, coordinator, wall_ms)
        if after is LifecycleState.RUNNING and before is LifecycleState.STARTING:
            self._running(wall_ms, prepared=isinstance(event, AttemptRunning) and event.prepared)
        for action in actions:
            if isinstance(action, EndJob) and before is not LifecycleState.AWAITING:
                self._ended(action, coordinator.stop_reason, wall_ms)

    # --- start of this driver ---------------------------------------------------------------------

    def _begin(self, wall_ms: int, coordinator: Coordinator) -> None:
        self._began = True
        by = f" by {self._driver}" if self._driver else ""
        before, attempt = self._predecessor, coordinator.attempt
        is_named = coordinator.situation is Situation.NAMED
        if not is_named and self._newest is not None and before is not None and not before.released:
            at_ms = wall_ms if before.seen_ms is None else min(before.seen_ms, wall_ms)
            id = self._log.add(
                at_ms,
                EventKind.TAKEOVER,
                f"the driver was lost ({before.driver})",
                level=EventLevel.WARNING,
                ongoing=True,
                attempt=attempt,
            )
            self._start = id, f"taken over{by}"
            return
        if is_named:
            what = f"handed over to {self._driver}" if self._driver else "handed over"
        elif self._newest is None:
            what = f"started{by}"
        elif before is not None and before.outcome is not None:
            what = f"started again{by}; the job {_ENDED_BEFORE[before.outcome]}"
        else:
            what = f"resumed{by}"
        id = self._log.add(wall_ms, EventKind.STARTED, what, ongoing=True, attempt=attempt)
        self._start = id, "running"

    def _taken_back(self, situation: Situation, wall_ms: int, coordinator: Coordinator) -> None:
        """Record that a driver claims the job again that it has handed over."""
        to = f" {self._driver}" if self._driver else " the earlier driver"
        is_lost = situation in (Situation.OFFERED, Situation.TAKEN)
        what = f"taken back by{to}, as its successor was lost" if is_lost else f"handed back to{to}"
        id = self._log.add(
            wall_ms,
            EventKind.STARTED,
            what,
            level=EventLevel.WARNING if is_lost else EventLevel.INFO,
            ongoing=True,
            attempt=coordinator.attempt,
        )
        self._start = id, "running"

    def _starting(self, action: StartAttempt, wall_ms: int) -> None:
        self._restored = _restored(action.restore)
        if action.restore is None or self._start is None:
            return
        changes = program_changes(action.restore.entry, self._shape)
        if changes:
            source = "continues" if action.restore.origin is None else f"continues{self._restored}"
            self._log.add(
                wall_ms,
                EventKind.UPGRADE,
                f"{source} with a changed program: {changes}",
                attempt=action.attempt,
                same="upgrade",
            )

    def _running(self, wall_ms: int, *, prepared: bool) -> None:
        slots = ", on prepared slots" if prepared else ""
        if self._start is not None:
            id, outcome = self._start
            self._log.end(id, wall_ms, f"{outcome}{self._restored} after {{span}}{slots}")
            self._start = None
        if self._restart is not None:
            self._log.end(self._restart, wall_ms, f"restarted in {{span}}{slots}")
        self._restart = self._shortage = None

    # --- failures ---------------------------------------------------------------------------------

    def _failed(self, error: RheosError, coordinator: Coordinator, wall_ms: int) -> None:
        """Record that an attempt has failed, or cannot start. The event is open until the job runs."""
        cause = re.sub(r"\d+", "#", f"{type(error).__name__} {error.what}")
        if self._restart is not None and cause != self._restart_cause:
            self._log.end(self._restart, wall_ms, "the restart failed after {span}")
        self._restart_cause = cause
        self._restart = self._log.add(
            wall_ms,
            EventKind.RESTART,
            redacted(error.what),
            level=EventLevel.WARNING,
            same=f"restart {cause}",
            ongoing=True,
            detail=redacted(str(error)),
            attempt=coordinator.attempt,
            operator=error.operator,
            subtask=self._failed_subtask,
        )

    def _waiting(self, before: LifecycleState, coordinator: Coordinator, wall_ms: int) -> None:
        error = coordinator.shortage or coordinator.last_error
        if error is None:
            return
        if before is LifecycleState.STOPPING and self._restart is not None:
            # The first error of the attempt need not be the one that explains the others.
            what, detail = redacted(error.what), redacted(str(error))
            self._log.amend(self._restart, what, detail, error.operator)
        elif error is not coordinator.shortage or self._shortage is None:
            self._shortage = coordinator.shortage  # The coordinator looks for slots again and again.
            self._failed_subtask = None
            self._failed(error, coordinator, wall_ms)

    def _checkpoints_failed(
        self, actions: Sequence[Action], coordinator: Coordinator, wall_ms: int
    ) -> None:
        for action in actions:
            match action:
                case SendToAll(CheckpointAborted(checkpoint=checkpoint)):
                    reason = coordinator.stats.failure or "unknown reason"
                    self._log.add(
                        wall_ms,
                        EventKind.CHECKPOINT,
                        f"checkpoint {checkpoint} failed: {redacted(reason)}",
                        level=EventLevel.WARNING,
                        same="checkpoint",
                        attempt=coordinator.attempt,
                    )
                case _:
                    pass

    # --- requests ---------------------------------------------------------------------------------

    def _requested(self, event: SavepointRequested, coordinator: Coordinator, wall_ms: int) -> None:
        place = f" in {redacted(event.directory)}" if event.directory else ""
        kind = EventKind.SAVEPOINT
        match event.after:
            case AfterSavepoint.GO_ON:
                what = f"savepoint{place}"
            case AfterSavepoint.STOP:
                what = f"stop with a savepoint{place}"
            case AfterSavepoint.DRAIN:
                what = f"stop with a savepoint{place} after all input"
            case AfterSavepoint.RESCALE:
                kind = EventKind.RESCALE
                why = f" ({event.why})" if event.why else ""
                what = f"rescale from {coordinator.parallelism} to {event.parallelism}{why}"
            case AfterSavepoint.HAND_OVER:
                what = "handover to another driver"
            case other:
                assert_never(other)
        self._requests[event.request] = self._log.add(
            wall_ms, kind, what, ongoing=True, attempt=coordinator.attempt
        )

    def _answered(self, action: SavepointEnded, wall_ms: int) -> None:
        id = self._requests.pop(action.request, None)
        if id is None:
            return
        if action.error is None:
            self._log.end(id, wall_ms, "done in {span}")
        else:
            failed = f"failed after {{span}}: {redacted(action.error.what)}"
            self._log.end(id, wall_ms, failed, level=EventLevel.WARNING)

    # --- the end ----------------------------------------------------------------------------------

    def _ended(self, action: EndJob, stop_reason: str | None, wall_ms: int) -> None:
        if action.finished_before is not None:
            return
        if self._start is not None:
            self._log.end(self._start[0], wall_ms, "was not performed")
        if self._restart is not None:
            self._log.end(self._restart, wall_ms, "not restarted")
        level, what, detail = EventLevel.INFO, action.outcome.value, ""
        if action.outcome is Outcome.STOPPED and stop_reason is not None:
            what, level = f"stopped: {redacted(stop_reason)}", EventLevel.WARNING
        if action.error is not None:
            detail = redacted(str(action.error))
            what, level = f"failed: {redacted(action.error.what)}", EventLevel.ERROR
            if isinstance(action.error, FencedError):
                by = f" ({self._driver})" if self._driver else ""
                what, level = f"this driver{by} ended: {action.error.what}", EventLevel.WARNING
        operator = None if action.error is None else action.error.operator
        self._log.add(wall_ms, EventKind.ENDED, what, level=level, detail=detail, operator=operator)


def health_conditions(health: JobHealth) -> dict[str, OngoingCondition]:
    """Return the findings of a job's health as conditions for its event log, by subject. Findings about
    restarts, failed checkpoints and the end of the job have events of their own."""
    found = {}
    for finding in health.findings:
        if finding.severity is Severity.NOTE or finding.kind in _WITH_OWN_EVENTS:
            continue
        parts = (finding.kind.value, finding.operator, finding.subtask, finding.server)
        subject = " ".join(str(part) for part in parts if part is not None)
        grave = finding.severity is not Severity.DEGRADED
        away = finding.kind is FindingKind.SERVER and finding.server is not None
        found[subject] = OngoingCondition(
            what=f"{finding.server} does not respond" if away else finding.what,
            kind=EventKind.SERVER if away else EventKind.HEALTH,
            level=EventLevel.ERROR if grave else EventLevel.WARNING,
            since_ms=finding.since_ms,
            over="responded again after {span}" if away else "over after {span}",
            detail=f"{finding.what}\n{finding.what_to_do}",
            operator=finding.operator,
            subtask=finding.subtask,
        )
    return found


def program_changes(entry: CheckpointCompleted, shape: JobShape) -> str:
    """Return how the program differs from the one that wrote a checkpoint, judged by operators and
    their state. Return "" if there is no difference."""
    parts = []
    known, now = entry.operators, shape.operators
    added = [now[id] for id in now if id not in known]
    removed = [known[id] for id in known if id not in now]
    changed: list[str] = []
    if entry.states:
        both = [id for id in now if id in known]
        changed = [now[id] for id in both if dict(shape.states.get(id, {})) != entry.states.get(id, {})]
    for what, names in (("new", added), ("removed", removed), ("changed state of", changed)):
        if names:
            parts.append(f"{what} {_names(names)}")
    return "; ".join(parts)


def _restored(restore: Restore | None) -> str:
    if restore is None:
        return ""
    if restore.origin is None:
        return f" from checkpoint {restore.entry.checkpoint}"
    return f" from the savepoint {redacted(restore.origin.directory)}"


def _names(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
    return ", ".join(map(repr, shown[:_MAX_NAMES])) + more
