"""The driver's side of health: examines the job every two seconds, and keeps the earlier results.

Wide jobs are examined less often.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import JobHealth, Severity
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.judge import Memory, health
from rheos.runtimes.health.moment import JobMoment, PastTotals
from rheos.runtimes.job import JobStatus

EVERY_US = 2_000_000
"""Least time between two examinations."""
EVERY_US_BY_SLOT = 4_000
"""Least time between two examinations, by subtask: 8 s for 2,000 subtasks."""
PAST_EVERY_US = 10_000_000
PAST_FOR_US = 600_000_000
RESTARTS_FOR_US = 3_600_000_000
MOST_RESTARTS = 1000
"""Maximum number of restarts whose times are kept."""


class SeenJob(NamedTuple):
    """A job at the time of an examination."""

    status: JobStatus
    metrics: MetricsReport
    earlier_restarts: Sequence[tuple[int, str]]
    """Restarts under earlier drivers, and takeovers, the oldest first: wall-clock time in ms since the
    epoch, and reason."""


class HealthKeeper:
    """The computation of a job's health when it is due. Any thread may call it, so a status contains
    current health even while the driver is in a call that does not return."""

    def __init__(self, outline: PlanOutline, config: CheckpointConfig) -> None:
        self._outline = outline
        self._config = config
        self._looking = threading.Lock()
        self._memory = Memory()
        self._newest: JobHealth | None = None
        self._looked_us: int | None = None
        self._every_us = EVERY_US
        self._past: deque[PastTotals] = deque(maxlen=PAST_FOR_US // PAST_EVERY_US)
        self._restarts = 0
        self._restarts_us: deque[int] = deque(maxlen=MOST_RESTARTS)
        self._state: tuple[object, int] | None = None
        """The state of the job, and when it entered that state."""

    def look(
        self,
        now_us: int,
        now_ms: int,
        stepped_us: int | None,
        restarts: int,
        job: Callable[[], SeenJob],
    ) -> JobHealth | None:
        """Return the health, computed anew if that is due. Return None before the first examination.

        Args:
            now_us: the monotonic time.
            now_ms: the wall-clock time.
            stepped_us: monotonic time of the driver's last step.
            restarts: number of restarts under this driver.
            job: returns the current job. Called only if an examination is due.
        """
        # If another thread is computing the health, the caller gets the previous result.
        if self._is_due(now_us) and self._looking.acquire(blocking=False):
            try:
                if self._is_due(now_us):
                    self._count(restarts, now_us)
                    self._look(job(), now_us, now_ms, stepped_us)
                    self._looked_us = now_us
            finally:
                self._looking.release()
        return self._newest

    def readings(self) -> list[Reading]:
        """Return the metrics of the newest health."""
        newest = self._newest
        if newest is None:
            return []
        grave = (each for each in newest.findings if each.severity is not Severity.NOTE)
        kinds = Counter(each.kind.value for each in grave)
        return [
            Reading(f.HEALTH.name, (), newest.state.rank),
            *(Reading(f.FINDINGS.name, (kind,), count) for kind, count in kinds.items()),
        ]

    def _is_due(self, now_us: int) -> bool:
        return self._looked_us is None or now_us >= self._looked_us + self._every_us

    def _count(self, restarts: int, now_us: int) -> None:
        new, self._restarts = restarts - self._restarts, restarts
        self._restarts_us.extend(now_us for _ in range(min(new, MOST_RESTARTS)))
        while self._restarts_us and now_us - self._restarts_us[0] >= RESTARTS_FOR_US:
            self._restarts_us.popleft()

    def _look(self, job: SeenJob, now_us: int, now_ms: int, stepped_us: int | None) -> None:
        status = job.status
        self._every_us = max(EVERY_US, status.parallelism * EVERY_US_BY_SLOT)
        if self._state is None or self._state[0] is not status.state:
            self._state = status.state, now_us
        earlier = [
            (now_us - (now_ms - at_ms) * 1000, what)
            for at_ms, what in job.earlier_restarts
            if 0 <= (now_ms - at_ms) * 1000 < RESTARTS_FOR_US
        ]
        seen = JobMoment(
            status,
            self._outline,
            job.metrics,
            now_us,
            self._config,
            tuple(each for each in self._past if now_us - each.at_us < PAST_FOR_US),
            tuple(sorted([*(at_us for at_us, _ in earlier), *self._restarts_us])),
            earlier[-1][1] if earlier else None,
            self._state[1],
            stepped_us,
        )
        self._newest, self._memory = health(seen, self._memory, now_ms)
        if not self._past or now_us >= self._past[-1].at_us + PAST_EVERY_US:
            self._past.append(PastTotals(now_us, status.operators))
