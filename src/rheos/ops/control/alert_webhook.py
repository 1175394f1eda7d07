"""Alerts of a job, posted as JSON to a URL of the user while the job runs.

A thread checks the health of the job. A failed post is tried again, with growing pauses; a newer alert
replaces it. Neither a slow receiver nor a refusal delays the job.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rheos.connectors.calls.http_deadlines import NoRedirects, opener
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.connectors.backoff import Backoff
from rheos.core.metrics.event_log import iso_time
from rheos.core.metrics.health import JobHealth, Severity, simple_health
from rheos.core.protocol.ports import Clock
from rheos.core.redaction import redacted_values
from rheos.core.version import VERSION
from rheos.runtimes.health.judge import Alerting, HealthAlert
from rheos.runtimes.health.kinds.job_state import WHAT_TO_DO
from rheos.runtimes.job import AlertConfig, JobState, JobStatus

LOGGER = logging.getLogger("rheos.alerts")

EVERY_S = 2.0
"""Time from one check to the next."""
POST = OutsideCall(
    server="alert webhook",
    call="posting an alert",
    limit_s=10.0,
    limit="a separate thread waits, so nothing is blocked; 10 s for the whole post",
    then="the post is retried for an hour; a newer alert replaces it. The job continues",
)
RETRY_FOR_S = 3_600
"""Time for which the post of one alert is tried again."""
FIRST_RETRY_S, LONGEST_RETRY_S = 1, 60
FORM = 1
"""Version of the posted object."""
_LATER = (408, 425, 429)
"""HTTP statuses that may be temporary, in addition to those from 500 on."""

Post = Callable[[str, bytes], int]
"""Function that posts a body to a URL, and returns the status. It raises OSError if it cannot."""


class AlertWebhook:
    """The alerts of one job. `start` begins a thread; `close` ends it, with a last alert if the job has
    failed."""

    def __init__(
        self,
        config: AlertConfig,
        job: dict[str, Any],
        status: Callable[[], JobStatus],
        clock: Clock,
        post: Post | None = None,
    ) -> None:
        """Create the alerts of a job.

        Args:
            config: the URL, and the states that cause an alert.
            job: identification of the job in each alert: its key, id, name and host.
            status: returns the status of the job, from any thread.
            clock: the real clock, or that of a test.
            post: posts a body; over HTTP by default.
        """
        self._config = config
        self._job = job
        self._status = status
        self._clock = clock
        self._post = post or post_json
        self._alerting = Alerting(config.least)
        self._waiting: bytes | None = None
        """The newest alert that is not delivered."""
        self._back_off = self._new_back_off()
        self._again_us = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to check the job, in a thread."""
        self._thread = threading.Thread(target=self._run, name="rheos-alerts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. If the job has failed, post that once before. May be called again."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(POST.limit_s)
            if self._thread.is_alive():
                return  # The receiver does not answer, and would not answer a last alert.
        if self._status().state is JobState.FAILED:
            self.look(at_once=True)

    def look(self, *, at_once: bool = False) -> None:
        """Check the job once, and post an alert that is due."""
        now_us = self._clock.monotonic_us()
        health = self._health(self._status())
        alert = None if health is None else self._alerting.look(health, now_us, at_once=at_once)
        if alert is not None:
            self._waiting = self._body(alert)
            self._back_off, self._again_us = self._new_back_off(), now_us
        if self._waiting is not None and now_us >= self._again_us:
            self._deliver(self._waiting, now_us)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                self.look()
            except Exception:
                LOGGER.exception("the health of the job could not be determined for alerts")

    def _health(self, status: JobStatus) -> JobHealth | None:
        if status.health is not None or status.state is not JobState.FAILED:
            return status.health
        return simple_health(
            Severity.FAILING,
            self._clock.now_ms(),
            what=f"the job has failed: {(status.failure or 'unknown').splitlines()[0]}",
            what_to_do=WHAT_TO_DO,
        )

    def _body(self, alert: HealthAlert) -> bytes:
        message_body = redacted_values(
            {
                "form": FORM,
                "status": "resolved" if alert.resolved else "firing",
                "text": f"Rheos job {self._job['name']!r}: {alert.health.headline}",
                **self._job,
                "at": iso_time(self._clock.now_ms()),
                "before": alert.before.value,
                "health": msgspec.to_builtins(alert.health),
            }
        )
        return json.dumps(message_body).encode()

    def _deliver(self, body: bytes, now_us: int) -> None:
        try:
            status = self._post(self._config.url, body)
            problem = None if status < 300 else f"it answered {status}"
            may_pass = status >= 500 or status in _LATER
        except (OSError, ValueError) as error:
            problem, may_pass = type(error).__name__, True  # The error's message may contain the URL.
        if problem is None:
            self._waiting = None
            return
        first = not self._back_off.failing
        wait_us = self._back_off.failed(self._clock.monotonic_us()) if may_pass else None
        if wait_us is None:
            self._waiting = None
            LOGGER.error("an alert was dropped after %s: %s", self._config, problem)
            return
        if first:
            LOGGER.warning("an alert could not be posted to %s, retrying: %s", self._config, problem)
        self._again_us = now_us + wait_us

    def _new_back_off(self) -> Backoff:
        return Backoff(
            RETRY_FOR_S * 1_000_000,
            first_us=FIRST_RETRY_S * 1_000_000,
            longest_us=LONGEST_RETRY_S * 1_000_000,
        )


def post_json(
    url: str, body: bytes, limit_s: float = POST.limit_s, more: Mapping[str, str] | None = None
) -> int:
    """Post a body, and return the status of the answer.

    Args:
        url: the address, http or https. A redirect is not followed.
        body: the body, as JSON.
        limit_s: the limit for the whole post.
        more: further headers.

    Raises:
        OSError: the post has failed, or there was no answer within the limit.
    """
    headers = {"Content-Type": "application/json", "User-Agent": f"rheos/{VERSION}", **(more or {})}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with opener(NoRedirects).open(request, timeout=limit_s) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
