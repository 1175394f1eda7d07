"""How a kind of finding is declared: what detects it, and what the documentation says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rheos.core.metrics.health import FindingKind
from rheos.runtimes.health.moment import Detected, JobMoment

Find: TypeAlias = Callable[[JobMoment], Iterable[Detected]]
"""Detects one kind. Pure; yields nothing for a job of which it has nothing to say."""


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """What detects a kind of finding. The documentation is made of `means`, `cause` and `remedy`."""

    find: Find
    means: str
    """When there is such a finding, with its threshold."""
    cause: str
    remedy: str
    shown_after_ms: int = 0
    """How long it must hold before it is shown. More than 0 where its metrics fluctuate."""


CHECKS: dict[FindingKind, HealthCheck] = {}
"""Declarations by kind. Importing a module in `kinds` adds those of it."""


def health_check(
    kind: FindingKind, *, means: str, cause: str, remedy: str, shown_after_ms: int = 0
) -> Callable[[Find], Find]:
    """Register the decorated function as what detects `kind`: see `HealthCheck`."""

    def register(find: Find) -> Find:
        CHECKS[kind] = HealthCheck(
            find=find, means=means, cause=cause, remedy=remedy, shown_after_ms=shown_after_ms
        )
        return find

    return register
