"""The program of worlds that has a compiled function, with state and timers. Its oracle is that of
the same function, interpreted (`programs`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rheos.api.streams import DataStream
from rheos.core.graph.compilation import compiled
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState
from tests.worlds.programs import ORDERED, TIMER_MS, CheckedProgram, InputRow, SessionEvent


@compiled
class CompiledSessions(KeyedProcessFunction):
    """Compiled form of `Sessions`."""

    n = ValueState(int, default=0)

    def process_element(self, row: InputRow, ctx: KeyedContext) -> Iterator[SessionEvent]:
        self.n.value += 1
        if self.n.value == 1:
            ctx.timers.register(ctx.timestamp + TIMER_MS)
        yield SessionEvent(row.k, row.i, self.n.value, 0)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[SessionEvent]:
        yield SessionEvent(ctx.key, -1, self.n.value, timestamp)
        self.n.clear()


def _compiled(rows: DataStream) -> Mapping[str, DataStream]:
    events = rows.key_by("k").process(CompiledSessions(), order="event_time")
    return {"out": events, "late": events.side_output("late")}


COMPILED = CheckedProgram("process compiled", _compiled, ORDERED.check)
