"""Union: the rows of all inputs, which are of one schema, as they come."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.operators.contract import Operator, Out
from rheos.protocol.elements import Batch


class UnionOperator(Operator):
    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield Out(batch)
