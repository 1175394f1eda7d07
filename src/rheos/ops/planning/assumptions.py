"""Changes of a plan's assumptions: `--whatif keys=2x,machines=0.5x`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import msgspec

from rheos.core.errors import ConfigurationError
from rheos.core.known_names import meant
from rheos.ops.planning.cost_model import CostModel
from rheos.ops.planning.fitting import fit
from rheos.ops.planning.key_curves import scaled
from rheos.ops.planning.measurement import Measurement, OperatorState, Phase
from rheos.ops.planning.model import CapacityPlan, PlanTarget, plan_for, plan_with
from rheos.ops.planning.state_growth import curves_of

NAMES = ("rate", "keys", "state", "bytes", "machines")
"""Quantities that can be multiplied: rows per second, number of keys, size of the state, size of a row
between slots, and number of slots."""

_CHANGE = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?|\.\d+)x\s*")


class QuantityChange(msgspec.Struct, frozen=True):
    """A quantity, and the factor with which it is multiplied."""

    name: str
    factor: float

    def __str__(self) -> str:
        return f"{self.name}={self.factor:g}x"


def parse_changes(text: str) -> list[QuantityChange]:
    """Return the changes of an option, such as `keys=2x,machines=0.5x`. Raise ConfigurationError."""
    changes: list[QuantityChange] = []
    for part in text.split(","):
        match = _CHANGE.fullmatch(part)
        if match is None:
            raise ConfigurationError(
                f"{part.strip()!r} is not a change",
                hint="write a name and a factor, such as keys=2x or machines=0.5x",
            )
        name, factor = match[1], float(match[2])
        if name not in NAMES:
            hint = meant(name, NAMES) or f"the names are {', '.join(NAMES)}"
            raise ConfigurationError(f"unknown quantity {name!r} in --whatif", hint=hint.strip())
        if not isfinite(factor) or factor <= 0:
            raise ConfigurationError(f"the factor of {name!r} must be greater than 0")
        if any(change.name == name for change in changes):
            raise ConfigurationError(f"--whatif changes {name!r} twice", hint="multiply the factors")
        changes.append(QuantityChange(name, factor))
    return changes


def changed_plan(
    model: CostModel, target: PlanTarget, changes: Sequence[QuantityChange]
) -> CapacityPlan:
    """Return the plan after the changes. With `machines`, the number of slots is fixed: that of the
    plan without changes, multiplied by the factor."""
    factors = {change.name: change.factor for change in changes}
    changed = changed_model(model, changes)
    changed_target = replace(target, rate=target.rate * factors.get("rate", 1.0))
    if "machines" not in factors:
        return plan_for(changed, changed_target)
    slots = max(1, round(plan_for(model, target).slots * factors["machines"]))
    return plan_with(changed, changed_target, min(slots, model.measurement.max_parallelism))


def changed_model(model: CostModel, changes: Sequence[QuantityChange]) -> CostModel:
    """Return the costs after the changes of the job itself, which are all but `rate` and `machines`."""
    measurement = model.measurement
    for change in changes:
        match change.name:
            case "rate" | "machines":
                continue
            case "keys" | "state" | "bytes":
                measurement = _scaled(measurement, change)
            case _:
                raise AssertionError(f"unknown quantity {change.name!r}")
    return fit(measurement)


def _scaled(measurement: Measurement, change: QuantityChange) -> Measurement:
    factor = change.factor
    if change.name == "bytes":
        phases = tuple(_with_larger_rows(phase, factor) for phase in measurement.phases)
        return msgspec.structs.replace(measurement, phases=phases)
    if change.name == "state":
        states = tuple(_larger_state(state, factor) for state in measurement.states)
        return msgspec.structs.replace(measurement, states=states)
    # With a curve, the state follows from the number of keys.
    states = tuple(
        _with_keys(
            state if curves_of(measurement, state.chain) else _larger_state(state, factor), factor
        )
        for state in measurement.states
    )
    curves = tuple(scaled(curve, factor) for curve in measurement.key_curves)
    return msgspec.structs.replace(measurement, states=states, key_curves=curves)


def _with_larger_rows(phase: Phase, factor: float) -> Phase:
    edges = tuple(
        msgspec.structs.replace(load, size_bytes=load.size_bytes * factor) for load in phase.edges
    )
    return msgspec.structs.replace(phase, edges=edges)


def _larger_state(state: OperatorState, factor: float) -> OperatorState:
    return msgspec.structs.replace(
        state,
        size_bytes=state.size_bytes * factor,
        growth_bytes_per_row=state.growth_bytes_per_row * factor,
        bytes_per_key=state.bytes_per_key * factor,
        entry_bytes=state.entry_bytes * factor,
    )


def _with_keys(state: OperatorState, factor: float) -> OperatorState:
    keys = None if state.keys is None else state.keys * factor
    return msgspec.structs.replace(state, keys=keys)
