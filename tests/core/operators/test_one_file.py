"""A new operator is one file: this one is defined here, and works with everything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Needed, Operator, OperatorContext, OperatorSpec, Out
from rheos.core.operators.origins import Origin, RowsOfKey
from rheos.core.protocol.elements import Batch
from rheos.ops.forks.reservations import reservations
from rheos.ops.lineage.ledger import Ledger
from rheos.ops.lineage.operator_rules import watched
from rheos.ops.lineage.reasons import OfKey
from tests.ports import connected

ROWS = [{"k": "ab"[i % 2], "v": i, "unread": "x" * i} for i in range(10)]
SCHEMA = pa.schema([("k", pa.string()), ("total", pa.int64())])


@dataclass(frozen=True)
class TotalSpec(OperatorSpec):
    """The total of a column per key, when the input ends."""

    column: str

    kind: ClassVar[str] = "total"

    def operator(self, ctx: OperatorContext) -> Operator:
        return Total(ctx, self)

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        return frozenset({self.column})

    def origin(self) -> Origin:
        return RowsOfKey(doubt=None)

    def summary(self) -> str:
        return f"total of {self.column}"


class Total(Operator):
    def __init__(self, ctx: OperatorContext, spec: TotalSpec) -> None:
        super().__init__(ctx)
        self._column = spec.column
        self._totals: dict[str, int] = {}

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        assert "unread" not in batch.schema.names
        keys, values = batch.column("k").to_pylist(), batch.column(self._column).to_pylist()
        for key, value in zip(keys, values, strict=True):
            self._totals[key] = self._totals.get(key, 0) + value
        return iter(())

    def next_keys(self) -> None:
        """Emit the totals when the input ends."""

    def on_end(self) -> Iterator[Out]:
        made = [{"k": key, "total": total} for key, total in self._totals.items()]
        if made:
            yield Out(pa.RecordBatch.from_pylist(made, schema=SCHEMA))


def program(runtime: Any, **options: Any) -> rh.Environment:
    env = rh.Environment(2, runtime=runtime, **options)
    # The function before the exchange emits a column that nothing needs.
    rows = env.from_source(rh.collection(ROWS)).map(
        lambda row: row,
        returns=pa.schema([("k", pa.string()), ("v", pa.int64()), ("unread", pa.string())]),
    )
    keyed = rows.key_by("k")
    totals = connected(TotalSpec("v"), rows, keyed._port, schema=SCHEMA, event_time=False)
    totals.collect("totals")
    return env


@pytest.mark.parametrize(
    "runtime",
    [
        "simulated",
        pytest.param("batch", marks=pytest.mark.spark),
        pytest.param("continuous", marks=pytest.mark.spark),
    ],
)
def test_a_new_operator_runs(runtime: str) -> None:
    found = program(runtime).execute("totals").collected["totals"].to_pylist()
    assert {row["k"]: row["total"] for row in found} == {"a": 20, "b": 25}


def test_a_new_operator_is_planned_explained_traced_and_forked() -> None:
    env = program("simulated")
    plan = env.plan()
    assert "total of v" in env.explain()
    [total] = [planned for planned in plan.operators() if isinstance(planned.spec, TotalSpec)]
    assert total.id == "total-1"
    # A shuffle carries what it needs.
    [edge] = [schema for schema in plan.edge_schemas().values() if "v" in schema.names]
    assert edge.names == ["k", "v"]
    rule = watched(total, 0, Ledger(), restored=False).rule
    assert isinstance(rule, OfKey)
    # By default an operator may use the order in which rows arrive.
    [found] = reservations([total], splits=2)
    assert found.operator == total.name
    assert "order" in found.why
    assert MAIN in total.outputs
