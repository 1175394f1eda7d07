"""The shapes of the state that the operators of a plan keep, from the operators' specs.

The names are those of the parts in the operators' snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rheos.core.errors import RheosError, Site
from rheos.core.operators.contract import OperatorSpec, PortType
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import StateShape

States = dict[str, StateShape]


class OperatorPlan(Protocol):
    """Part of a planned operator that this module uses."""

    @property
    def id(self) -> OperatorId: ...
    @property
    def name(self) -> str: ...
    @property
    def site(self) -> Site: ...
    @property
    def spec(self) -> OperatorSpec: ...
    @property
    def ports(self) -> tuple[PortType, ...]: ...


def state_shapes(operators: Iterable[OperatorPlan]) -> dict[OperatorId, States]:
    """Return the shapes by operator and state, without operators that have no state.

    Raise SchemaError, with the operator's site, if a declared state cannot be stored.
    """
    found = {}
    for operator in operators:
        try:
            states = operator.spec.states(operator.ports)
        except RheosError as error:
            raise error.located(site=operator.site, operator=operator.name) from error.__cause__
        if states:
            found[operator.id] = states
    return found
