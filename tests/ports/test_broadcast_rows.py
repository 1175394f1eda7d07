"""Invariant EX17: rows of a broadcast port reach every subtask, and change no keyed state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from rheos.core.errors import StateAccessError
from rheos.core.operators.contract import Out
from rheos.core.protocol.elements import Batch
from tests.core.operators.contexts import context
from tests.ports.ruled import RULES, Ruled

ROWS = pa.schema([("k", pa.int64()), ("i", pa.int64())])
BATCH = pa.record_batch({"k": [1, 2], "i": [5, 10]}, schema=ROWS)


class Counting(Ruled):
    """Operator that counts rules in the keyed state of whatever key was current last."""

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if port == RULES:
            self._n.value += 1
        yield from super().on_rows(port, batch)


class CountingByKey(Counting):
    """Operator that sets a key itself for each broadcast row."""

    def on_rows(self, port: int, batch: Batch) -> Iterator[Out]:
        if port == RULES:
            self._scope.key = 1
        yield from super().on_rows(port, batch)


def opened(kind: type[Ruled]) -> Ruled:
    ctx = context(ROWS, {}, keys=("k",))
    ctx.ports = (*ctx.ports, replace(ctx.ports[0], keys=(), broadcast=True))
    operator = kind(ctx)
    operator.open({})
    return operator


def test_a_broadcast_row_has_no_current_key() -> None:
    operator = opened(Counting)
    list(operator.on_batch(0, BATCH))
    with pytest.raises(StateAccessError, match="outside a keyed context"):
        list(operator.on_batch(RULES, BATCH))


def test_setting_a_key_for_a_broadcast_row_is_a_defect() -> None:
    operator = opened(CountingByKey)
    with pytest.raises(AssertionError, match="EX17"):
        list(operator.on_batch(RULES, BATCH))


def test_rows_of_both_ports_may_alternate() -> None:
    operator = opened(Ruled)
    for port in (0, RULES, 0):
        list(operator.on_batch(port, BATCH))
    operator._scope.key = 2
    assert operator._n.value == 2
