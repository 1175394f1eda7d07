"""Sends the events of a job to a catalog, or appends them to a file, in a thread of its own.

The job never waits. An event that cannot be sent is tried again for a minute, and then dropped; up to
100 events wait meanwhile.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.checkpoint.events import Outcome
from rheos.core.connectors.backoff import Backoff
from rheos.core.metrics.event_log import iso_time
from rheos.core.protocol.ports import Clock
from rheos.ops.control.alert_webhook import post_json
from rheos.ops.openlineage.events import JobLineage, RunState
from rheos.runtimes.job import JobState, JobStatus, LineageConfig

LOGGER = logging.getLogger("rheos.lineage")

EVERY_S = 1.0
"""Time from one look at the job to the next."""
RUNNING_EVERY_S = 60
"""Time between two events of a job that runs."""
MOST_WAITING = 100
"""Maximum number of events that wait to be sent."""
RETRY_FOR_S = 60
"""Time for which an event is tried again."""
POST = OutsideCall(
    server="OpenLineage",
    call="posting an event of a job's lineage",
    limit_s=5.0,
    limit="a separate thread waits, so nothing is blocked; 5 s for the whole post",
    then="the post is retried for a minute, then the event is dropped. The job continues",
)
_STATES = {
    Outcome.FINISHED: RunState.COMPLETE,
    Outcome.STOPPED: RunState.COMPLETE,
    Outcome.CANCELLED: RunState.ABORT,
    Outcome.FAILED: RunState.FAIL,
}
_LATER = (408, 425, 429)
"""HTTP statuses that may be temporary, in addition to those from 500 on."""

Deliver = Callable[[bytes], int]
"""Function that delivers an event, and returns a status of HTTP. It raises OSError if it cannot."""


class LineageEmitter:
    """Emitter of the events of one job. `start` emits the first one, `close` the last one."""

    def __init__(
        self,
        config: LineageConfig,
        lineage: JobLineage,
        status: Callable[[], JobStatus],
        clock: Clock,
        deliver: Deliver | None = None,
    ) -> None:
        """Create an emitter.

        Args:
            config: Where to send the events.
            lineage: What the events contain.
            status: Returns the status of the job, from any thread.
            clock: The real clock, or that of a test.
            deliver: Delivers an event; by default as the configuration describes.
        """
        self._config = config
        self._lineage = lineage
        self._status = status
        self._clock = clock
        self._deliver = deliver or _delivery(config)
        self._waiting = deque[bytes]()
        self._running_us = clock.monotonic_us() + RUNNING_EVERY_S * 1_000_000
        """Time of the next event of a job that runs."""
        self._back_off = _new_back_off()
        self._again_us = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._put(RunState.START)

    def start(self) -> None:
        """Begin to send, in a thread."""
        self._thread = threading.Thread(target=self._run, name="rheos-lineage", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Send what is due, one event after the other, until one cannot be sent."""
        now_us = self._clock.monotonic_us()
        if now_us >= self._running_us and self._status().state is JobState.RUNNING:
            self._running_us = now_us + RUNNING_EVERY_S * 1_000_000
            if len(self._waiting) < MOST_WAITING:
                self._put(RunState.RUNNING)
        while self._waiting and now_us >= self._again_us:
            self._send(self._waiting[0], now_us)

    def close(self, outcome: Outcome | None, failure: str | None) -> None:
        """Emit how the job has ended, and end the thread, after a few seconds at most.

        Args:
            outcome: The outcome; None if another driver continues the job.
            failure: Message of the error of a job that has failed.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(POST.limit_s)
            if self._thread.is_alive():
                return  # The receiver does not answer, and would not answer a last event.
        if outcome is not None:
            self._put(_STATES[outcome], failure)
        self._again_us = 0
        self.look()

    def _put(self, state: RunState, failure: str | None = None) -> None:
        event = self._lineage.event(state, iso_time(self._clock.now_ms()), failure)
        self._waiting.append(json.dumps(event).encode())

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                LOGGER.exception("an event of lineage could not be made")
            if self._ended.wait(EVERY_S):
                return

    def _send(self, event: bytes, now_us: int) -> None:
        """Deliver an event, or try later, or drop it. A failure never affects the job."""
        try:
            status = self._deliver(event)
            problem = None if status < 300 else f"it answered {status}"
            may_pass = status >= 500 or status in _LATER
        except (OSError, ValueError) as error:
            problem, may_pass = type(error).__name__, True  # Its message may contain the URL.
        if problem is None:
            self._waiting.popleft()
            self._back_off = _new_back_off()
            return
        first = not self._back_off.failing
        wait_us = self._back_off.failed(now_us) if may_pass else None
        if wait_us is None:
            self._waiting.popleft()
            self._back_off = _new_back_off()
            LOGGER.error("an event of lineage was dropped after %s: %s", self._config, problem)
            return
        if first:
            LOGGER.warning("lineage could not be sent to %s, retrying: %s", self._config, problem)
        self._again_us = now_us + wait_us


def _new_back_off() -> Backoff:
    return Backoff(RETRY_FOR_S * 1_000_000)


def _delivery(config: LineageConfig) -> Deliver:
    if config.path is not None:
        return _FileDelivery(config.path)
    headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
    return lambda event: post_json(config.url, event, POST.limit_s, headers)


@dataclass(frozen=True)
class _FileDelivery:
    """Appends events to a file, a line each."""

    path: str

    def __call__(self, event: bytes) -> int:
        with open(self.path, "ab") as file:
            file.write(event + b"\n")
        return 200
