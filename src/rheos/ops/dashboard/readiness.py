"""Readiness and liveness of this machine's jobs, for the probes of an orchestrator."""

from __future__ import annotations

import threading
from math import inf
from time import monotonic

from rheos.core.metrics.health import FindingKind, HealthState
from rheos.ops.control.job_list import ListedJob, listed_jobs
from rheos.ops.control.registry import Registry
from rheos.runtimes.job import JobState, WaitKind

_LOOKED_EVERY_S = 1.0


NOT_READY = (HealthState.STUCK, HealthState.FAILING)
"""States of health in which a running job is not ready."""


def _is_well(job: ListedJob) -> bool:
    if job.record.stands_by:
        return True
    running = job.status is not None and job.status.state is JobState.RUNNING
    return running and (job.health is None or job.health.state not in NOT_READY)


def _hangs(job: ListedJob) -> bool:
    if job.health is None:
        return False
    blocked = any(finding.kind is FindingKind.DRIVER for finding in job.health.findings)
    # A driver that waits for a server would wait again after a restart.
    waits = () if job.status is None else job.status.waits
    return blocked and not any(wait.kind is WaitKind.CALL for wait in waits)


class Readiness:
    """The readiness and liveness of all jobs. Anybody may request them without a token, so it requests
    the status of jobs at most once a second, in one thread."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looking = threading.Lock()
        self._ready = False
        self._live = True
        self._looked_s = -inf

    def ready(self) -> bool:
        """Return whether a job runs here or a driver is a standby, and each is well.

        A job is not well if it starts, waits for a restart, does not answer, or is stuck or failing. A
        degraded job is ready. If another thread is checking, the caller gets the previous result.

        Raise RheosError if the registry cannot be read.
        """
        self._look()
        return self._ready

    def live(self) -> bool:
        """Return whether no driver of this machine hangs: each answers, and takes its steps or waits
        for a server. Raise RheosError if the registry cannot be read."""
        self._look()
        return self._live

    def _look(self) -> None:
        if monotonic() >= self._looked_s + _LOOKED_EVERY_S and self._looking.acquire(blocking=False):
            try:
                jobs = listed_jobs(self._registry)
                self._ready = bool(jobs) and all(map(_is_well, jobs))
                self._live = not any(map(_hangs, jobs))
                self._looked_s = monotonic()
            finally:
                self._looking.release()
