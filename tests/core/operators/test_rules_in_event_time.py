"""Functions with broadcast rules in the order of event time: calls, bounds, and batch operators, which
deliver the rules anew for each set of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, Out
from rheos.core.operators.late_rows import DELIVERED_LATE, LATE_OF_TWO
from rheos.core.operators.rows_by_time import WAITING_ROWS
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.state_config import StateConfig
from tests.core.operators.contexts import context

EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass
class Event:
    n: int
    at: datetime


@dataclass
class Met:
    n: int
    at: int
    rules: int
    late: bool


class Keyed(rh.KeyedBroadcastProcessFunction):
    rules = rh.BroadcastState(int, int)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Met]:
        ctx.timers.register(ctx.timestamp + 5)
        yield Met(event.n, ctx.timestamp, len(self.rules), ctx.is_late)

    def process_broadcast_element(self, rule: Event, ctx: rh.ProcessContext) -> Iterator[Met]:
        self.rules[rule.n] = 1
        yield Met(rule.n, ctx.timestamp, -1, ctx.is_late)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Met]:
        yield Met(-ctx.key, timestamp, len(self.rules), ctx.is_late)


class Plain(rh.BroadcastProcessFunction):
    rules = rh.BroadcastState(int, int)

    def process_element(self, event: Event, ctx: rh.ProcessContext) -> Iterator[Met]:
        yield Met(event.n, ctx.timestamp, len(self.rules), ctx.is_late)

    def process_broadcast_element(self, rule: Event, ctx: rh.ProcessContext) -> Iterator[Met]:
        self.rules[rule.n] = 1
        yield Met(rule.n, ctx.timestamp, -1, ctx.is_late)


def planned(*, keyed: bool, late: Any = "side_output") -> PlannedOperator:
    env = rh.Environment(1)
    events, rules = (
        env.from_source(rh.collection([Event(1, EPOCH)]), rh.Watermark.monotonic(on="at"), name=name)
        for name in ("events", "rules")
    )
    if keyed:
        both = events.key_by("n").connect(rules.broadcast())
        made = both.process(Keyed(), order="event_time", late=late)
    else:
        made = events.connect(rules.broadcast()).process(Plain(), order="event_time", late=late)
    made.collect("out")
    if late == "side_output":
        for tag in LATE_OF_TWO:
            made.side_output(tag).collect(tag)
    [found] = [op for op in env.plan().operators() if len(op.ports) == 2]
    return found


def context_for(operator: PlannedOperator, **changes: Any) -> OperatorContext:
    out = operator.outputs[MAIN].schema
    return replace(context(out, out), ports=operator.ports, outputs=operator.outputs, **changes)


def rows(operator: PlannedOperator, port: int, *given: tuple[int, int, int]) -> pa.RecordBatch:
    """Return rows by number, time and the watermark of their split."""
    columns = {
        "n": [n for n, _, _ in given],
        "at": [EPOCH] * len(given),
        TS: [at for _, at, _ in given],
        WM: [mark for _, _, mark in given],
    }
    return pa.RecordBatch.from_pydict(columns, schema=operator.ports[port].schema)


def called(outputs: Iterator[Out]) -> list[tuple[Any, ...]]:
    found = [out for out in outputs if out.tag == MAIN]
    return [
        (row["n"], row["at"], row["rules"], row["late"])
        for out in found
        for row in out.batch.to_pylist()
    ]


def opened(operator: Operator) -> Operator:
    operator.open({})
    return operator


NO = MIN_TIMESTAMP_MS


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_a_row_meets_the_rules_at_or_before_its_time(keyed: bool) -> None:
    plan = planned(keyed=keyed)
    operator = opened(plan.spec.operator(context_for(plan)))
    assert not called(operator.on_batch(0, rows(plan, 0, (3, 30, NO), (1, 10, NO), (2, 20, NO))))
    assert not called(operator.on_batch(1, rows(plan, 1, (21, 21, NO), (11, 10, NO), (12, 20, NO))))
    timer = {True: lambda *call: [call], False: lambda *call: []}[keyed]
    assert called(operator.on_watermark(25)) == [
        (11, 10, -1, False),
        (1, 10, 1, False),
        *timer(-1, 15, 1, False),
        (12, 20, -1, False),
        (2, 20, 2, False),
        (21, 21, -1, False),
        *timer(-2, 25, 3, False),
    ]
    assert called(operator.on_watermark(30)) == [(3, 30, 3, False)]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_late_rows_are_called_after_the_watermark_that_made_them_late(keyed: bool) -> None:
    plan = planned(keyed=keyed, late="deliver")
    ctx = context_for(plan)
    operator = opened(plan.spec.operator(ctx))
    first = rows(plan, 1, (11, 20, NO), (12, 5, 19), (13, 21, 19))
    list(operator.on_batch(1, first))
    list(operator.on_batch(0, rows(plan, 0, (1, 19, NO), (2, 7, 19), (3, 20, 19))))
    calls = [call for call in called(operator.on_watermark(20)) if call[0] > 0]
    # At 20, late ones first; of these and of the others, rules first.
    assert calls == [
        (1, 19, 0, False),
        (12, 5, -1, True),
        (2, 7, 1, True),
        (11, 20, -1, False),
        (3, 20, 2, False),
    ]
    assert ctx.counters == {DELIVERED_LATE: 2}
    assert ctx.gauges[WAITING_ROWS]() == 1


def test_late_rules_are_emitted_by_one_subtask() -> None:
    plan = planned(keyed=True)
    emitted = []
    for leads in (True, False):
        ctx = context_for(plan, leads=leads)
        operator = opened(plan.spec.operator(ctx))
        late = [out for port in (0, 1) for out in operator.on_batch(port, rows(plan, port, (1, 5, 9)))]
        emitted.append(([out.tag for out in late], ctx.counters))
    assert emitted == [(list(LATE_OF_TWO), {"late": 2}), (["late_left"], {"late": 1})]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_too_many_waiting_rows_end_the_job(keyed: bool) -> None:
    plan = planned(keyed=keyed)
    operator = opened(plan.spec.operator(context_for(plan, state=StateConfig(rows_per_key=3))))
    list(operator.on_batch(0, rows(plan, 0, (1, 1, NO), (2, 2, NO))))
    with pytest.raises(
        InputError, match="more than 3 rows of a subtask wait for the watermark"
    ) as raised:
        list(operator.on_batch(1, rows(plan, 1, (1, 1, NO), (2, 2, NO))))
    assert "set idle_after" in (raised.value.hint or "")


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_in_batch_each_set_of_rows_meets_the_rules_of_its_times(keyed: bool) -> None:
    plan = planned(keyed=keyed)
    operator = opened(plan.spec.in_batch(context_for(plan, batch_rows=1)))
    list(operator.on_batch(1, rows(plan, 1, (11, 10, NO), (12, 20, NO))))
    calls: list[Any] = []
    for first in (0, 8):
        for n in range(first, first + 8):
            calls += called(operator.on_batch(0, rows(plan, 0, (n, n + 5, NO))))
        if keyed:
            calls += called(operator.on_watermark(MAX_TIMESTAMP_MS))
            operator.next_keys()
    calls += called(operator.on_watermark(MAX_TIMESTAMP_MS) if not keyed else operator.on_end())
    of_rows = [call for call in calls if call[2] >= 0 and call[0] >= 0 and call[1] == call[0] + 5]
    assert of_rows == [(n, n + 5, (n >= 5) + (n >= 15), False) for n in range(16)]
    # The output of each rule counts once.
    assert [call for call in calls if call[2] < 0] == [(11, 10, -1, False), (12, 20, -1, False)]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_in_batch_rules_are_called_if_no_row_arrives(keyed: bool) -> None:
    plan = planned(keyed=keyed)
    operator = opened(plan.spec.in_batch(context_for(plan)))
    list(operator.on_batch(1, rows(plan, 1, (11, 10, NO))))
    ends = () if keyed else operator.on_watermark(MAX_TIMESTAMP_MS)
    assert called(iter([*ends, *operator.on_end()])) == [(11, 10, -1, False)]
