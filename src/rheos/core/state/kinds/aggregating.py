"""AggregatingState: values that go into an accumulator, of which a result is read."""

from __future__ import annotations

from typing import Any

from rheos.core.graph.state import AggregatingState
from rheos.core.protocol.shapes import Holds
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds.combining import CombiningHandle, KeptValue
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.kinds.value import expiring_value, value
from rheos.core.state.scope import KeyScope


class AggregatingKind(DeclaredKind[AggregatingState[Any]]):
    holds = Holds.VALUE

    def types(self, declared: AggregatingState[Any]) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: AggregatingState[Any], stores: KeyedStateBackend, scope: KeyScope
    ) -> CombiningHandle:
        return _aggregating(declared, value(declared.name, declared.type, stores, scope))

    def expiring_handle(
        self,
        declared: AggregatingState[Any],
        stores: KeyedStateBackend,
        scope: KeyScope,
        expiry: Expiry,
    ) -> CombiningHandle:
        return _aggregating(
            declared, expiring_value(declared.name, declared.type, stores, scope, expiry)
        )


def _aggregating(declared: AggregatingState[Any], cell: KeptValue) -> CombiningHandle:
    function = declared.function

    def first(record: Any) -> Any:
        return function.add(record, function.create_accumulator())

    def combine(accumulator: Any, record: Any) -> Any:
        return function.add(record, accumulator)

    return CombiningHandle(cell, first, combine, function.get_result)
