"""The caller of `scaling`: observes the running attempt, and requests the decided parallelism."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from rheos.core.protocol.ids import Attempt
from rheos.runtimes.driver.scaling import OBSERVE_EVERY_MS, ScalingController, SlotLoad
from rheos.runtimes.job import ScalingBounds, ScalingStatus

Rescale = Callable[[int, str], Future[str]]
"""Function that requests a parallelism, with the reason."""


class Autoscaler:
    """The automatic scaling of one job. The master calls it at each of its steps."""

    def __init__(self, bounds: ScalingBounds, rescale: Rescale) -> None:
        self._controller = ScalingController(bounds)
        self._rescale = rescale
        self._attempt: Attempt | None = None
        """The running attempt; None if none runs."""
        self._answer: Future[str] | None = None
        self._look_ms = 0
        self._last: str | None = None

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next check; None if no attempt runs."""
        return None if self._attempt is None else self._look_ms

    def step(
        self, attempt: Attempt, parallelism: int, now_ms: int, load: Callable[[], SlotLoad]
    ) -> bool:
        """Observe the attempt and request a change if one is due. Return whether anything has changed.
        `parallelism` is that of the running attempt, and 0 if the attempt does not run."""
        if parallelism == 0:
            self._attempt = None
        elif attempt != self._attempt:
            self._attempt, self._look_ms = attempt, now_ms
            self._controller.began(parallelism, now_ms)
        heard = self._hear(now_ms)
        if self._attempt is None or now_ms < self._look_ms:
            return heard
        self._look_ms = now_ms + OBSERVE_EVERY_MS
        state = self._controller.state
        change = self._controller.observe(load(), now_ms)
        if change is not None:
            self._last = f"{parallelism} to {change.parallelism}: {change.why}"
            self._answer = self._rescale(change.parallelism, change.why)
        return heard or change is not None or state is not self._controller.state

    def _hear(self, now_ms: int) -> bool:
        if self._answer is None or not self._answer.done():
            return False
        error = self._answer.exception()
        self._answer = None
        self._controller.answered(error is None, now_ms)
        if error is not None:
            self._last = f"{self._last}; {error}".splitlines()[0]
        return True

    def status(self) -> ScalingStatus:
        state = self._controller.state
        return ScalingStatus(self._controller.bounds, state.name.lower(), state.value, self._last)
