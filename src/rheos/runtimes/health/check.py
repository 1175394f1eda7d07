"""How a kind of finding is declared: what detects it, and what the documentation says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rheos.runtimes.health.moment import Detected, JobMoment


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """What detects a kind of finding. The documentation is made of `means`, `cause` and `remedy`."""

    find: Callable[[JobMoment], Iterable[Detected]]
    """Pure; yields nothing for a job of which it has nothing to say."""
    means: str
    """When there is such a finding, with its threshold."""
    cause: str
    remedy: str
    shown_after_ms: int = 0
    """How long it must hold before it is shown. More than 0 where its metrics fluctuate."""
