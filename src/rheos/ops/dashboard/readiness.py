"""Readiness of this machine's jobs, for the probe of an orchestrator."""

from __future__ import annotations

import threading
from math import inf
from time import monotonic

from rheos.core.metrics.health import HealthState
from rheos.ops.control.job_list import ListedJob, listed_jobs
from rheos.ops.control.registry import Registry
from rheos.runtimes.job import JobState

_LOOKED_EVERY_S = 1.0


NOT_READY = (HealthState.STUCK, HealthState.FAILING)
"""States of health in which a running job is not ready."""


def _is_well(job: ListedJob) -> bool:
    if job.record.stands_by:
        return True
    running = job.status is not None and job.status.state is JobState.RUNNING
    return running and (job.health is None or job.health.state not in NOT_READY)


class Readiness:
    """The readiness of all jobs. Anybody may request it without a token, so it requests the status of
    jobs at most once a second, in one thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looking = threading.Lock()
        self._ready = False
        self._looked_s = -inf

    def ready(self) -> bool:
        """Return whether a job runs here or a driver is a standby, and each is well.

        A job is not well if it starts, waits for a restart, does not answer, or is stuck or failing. A
        degraded job is ready. If another thread is checking, the caller gets the previous result.

        Raise RheosError if the registry cannot be read.
        """
        if monotonic() >= self._looked_s + _LOOKED_EVERY_S and self._looking.acquire(blocking=False):
            try:
                jobs = listed_jobs(self._registry)
                self._ready = bool(jobs) and all(map(_is_well, jobs))
                self._looked_s = monotonic()
            finally:
                self._looking.release()
        return self._ready
