"""A batch job emits each window once, with the last result of a continuous job, however many rows of a
key are processed at once."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from rheos.core.graph.functions import WindowContext, WindowFunction
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.windows import Cumulating, Session, Sliding, Tumbling, Window
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.process import WindowProcessOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS
from rheos.runtimes.batch.keyed_input import Generations
from rheos.runtimes.batch.layout import HASH
from tests.core.operators.window.harness import Bench, context

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
SAID = pa.schema([("start", pa.int64()), ("end", pa.int64()), ("values", pa.list_(pa.int64()))])
BOUND_MS = 40
WINDOWS = [
    Session("20ms"),
    Tumbling("20ms"),
    Sliding("30ms", every="10ms"),
    Cumulating("40ms", step="10ms"),
]


class Say(WindowFunction):
    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        values = [record.v for record in records]
        yield {"start": ctx.window.start_ms, "end": ctx.window.end_ms, "values": values}


class Result(NamedTuple):
    start: int
    end: int
    values: frozenset[int]


def bench(window: Window, lateness_ms: int, *, once: bool) -> Bench:
    def make(subtask: int, parallelism: int) -> WindowOperator:
        ctx = context(
            SCHEMA, ("k",), {MAIN: SAID}, subtask=subtask, parallelism=parallelism, batch_rows=1000
        )
        operator = WindowProcessOperator(ctx, WindowSpec(window, lateness_ms, {}, fn=Say()))
        if once:
            operator.fire_once()
        return operator

    return Bench(make, ("k",), SCHEMA)


def results(given: list[dict[str, Any]]) -> list[Result]:
    return [Result(one["start"], one["end"], frozenset(one["values"])) for one in given]


def arrived(seed: int) -> list[dict[str, Any]]:
    """Return rows of one split, each with the watermark before it. Many are exactly a gap apart, or
    late."""
    draw = Random(seed)
    rows, latest, at = [], MIN_TIMESTAMP_MS, 0
    for v in range(draw.randint(5, 40)):
        at += draw.choice((0, 5, 5, 10, 20, 20, 45))
        ts = max(0, at - draw.choice((0, 0, 0, 5, 20, 40, 60, 100)))
        rows.append({"k": "a", "v": v, "ts": ts, "wm": max(latest - BOUND_MS - 1, MIN_TIMESTAMP_MS)})
        latest = max(latest, ts)
    return rows


def continuous(window: Window, lateness_ms: int, rows: list[dict[str, Any]]) -> list[Result]:
    """Return the results row by row, without those that later ones replace."""
    running = bench(window, lateness_ms, once=False)
    given: list[dict[str, Any]] = []
    for row in rows:
        given += running.watermark(row["wm"])
        given += running.rows([row])
    given += running.watermark(MAX_TIMESTAMP_MS)
    found = results(given)
    return [
        one
        for at, one in enumerate(found)
        if not any(
            later.start <= one.start and one.end <= later.end and one.values <= later.values
            for later in found[at + 1 :]
            if isinstance(window, Session) or later[:2] == one[:2]
        )
    ]


def batch(window: Window, lateness_ms: int, rows: list[dict[str, Any]], at_once: int) -> list[Result]:
    running = bench(window, lateness_ms, once=True)
    ordered = sorted(rows, key=lambda row: row["ts"])
    table = pa.RecordBatch.from_pydict(
        {
            HASH: [1] * len(ordered),
            "number": range(len(ordered)),
            TS: [row["ts"] for row in ordered],
        }
    )
    generations = Generations(True, at_once)
    given: list[dict[str, Any]] = []
    for feed in [*generations.take(table), *generations.end()]:
        given += running.rows([ordered[n] for n in feed.rows["number"].to_pylist()])
        given += running.watermark(MAX_TIMESTAMP_MS if feed.ends else feed.until_ms)
    return results(given)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("lateness_ms", [0, 20, 70])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: type(window).__name__)
def test_the_results_of_a_batch_are_the_last_ones(window: Window, lateness_ms: int) -> None:
    for seed in range(60, 75):
        rows = arrived(seed)
        wanted = sorted(continuous(window, lateness_ms, rows))
        for at_once in (2, 5, 1000):
            assert sorted(batch(window, lateness_ms, rows, at_once)) == wanted, (seed, at_once)


def test_a_session_is_not_emitted_before_a_row_exactly_a_gap_later() -> None:
    rows = [
        {"k": "a", "v": v, "ts": ts, "wm": MIN_TIMESTAMP_MS} for v, ts in enumerate([0, 10, 30, 50])
    ]
    for lateness_ms in (0, 20):
        assert batch(Session("20ms"), lateness_ms, rows, 2) == [Result(0, 70, frozenset(range(4)))]
