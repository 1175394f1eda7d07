"""Whether the jobs of this machine run: what an orchestrator asks before it counts on them."""

from __future__ import annotations

import threading
from math import inf
from time import monotonic

from rheos.control.job_list import ListedJob, listed_jobs
from rheos.control.registry import Registry
from rheos.job import JobState

_LOOKED_EVERY_S = 1.0


def _is_well(job: ListedJob) -> bool:
    running = job.status is not None and job.status.state is JobState.RUNNING
    return running or job.record.stands_by


class Readiness:
    """Asked without a token and so by anybody: jobs are asked once a second at the most, by one
    thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looking = threading.Lock()
        self._ready = False
        self._looked_s = -inf

    def ready(self) -> bool:
        """Whether a job runs here or a driver stands by, and each that runs says so: none is starting,
        has failed and waits to be tried again, or gives no answer. Who asks while another one looks is
        told what was found before. Raises RheosError where the registry cannot be read."""
        if monotonic() >= self._looked_s + _LOOKED_EVERY_S and self._looking.acquire(blocking=False):
            try:
                jobs = listed_jobs(self._registry)
                self._ready = bool(jobs) and all(map(_is_well, jobs))
                self._looked_s = monotonic()
            finally:
                self._looking.release()
        return self._ready
