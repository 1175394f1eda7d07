"""A program whose state expires, written for single rows and for whole batches, with its oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import polars as pl

from rheos.api.streams import DataStream
from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import TimeToLive, ValueState
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, same

SEEN_MS = 60
RUN_MS = 25


@dataclass
class Heard:
    k: int
    i: int
    is_new: bool
    run: int


class Hearing(KeyedProcessFunction):
    """Function that emits whether a key had no recent rows, and how many of its rows arrived without
    a pause."""

    seen = ValueState(bool, ttl=f"{SEEN_MS}ms")
    run = ValueState(int, default=0, ttl=TimeToLive(f"{RUN_MS}ms", renewed_on="read_and_write"))

    def process_element(self, row: Arrived, ctx: KeyedContext) -> Iterator[Heard]:
        is_new = self.seen.value is None
        if is_new:
            self.seen.value = True
        self.run.value += 1
        yield Heard(ctx.key, row.i, is_new, self.run.value)


class HearingBatches(KeyedBatchFunction):
    """Batch form of `Hearing`."""

    seen = ValueState(bool, default=False, ttl=f"{SEEN_MS}ms")
    run = ValueState(int, default=0, ttl=TimeToLive(f"{RUN_MS}ms", renewed_on="read_and_write"))

    def process_batch(
        self, keys: BatchKeys, batch: pl.DataFrame, state: BatchState
    ) -> Iterator[Emit[Heard]]:
        numbers = batch["i"].to_numpy()
        for rows in keys.rounds():
            at = keys[rows]
            is_new = ~state.seen[at]
            first = np.flatnonzero(is_new)
            state.seen[at[first]] = True
            state.run[at] = state.run[at] + 1
            found = {"i": numbers[rows], "is_new": is_new, "run": state.run[at]}
            yield Emit(at.frame().with_columns(**found), rows)


def _expiring(rows: DataStream) -> Mapping[str, DataStream]:
    keyed = rows.key_by("k")
    return {
        "out": keyed.process(Hearing(), order="event_time"),
        "batches": keyed.process(HearingBatches(), order="event_time"),
    }


def _check_expiring(rows: list[Arrived], outputs: Outputs) -> None:
    in_time = sorted((row for row in rows if row.at > row.wm), key=lambda row: (row.k, row.at, row.i))
    wanted: list[tuple[int, int, bool, int]] = []
    for key, of_key in groupby(in_time, key=lambda row: row.k):
        seen_ms: int | None = None
        heard_ms: int | None = None
        run = 0
        for row in of_key:
            is_new = seen_ms is None or row.at >= seen_ms + SEEN_MS
            seen_ms = row.at if is_new else seen_ms
            run = 1 if heard_ms is None or row.at >= heard_ms + RUN_MS else run + 1
            heard_ms = row.at
            wanted.append((key, row.i, is_new, run))
    for output in ("out", "batches"):
        got = ((o["k"], o["i"], o["is_new"], o["run"]) for o in outputs[output])
        same(got, wanted, f"rows of {output!r}")


EXPIRING = CheckedProgram("state that expires", _expiring, _check_expiring)
