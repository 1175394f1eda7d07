"""The kinds of findings. A new one is a member of `FindingKind` and a function that detects it."""

from __future__ import annotations

from rheos.core.metrics.health import FindingKind
from rheos.runtimes.health.kinds import (
    checkpoint_trouble,
    incoming_rows,
    job_state,
    load,
    outside_systems,
)
from rheos.runtimes.health.moment import CHECKS, HealthCheck

__all__ = ["KINDS", "checkpoint_trouble", "incoming_rows", "job_state", "load", "outside_systems"]

KINDS: dict[FindingKind, HealthCheck] = {kind: CHECKS[kind] for kind in FindingKind}
