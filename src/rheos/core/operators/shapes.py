"""What state the operators of a plan keep, made from what the program says of them.

The names are those of the parts that the operators' snapshots give.
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
    """What is asked of a planned operator."""

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
    """By operator and state; operators without state are not in it.

    Raises SchemaError, with its place, where a declared state cannot be stored.
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
