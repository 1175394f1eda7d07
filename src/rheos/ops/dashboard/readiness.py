"""Whether the jobs of this machine run: what an orchestrator asks before it counts on them."""

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
"""States of health in which a job that runs is not ready."""


def _is_well(job: ListedJob) -> bool:
    if job.record.stands_by:
        return True
    running = job.status is not None and job.status.state is JobState.RUNNING
    return running and (job.health is None or job.health.state not in NOT_READY)


class Readiness:
    """Asked without a token and so by anybody: jobs are asked once a second at the most, by one
    thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looking = threading.Lock()
        self._ready = False
        self._looked_s = -inf

    def ready(self) -> bool:
        """Return whether a job runs here or a driver stands by, and each is well.

        A job is not well if it starts, is to be tried again, does not answer, or is stuck or failing.
        A degraded job is ready. Whoever asks while another one looks gets what was found before.
        Raises RheosError if the registry cannot be read.
        """
        if monotonic() >= self._looked_s + _LOOKED_EVERY_S and self._looking.acquire(blocking=False):
            try:
                jobs = listed_jobs(self._registry)
                self._ready = bool(jobs) and all(map(_is_well, jobs))
                self._looked_s = monotonic()
            finally:
                self._looking.release()
        return self._ready
