"""Other forms of keyed functions: for whole batches, in event-time order, with timers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import polars as pl

import rheos as rh
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.keyed import GAP_MS, Session, sessions_golden
from tests.equivalence.corpus.program import Given, Program


class SessionBatches(rh.KeyedBatchFunction):
    """Sales of a shop with less than GAP_MS in between. If the next sale is in the same batch, the
    session ends there, otherwise by a timer."""

    side_outputs = {"gaps": Session}
    start = rh.ValueState(int, default=0)
    last = rh.ValueState(int, default=0)
    sales = rh.ValueState(int, default=0)
    quantity = rh.ValueState(int, default=0)
    ended = rh.ValueState(bool, default=False)

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Session]]:
        quantities = batch["quantity"].fill_null(0).to_numpy()
        for rows in keys.rounds():
            shops, times = keys[rows], keys.timestamps[rows]
            last = state.last[shops]
            is_open = state.sales[shops] > 0
            over = is_open & (times > last + GAP_MS)
            if over.any():
                yield self.sessions(shops[over], rows[over], state)
                state.ended[shops[over]] = True
            state.timers.delete(shops[is_open], last[is_open] + GAP_MS)
            begins = over | ~is_open
            paused = np.flatnonzero(begins & state.ended[shops])
            gaps = {"start": last, "end": times, "sales": pl.lit(0), "quantity": pl.lit(0)}
            yield rh.Emit(shops.frame().with_columns(**gaps)[paused], rows[paused], "gaps")
            state.start[shops] = np.where(begins, times, state.start[shops])
            state.sales[shops] = np.where(begins, 1, state.sales[shops] + 1)
            before = np.where(begins, 0, state.quantity[shops])
            state.quantity[shops] = before + quantities[rows]
            state.last[shops] = times
            state.timers.register(shops, times + GAP_MS)

    def on_timers(
        self, keys: rh.BatchKeys, timestamps: Any, state: rh.BatchState
    ) -> Iterator[rh.Emit[Session]]:
        yield self.sessions(keys, np.arange(len(keys)), state)
        state.sales.clear(keys)
        state.ended[keys] = True

    def sessions(self, shops: rh.BatchKeys, rows: Any, state: rh.BatchState) -> rh.Emit[Session]:
        found = {
            "start": state.start[shops],
            "end": state.last[shops] + GAP_MS,
            "sales": state.sales[shops],
            "quantity": state.quantity[shops],
        }
        return rh.Emit(shops.frame().with_columns(**found), rows)


def vectorised_sessions(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).key_by("shop").process(SessionBatches(), order="event_time")
    return {
        "sessions": found,
        "gaps": found.side_output("gaps"),
        "late": found.side_output("late"),
    }


# --- compiled -----------------------------------------------------------------------------------------


class CompiledSessions(rh.KeyedProcessFunction):
    """Compiled form of `keyed.Sessions`."""

    side_outputs = {"gaps": Session}
    start = rh.ValueState(int)
    last = rh.ValueState(int, default=0)
    sales = rh.ValueState(int, default=0)
    quantity = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Session]:
        if self.start.value is None:
            self.start.value = ctx.timestamp
            if self.last.value:
                ctx.output("gaps", Session(sale.shop, self.last.value, ctx.timestamp, 0, 0))
        else:
            ctx.timers.delete(self.last.value + GAP_MS)
        self.last.value = ctx.timestamp
        self.sales.value += 1
        self.quantity.value += sale.quantity or 0
        ctx.timers.register(ctx.timestamp + GAP_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Session]:
        yield Session(ctx.key, self.start.value, timestamp, self.sales.value, self.quantity.value)
        self.start.clear()
        self.sales.clear()
        self.quantity.clear()


def compiled_sessions(given: Given) -> Mapping[str, rh.DataStream]:
    function = rh.compiled(CompiledSessions)()
    found = given.stream(SALES).key_by("shop").process(function, order="event_time")
    return {
        "sessions": found,
        "gaps": found.side_output("gaps"),
        "late": found.side_output("late"),
    }


PROGRAMS = (
    Program("sessions of whole batches", vectorised_sessions, sessions_golden),
    *(
        [Program("sessions, compiled", compiled_sessions, sessions_golden)]
        if find_spec("numba") is not None
        else []
    ),
)
