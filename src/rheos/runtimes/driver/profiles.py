"""Requests for profiles of subtasks, from any thread. The master sends them and receives answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from rheos.core.errors import ConfigurationError, RheosError, TransportError
from rheos.core.protocol.control import SampleStacks, StacksSampled
from rheos.core.protocol.ids import Attempt
from rheos.core.protocol.stacks import MOST_MS, StackProfile, profile_problem

EVERY_MS = 10
_PATIENCE_MS = 10_000
"""Time that a worker may take to answer, in addition to the sampling time."""

Send = Callable[[SampleStacks, int], None]
"""Function that sends a message to one subtask."""


@dataclass(slots=True)
class _ProfileRequest:
    subtask: int
    for_ms: int
    answer: Future[StackProfile]
    number: int = 0
    attempt: Attempt | None = None
    deadline_ms: int = 0


class ProfileService:
    """The requests for profiles. Only one runs at a time, because sampling slows the subtask down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: deque[_ProfileRequest] = deque()
        self._under_way: _ProfileRequest | None = None
        self._count = 0
        self._closed: RheosError | None = None

    # --- for any thread ---------------------------------------------------------------------------

    def request(self, subtask: int, for_ms: int) -> Future[StackProfile]:
        """Request a profile. The answer is a ConfigurationError if the subtask cannot be profiled. It
        is a TransportError if the worker does not answer, or its attempt ends."""
        wanted = _ProfileRequest(subtask, for_ms, Future())
        wanted.answer.set_running_or_notify_cancel()
        refusal: RheosError | None = None
        if not 0 < for_ms <= MOST_MS:
            refusal = ConfigurationError(
                f"a subtask cannot be profiled for {for_ms / 1000:g} s",
                hint=f"choose more than 0 s, and at most {MOST_MS // 60000} minutes",
            )
        with self._lock:
            refusal = refusal or self._closed
            if refusal is None and (self._asked or self._under_way is not None):
                refusal = ConfigurationError(
                    "a subtask of the job is already being profiled",
                    hint="wait until that has finished",
                )
            if refusal is None:
                self._asked.append(wanted)
        if refusal is not None:
            wanted.answer.set_exception(refusal)
        return wanted.answer

    def close(self, error: RheosError) -> None:
        """Refuse with `error` all waiting and all later requests, because the job has ended."""
        with self._lock:
            self._closed = error
            waiting = [*self._asked, *([self._under_way] if self._under_way else [])]
            self._asked.clear()
            self._under_way = None
        for wanted in waiting:
            wanted.answer.set_exception(error)

    # --- for the master ---------------------------------------------------------------------------

    def step(self, attempt: Attempt, parallelism: int, now_ms: int, send: Send) -> None:
        """Send requests that are due. `attempt` runs with `parallelism` subtasks; 0 if none runs."""
        wanted = self._under_way
        if wanted is not None and (wanted.attempt != attempt or now_ms >= wanted.deadline_ms):
            ended = "its attempt has ended" if wanted.attempt != attempt else "it did not respond"
            self._settle(TransportError(f"subtask {wanted.subtask} was not profiled: {ended}"))
        if self._under_way is not None or not self._asked:
            return
        with self._lock:
            wanted = self._under_way = self._asked.popleft()
        if not 0 <= wanted.subtask < parallelism:
            runs = (
                f"it has {parallelism}, numbered from 0"
                if parallelism
                else "it is not running at the moment"
            )
            self._settle(
                ConfigurationError(
                    f"the job has no subtask {wanted.subtask}: {runs}",
                    hint="choose a subtask that runs",
                )
            )
            return
        self._count += 1
        wanted.number, wanted.attempt = self._count, attempt
        wanted.deadline_ms = now_ms + wanted.for_ms + _PATIENCE_MS
        send(
            SampleStacks(attempt=attempt, request=self._count, for_ms=wanted.for_ms, every_ms=EVERY_MS),
            wanted.subtask,
        )

    def sampled(self, event: StacksSampled) -> None:
        """Receive a worker's profile, and check it before it is used."""
        wanted = self._under_way
        if wanted is None or (event.request, event.profile.subtask) != (wanted.number, wanted.subtask):
            return
        problem = profile_problem(event.profile)
        if problem is None:
            self._settle(event.profile)
        else:
            what = f"the profile of subtask {wanted.subtask} is invalid: {problem}"
            self._settle(TransportError(what))

    def next_deadline_ms(self) -> int | None:
        """Return the time of the next action, by the clock of `step`."""
        return None if self._under_way is None else self._under_way.deadline_ms

    def _settle(self, outcome: StackProfile | RheosError) -> None:
        with self._lock:
            wanted, self._under_way = self._under_way, None
        if wanted is None:
            return
        if isinstance(outcome, StackProfile):
            wanted.answer.set_result(outcome)
        else:
            wanted.answer.set_exception(outcome)
