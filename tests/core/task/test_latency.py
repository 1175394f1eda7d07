"""Latency markers: they follow rows from sources to sinks, and measure the time in between."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import rheos as rh
from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.generator import Block
from rheos.core.metrics import declarations as f
from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.elements import End, LatencyMark, WatermarkMark
from rheos.core.protocol.ids import ChainId
from rheos.core.task.config import TaskConfig
from rheos.core.task.outputs import OutputEdge, Outputs
from rheos.core.task.slot_metrics import slot_readings
from tests.core.operators.contexts import StillClock
from tests.core.task.cluster import Cluster, planned
from tests.core.task.test_outputs import _Line, _Lines, edge, rows

MARK = LatencyMark(ChainId(0), 1_000)
ROWS = 2_000


def test_a_marker_waits_with_the_rows_before_it() -> None:
    line = _Line(4)
    out = edge(line)
    out.write(rows(1))
    out.latency(MARK)
    out.latency(LatencyMark(ChainId(0), 2_000))
    out.mark(WatermarkMark(5))
    assert line.sent == []
    out.pump(force=True)
    # The second one would have waited as long, and says nothing more.
    assert line.sent == [[1], WatermarkMark(5), MARK]


def test_a_marker_without_rows_is_sent_at_once_and_never_after_the_end() -> None:
    line = _Line(4)
    out = edge(line)
    out.latency(MARK)
    out.mark(End())
    out.latency(MARK)
    assert line.sent == [MARK, End()]


def test_in_an_overdraft_a_marker_keeps_its_place() -> None:
    line = _Line(0)
    out = edge(line)
    out.overdraft = True
    out.write(rows(1))
    out.latency(MARK)
    out.mark(WatermarkMark(5))
    out.mark(End())
    out.overdraft = False
    line.left = 1
    out.pump()
    assert line.sent == [[1], WatermarkMark(5), MARK, End()]


def test_markers_are_sent_to_targets_with_rows_in_turn() -> None:
    line = _Lines(4)
    described = Edge(0, Exchange.HASH, ChainId(0), ChainId(1), 0, ("v",))
    out = OutputEdge(described, 1, 4, 4, 3, 16, TaskConfig(), line, StillClock())
    for _ in range(4):
        out.latency(MARK)
    assert line.sent == [(1, MARK), (2, MARK), (0, MARK), (1, MARK)]


def test_no_marker_enters_a_loop() -> None:
    lines = _Line(4), _Line(4)
    edges = {
        number: OutputEdge(
            Edge(number, Exchange.FORWARD, ChainId(0), ChainId(1), 0, (), loop=loop),
            0,
            1,
            1,
            1,
            16,
            TaskConfig(),
            line,
            StillClock(),
        )
        for number, (line, loop) in enumerate(zip(lines, (None, ChainId(0)), strict=True))
    }
    Outputs(edges, {}).latency(MARK)
    assert [line.sent for line in lines] == [[MARK], []]


def _counted(env: Environment) -> Mapping[str, DataStream]:
    def numbers(block: Block) -> dict[str, list[int]]:
        found = range(block.start, block.start + block.rows)
        return {"k": [n % 7 for n in found], "n": list(found)}

    stream = env.from_source(rh.generator(numbers, count=ROWS, splits=2, block_rows=4), name="numbers")
    counted = stream.key_by("k").running(n=rh.agg.count())
    return {"counted": counted, "as they are": stream.rebalance().select("n")}


@pytest.mark.parametrize("config", [TaskConfig(progress_interval_us=2_000), TaskConfig()])
def test_each_sink_measures_the_latency_from_its_source(config: TaskConfig) -> None:
    cluster = Cluster(planned(_counted), config, parallelism=3)
    cluster.run_until(lambda: cluster.is_drained)
    found: dict[tuple[str, str], Accumulated] = {}
    for slot in cluster.slots:
        engine = slot.engine
        for reading in slot_readings(engine._turns, engine._committing, 0):
            if reading.metric == f.LATENCY.name:
                assert isinstance(reading.value, Accumulated)
                source, sink = reading.at
                found[source, sink] = found.get((source, sink), Accumulated()).plus(reading.value)
    cluster.close()
    if config == TaskConfig():
        assert found == {}, "the job has ended before a second was over"
        return
    assert set(found) == {("source-1", "sink-1"), ("source-1", "sink-2")}
    for took_ms in found.values():
        assert took_ms.n > 10
        assert took_ms.least is not None
        assert took_ms.least >= 0
