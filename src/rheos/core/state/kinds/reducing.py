"""ReducingState: values that are combined two by two into one of their own type."""

from __future__ import annotations

from typing import Any

from rheos.core.graph.state import ReducingState
from rheos.core.protocol.shapes import Holds
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.combining import CombiningHandle, KeptValue
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.kinds.value import expiring_value, value
from rheos.core.state.scope import KeyScope


class ReducingKind(DeclaredKind[ReducingState[Any]]):
    holds = Holds.VALUE

    def types(self, declared: ReducingState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: ReducingState[Any], stores: KeyedStateBackend, scope: KeyScope
    ) -> CombiningHandle:
        return _reducing(declared, value(declared.name, declared.type, stores, scope))

    def expiring_handle(
        self, declared: ReducingState[Any], stores: KeyedStateBackend, scope: KeyScope, expiry: Expiry
    ) -> CombiningHandle:
        return _reducing(declared, expiring_value(declared.name, declared.type, stores, scope, expiry))


def _reducing(declared: ReducingState[Any], cell: KeptValue) -> CombiningHandle:
    return CombiningHandle(cell, _same, declared.reduce, _same)


def _same(value: Any) -> Any:
    return value
