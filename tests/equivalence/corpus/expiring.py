"""State that expires, in functions of single rows and of whole batches, in event-time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

import rheos as rh
from tests.equivalence.corpus.inputs import SALES, Sale
from tests.equivalence.corpus.keyed import in_time
from tests.equivalence.corpus.oracle import Row, arrived, too_late
from tests.equivalence.corpus.program import Given, Golden, Program

KNOWN_MS = 30_000
BUSY_MS = 4_000


@dataclass
class Visit:
    user: int
    at: datetime
    returns: bool
    in_a_row: int


class Visits(rh.KeyedProcessFunction):
    """Emits whether a user was here in the half minute before, and the number of visits without a
    pause. Visits are distinguished by time; ties may arrive in any order."""

    known = rh.ValueState(bool, ttl="30s")
    in_a_row = rh.ValueState(int, default=0, ttl=rh.TimeToLive("4s"))

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Visit]:
        returns = self.known.value is not None
        if not returns:
            self.known.value = True
        self.in_a_row.value += 1
        yield Visit(ctx.key, sale.at, returns, self.in_a_row.value)


class VisitBatches(rh.KeyedBatchFunction):
    """Batch form of `Visits`."""

    known = rh.ValueState(bool, default=False, ttl="30s")
    in_a_row = rh.ValueState(int, default=0, ttl=rh.TimeToLive("4s"))

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Visit]]:
        for rows in keys.rounds():
            users = keys[rows]
            returns = state.known[users]
            state.known[users[np.flatnonzero(~returns)]] = True
            state.in_a_row[users] = state.in_a_row[users] + 1
            found = {"at": batch["at"][rows], "returns": returns, "in_a_row": state.in_a_row[users]}
            yield rh.Emit(users.frame().with_columns(**found), rows)


def visits(given: Given) -> Mapping[str, rh.DataStream]:
    users = given.stream(SALES).key_by("user")
    single = users.process(Visits(), order="event_time")
    batches = users.process(VisitBatches(), order="event_time")
    return {"single": single, "batches": batches, "late": single.side_output("late")}


def visits_golden() -> Mapping[str, Golden]:
    rows = arrived(SALES)
    found: list[Row] = []
    for user, of in in_time(rows, "user").items():
        known_ms = before_ms = -(2**62)
        in_a_row = 0
        for row in of:
            returns = row["ts"] < known_ms + KNOWN_MS
            known_ms = known_ms if returns else row["ts"]
            in_a_row = in_a_row + 1 if row["ts"] < before_ms + BUSY_MS else 1
            before_ms = row["ts"]
            found.append({"user": user, "at": row["at"], "returns": returns, "in_a_row": in_a_row})
    return {"single": found, "batches": found, "late": too_late(rows)}


PROGRAMS = (Program("state that expires", visits, visits_golden),)
