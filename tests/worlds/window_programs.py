"""Programs of windows with triggers, evictors and functions, each with its straight-line oracle
(`programs`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.functions import WindowContext, WindowFunction
from rheos.core.graph.state import ValueState
from rheos.core.graph.window_functions import (
    Element,
    Evictor,
    EvictorContext,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from rheos.core.graph.windows import CountTumbling, Tumbling
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, millis, same

_SIZE_MS = 50
_COUNT = 3
_LEAST = 2.0


class AtTheEndOfMany(Trigger):
    """Trigger that fires at the end of a window that has more than one row."""

    rows = ValueState(int, default=0)

    def on_element(self, record: Any, ctx: TriggerContext) -> TriggerResult:
        self.rows.value += 1
        ctx.timers.register(ctx.window.end_ms - 1)
        return TriggerResult.CONTINUE

    def on_event_time(self, timestamp: int, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if self.rows.value > 1 else TriggerResult.CONTINUE


class Heavier(Evictor):
    """Evictor that drops rows of little weight."""

    def evict_before(self, elements: list[Element], ctx: EvictorContext) -> list[Element]:
        return [element for element in elements if element.record.v > _LEAST]


@dataclass
class Least:
    i: int
    rows: int


@dataclass
class LeastOfWindow:
    k: int
    end: int
    i: int
    rows: int


class LeastNumber(AggregateFunction[Least]):
    def create_accumulator(self) -> Least:
        return Least(1 << 40, 0)

    def add(self, record: Any, accumulator: Least) -> Least:
        return Least(min(record.i, accumulator.i), accumulator.rows + 1)

    def get_result(self, accumulator: Least) -> Least:
        return accumulator

    def merge(self, a: Least, b: Least) -> Least:
        return Least(min(a.i, b.i), a.rows + b.rows)


class OfWindow(WindowFunction):
    def process(self, records: list[Least], ctx: WindowContext) -> Iterator[LeastOfWindow]:
        for found in records:
            yield LeastOfWindow(ctx.key, ctx.window.end_ms, found.i, found.rows)


@dataclass
class RowOfCount:
    k: int
    i: int
    least: int
    rows: int


class EachOfCount(WindowFunction):
    """Function that emits all rows of a window, each with the least of their numbers."""

    def process(self, records: list[Any], ctx: WindowContext) -> Iterator[RowOfCount]:
        least = min(record.i for record in records)
        for record in records:
            yield RowOfCount(ctx.key, record.i, least, len(records))


def _triggered(rows: DataStream) -> Mapping[str, DataStream]:
    keyed, tumbling = rows.key_by("k"), Tumbling(f"{_SIZE_MS}ms")
    fired = keyed.window(tumbling).trigger(AtTheEndOfMany()).evictor(Heavier())
    heavy = fired.aggregate(n=agg.count(), s=agg.sum("v"))
    return {
        "heavy": heavy,
        "late": heavy.side_output("late"),
        "least": keyed.window(tumbling).aggregate(LeastNumber(), process=OfWindow()),
        "counted": keyed.window(CountTumbling(_COUNT)).process(EachOfCount()),
    }


def _check_triggered(rows: list[Arrived], outputs: Outputs) -> None:
    late: list[int] = []
    windows: dict[tuple[int, int], list[Arrived]] = defaultdict(list)
    keys: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        keys[row.k].add(row.i)
        end = row.at // _SIZE_MS * _SIZE_MS + _SIZE_MS
        if end - 1 <= row.wm:
            late.append(row.i)
        else:
            windows[row.k, end].append(row)
    same((out["i"] for out in outputs["late"]), late, "late rows")
    many = {of: [row.v for row in held] for of, held in windows.items() if len(held) > 1}
    heavy = {of: [v for v in values if v > _LEAST] for of, values in many.items()}
    same(
        ((out["k"], millis(out["window_end"]), out["n"], out["s"]) for out in outputs["heavy"]),
        ((*of, len(values), sum(values)) for of, values in heavy.items() if values),
        "windows of heavy rows",
    )
    same(
        ((out["k"], out["end"], out["i"], out["rows"]) for out in outputs["least"]),
        ((*of, min(row.i for row in held), len(held)) for of, held in windows.items()),
        "least numbers",
    )
    # Which rows share a window depends on their order; the number of rows does not, and no row appears
    # twice.
    counted: dict[tuple[int, int], list[int]] = defaultdict(list)
    for out in outputs["counted"]:
        assert out["rows"] == _COUNT, f"{out}: a window has {_COUNT} rows"
        counted[out["k"], out["least"]].append(out["i"])
    for (key, least), numbers in counted.items():
        assert len(set(numbers)) == _COUNT, f"window {key}, {least}: {numbers}"
        assert min(numbers) == least, f"window {key}, {least}: {numbers}"
        assert set(numbers) <= keys[key], f"window {key}, {least}: not all of {numbers} are the key's"
    found = [(key, i) for (key, _), numbers in counted.items() for i in numbers]
    assert len(set(found)) == len(found), "a row is in two windows of a count"
    same(
        (key for key, _ in counted),
        (key for key, of in keys.items() for _ in range(len(of) // _COUNT)),
        "windows of a count",
    )


TRIGGERED = CheckedProgram("triggered windows", _triggered, _check_triggered)
