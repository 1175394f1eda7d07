"""Descriptions of what a job waits for: servers, sinks and subtasks, with the start of each wait.

The status shows them, so that a command that has to wait can report the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from rheos.connectors.calls.bounded_calls import UNDER_WAY
from rheos.core.checkpoint.checkpointing import AwaitedRequest
from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import AfterSavepoint
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.savepoint_requests import Stage
from rheos.core.protocol.ids import OperatorId
from rheos.runtimes.driver.metrics_keeper import UnpublishedOutput
from rheos.runtimes.job import JobWait, WaitKind

_CALL_AFTER_S = 2.0
"""Seconds after which a call of the driver is shown."""
_WORKERS_AFTER_MS = 5_000
"""Time in ms after which the wait for an attempt's workers is shown."""
_MOST = 20

_Wait: TypeAlias = tuple[str, tuple[str, int | None]]

_REQUESTS: Mapping[AfterSavepoint, str] = {
    AfterSavepoint.GO_ON: "the savepoint",
    AfterSavepoint.STOP: "the stop with a savepoint",
    AfterSavepoint.DRAIN: "the stop with --drain",
    AfterSavepoint.RESCALE: "the rescale",
    AfterSavepoint.HAND_OVER: "the handover",
}


def call_wait(now_ms: int) -> tuple[JobWait, ...]:
    """Return this process's call to a server that has waited longest, if it has waited for long.

    Args:
        now_ms: the wall-clock time.
    """
    longest = UNDER_WAY.longest_wait()
    if longest is None or longest[1] < _CALL_AFTER_S:
        return ()
    doing, wait_s = longest
    what, since_ms = f"a call of the driver has not returned: {doing}", now_ms - int(wait_s * 1000)
    return (JobWait(what, since_ms, WaitKind.CALL),)


class Waits:
    """A memory of when each wait began."""

    def __init__(self, names: Mapping[OperatorId, str]) -> None:
        self._names = names
        self._since_ms: dict[str, int] = {}

    def now(
        self,
        coordinator: Coordinator,
        unpublished: Callable[[], Sequence[UnpublishedOutput]],
        now_ms: int,
        joined: int = 0,
    ) -> tuple[JobWait, ...]:
        """Return what the job waits for, the longest wait first.

        Args:
            coordinator: decides what follows, and so knows what it waits for.
            unpublished: returns the sinks whose complete output is not published, as their subtasks
                report. Called only if a request waits for them.
            now_ms: the wall-clock time.
            joined: number of the attempt's workers that have connected.
        """
        current = dict(self._current(coordinator, unpublished, joined))
        self._since_ms = {key: self._since_ms.get(key, now_ms) for key in current}
        waits = [
            JobWait(what, since or self._since_ms[key], WaitKind(key.partition(" ")[0]))
            for key, (what, since) in current.items()
        ]
        shown = [
            wait
            for wait in waits
            if wait.kind is not WaitKind.WORKERS or now_ms - wait.since_ms >= _WORKERS_AFTER_MS
        ]
        return tuple(sorted(shown, key=lambda wait: wait.since_ms)[:_MOST])

    def _current(
        self,
        coordinator: Coordinator,
        unpublished: Callable[[], Sequence[UnpublishedOutput]],
        joined: int,
    ) -> Iterator[_Wait]:
        """Yield each wait as a key, a sentence, and its start if that is known. The key starts with the
        kind of the wait, and stays the same while it lasts."""
        if coordinator.state is LifecycleState.RECOVERING:
            error = coordinator.recovery_error
            why = "" if error is None else f": {_located(error.operator)}{error.what}"
            yield "recovery", (f"the recovery waits for the commit of the last checkpoint{why}", None)
        if coordinator.state is LifecycleState.STARTING:
            of = f"{joined} of {coordinator.parallelism} workers"
            yield "workers", (f"the attempt waits until its tasks run: {of} have connected", None)
        for operator, error in coordinator.unpublished().items():
            what = f"the sink {self._name(operator)} waits to publish: {error.what}"
            yield f"publishing {operator}", (what, None)
        awaited = coordinator.awaited()
        if awaited is not None:
            yield from self._request(awaited, coordinator.state, unpublished)

    def _request(
        self,
        awaited: AwaitedRequest,
        state: LifecycleState,
        unpublished: Callable[[], Sequence[UnpublishedOutput]],
    ) -> Iterator[_Wait]:
        name, key = _REQUESTS[awaited.request.after], f"request {awaited.request.request}"
        if awaited.stage is Stage.COMMITTING and state is LifecycleState.RUNNING:
            sinks = [each for each in unpublished() if each.subtask in awaited.subtasks]
            for operator in dict.fromkeys(each.operator for each in sinks):
                its = [each for each in sinks if each.operator == operator]
                who = _subtasks([each.subtask for each in its])
                what = (
                    f"{name} waits for the sink {self._name(OperatorId(operator))}: {who} not published"
                )
                yield f"{key} {operator}", (what, min(each.since_ms for each in its))
            if sinks:
                return
        yield f"{key} {awaited.stage}", (f"{name} waits: {_reason(awaited, state)}", None)

    def _name(self, operator: OperatorId) -> str:
        return repr(self._names.get(operator, operator))


def _reason(awaited: AwaitedRequest, state: LifecycleState) -> str:
    if state is not LifecycleState.RUNNING:
        return f"the job is not running ({state.value})"
    who = _subtasks(awaited.subtasks)
    match awaited.stage:
        case None if awaited.subtasks:
            return f"another checkpoint is open, which {who} not acknowledged"
        case None:
            return "it begins with the next checkpoint, after the previous request"
        case Stage.DRAINING:
            return f"{who} not reached the end of their input"
        case Stage.OPEN if awaited.subtasks:
            return f"{who} not acknowledged its checkpoint"
        case Stage.OPEN:
            return "its checkpoint is being written to the log"
        case Stage.COMMITTING:
            return f"{who} not committed its checkpoint"
        case Stage.WRITING:
            return "its manifest is being written"
        case Stage.TAKEN:
            return "the attempt ends"
        case Stage.RESCALING:
            return "the attempt ends, and the next one starts"


def _subtasks(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"subtask {numbers[0]} has"
    shown = ", ".join(map(str, sorted(numbers)[:10]))
    return f"subtasks {shown}{', ...' if len(numbers) > 10 else ''} have"


def _located(operator: str | None) -> str:
    return "" if operator is None else f"the sink {operator!r}: "
