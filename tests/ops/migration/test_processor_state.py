"""A function continues a `StatefulProcessor`: values, a list, a map and timers. On Spark."""

# ruff: noqa: N802, N803 - names of PySpark

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, Site
from rheos.core.protocol.shapes import StatePurpose
from rheos.ops.migration.moves import MoveOutcome
from rheos.ops.migration.processor_state import Processor, find_function, processor_of
from rheos.ops.migration.proof import prove
from rheos.ops.migration.query_import import import_query
from rheos.ops.migration.spark_program import SparkQuery
from rheos.ops.migration.spark_state import StateOperator
from tests.ops.migration.queries import FIRST, REST, job, put, run_query, stream_of

AFTER_MS = 1_000_000
PROPERTIES = (
    '{"timeMode":"EventTime","outputMode":"Append","stateVariables":['
    '{"stateName":"seen","stateVariableType":"ValueState","ttlEnabled":%s},'
    '{"stateName":"$eventTimers_keyToTimestamp","stateVariableType":"TimerState","ttlEnabled":false}]}'
)


@dataclass
class Account:
    orders: int
    price: int


@dataclass
class Seen:
    item: str
    seen: int
    price: int
    prices: list[int]
    kinds: int


class Orders(rh.KeyedProcessFunction):
    seen = rh.ValueState(int, default=0)
    account = rh.ValueState(Account, default=Account(0, 0))
    prices = rh.ListState(int)
    kinds = rh.MapState(str, int)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Seen]:
        self.seen.value += 1
        self.prices.append(row.price)
        self.kinds[f"kind {row.price % 2}"] = row.price
        self.account.value = Account(self.seen.value, row.price)
        ctx.timers.register(int(row.at.timestamp() * 1000) + AFTER_MS)
        yield Seen(row.item, self.seen.value, row.price, [*self.prices], len(self.kinds))

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> None:
        pass


def processor() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class SparkOrders(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.seen = handle.getValueState("seen", "n long")
            self.account = handle.getValueState("account", "orders long, price long")
            self.prices = handle.getListState("prices", "price long")
            self.kinds = handle.getMapState("kinds", "kind string", "price long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            seen = self.seen.get()[0] if self.seen.exists() else 0
            for row in sorted(rows, key=lambda row: row.at):
                seen += 1
                self.prices.appendValue((row.price,))
                self.kinds.updateValue((f"kind {row.price % 2}",), (row.price,))
                self.account.update((seen, row.price))
                self.handle.registerTimer(int(row.at.timestamp() * 1000) + 1_000_000)
                prices = [each[0] for each in self.prices.get()]
                kinds = len(list(self.kinds.keys()))
                yield Row(item=key[0], seen=seen, price=row.price, prices=prices, kinds=kinds)
            self.seen.update((seen,))

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            return iter(())

        def close(self) -> None:
            pass

    return SparkOrders()


@pytest.mark.spark
def test_a_function_continues_a_processor(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="transformWithState of PySpark needs protobuf")
    provider = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    before = spark.conf.get(provider)
    spark.conf.set(provider, rocksdb)
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    columns = "item string, seen long, price long, prices array<long>, kinds long"

    def query() -> Any:
        grouped = stream_of(spark, folder).groupBy("item")
        return grouped.transformWithState(processor(), columns, "append", "EventTime")

    def build(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("item").process(Orders())

    try:
        put(folder, "1.json", FIRST)
        run_query(query(), "append", checkpoint, "first")
        put(folder, "2.json", REST)
        plan = job(folder, build).plan()
        found = import_query(spark, str(checkpoint), plan)
        assert [move.outcome for move in found.moves] == [MoveOutcome.MOVED] * 2
        savepoint = found.write(str(tmp_path / "savepoint"))
        timers = rh.savepoint(spark, savepoint).state("moved", "timers")
        proof = prove(found, plan, SparkQuery(query(), "append", Site("query.py", 1)))
    finally:
        spark.conf.set(provider, before)
    at = [datetime.fromisoformat(str(row["at"])).astimezone(UTC) for row in FIRST]
    assert sorted((row.item, row.timestamp_ms, row.domain) for row in timers.collect()) == sorted(
        (row["item"], int(each.timestamp() * 1000) + AFTER_MS, "event")
        for row, each in zip(FIRST, at, strict=True)
    )
    assert proof.holds, [*proof.explained()]
    assert max(proof.job.column("seen").to_pylist()) == 4


def test_states_that_expire_are_refused() -> None:
    kind = "transformWithStateInPySparkExec"
    assert processor_of(StateOperator(0, kind, PROPERTIES % "false")) == Processor(
        StateOperator(0, kind, PROPERTIES % "false"), {"seen": StatePurpose.VALUE}, "event"
    )
    with pytest.raises(ConfigurationError, match="state 'seen' expires, which is not moved"):
        processor_of(StateOperator(0, kind, PROPERTIES % "true"))
    with pytest.raises(ConfigurationError, match="the properties of the operator cannot be read"):
        processor_of(StateOperator(0, kind, None))


def test_a_function_must_declare_all_states(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.json", FIRST)
    plan = job(tmp_path / "in", lambda rows: rows.key_by("item").process(Orders())).plan()
    operator = StateOperator(0, "transformWithStateExec", None)
    states = {"seen": StatePurpose.VALUE, "prices": StatePurpose.LIST}
    assert find_function(Processor(operator, states, None), plan.operators()).id == "moved"
    for other in ({"seen": StatePurpose.MAP}, {"saw": StatePurpose.VALUE}):
        with pytest.raises(ConfigurationError, match="no function with the states of the processor"):
            find_function(Processor(operator, other, None), plan.operators())
