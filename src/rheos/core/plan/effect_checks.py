"""Checks of plans with operators that act on other systems, apart from sinks."""

from __future__ import annotations

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator


def refuse_outside_effects(plan: PhysicalPlan, run: str) -> None:
    """Raise ConfigurationError if an operator of the plan acts on another system. `run` names the run
    that must change nothing, such as "a fork"."""
    for planned in _acting(plan):
        raise ConfigurationError(
            f"the operator acts on another system, and {run} must change nothing",
            site=planned.site,
            operator=planned.name,
            hint="leave the operator out of the program that you pass",
        )


def require_checkpoints(plan: PhysicalPlan, interval_ms: int | None) -> None:
    """Raise ConfigurationError if an operator of the plan acts when checkpoints are complete, but the
    job takes none while it runs. `interval_ms` is the interval between checkpoints."""
    if interval_ms is not None:
        return
    for planned in _acting(plan):
        raise ConfigurationError(
            "the operator makes its calls when checkpoints are complete, but the job takes none",
            site=planned.site,
            operator=planned.name,
            hint='set an interval: rh.Environment(checkpoint_interval="1s")',
        )


def _acting(plan: PhysicalPlan) -> list[PlannedOperator]:
    return [planned for planned in plan.operators() if planned.spec.acts_outside]
