"""Programs with loops, each with its straight-line oracle (`programs`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rheos.api.streams import DataStream
from rheos.core.graph.connected_functions import KeyedCoProcessFunction
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState
from rheos.core.operators.iterate import ROUND
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, same

_KEYS = 11
_MOST_ROUNDS = 6
_ROUNDS = 2


@dataclass
class Visited:
    """A row that has arrived at a key, its remaining iterations, and how many rows had arrived."""

    k: int
    i: int
    left: int
    visit: int


class KeyVisits(KeyedProcessFunction):
    """Function that counts the rows that arrive at a key, in any iteration."""

    visits = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[Visited]:
        self.visits.value += 1
        yield Visited(row.k, row.i, row.left, self.visits.value)


_NEXT_KEY = (pl.col("k") * 7 + 1) % _KEYS


def _walk(loop: DataStream) -> tuple[DataStream, DataStream]:
    visited = loop.key_by("k").process(KeyVisits())
    return _again(visited), visited


def _again(visited: DataStream) -> DataStream:
    return visited.filter(pl.col("left") > 0).select(
        k=_NEXT_KEY, i=pl.col("i"), left=pl.col("left") - 1
    )


def _begun(rows: DataStream) -> DataStream:
    return rows.select(
        k=pl.col("k").cast(pl.Int64) % _KEYS, i=pl.col("i"), left=pl.col("i") % _MOST_ROUNDS
    )


def _walking(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": _begun(rows).iterate(_walk)}


class Meetings(KeyedCoProcessFunction):
    """Form of `KeyVisits` for rows of the loop and rows from outside."""

    visits = ValueState(int, default=0)

    def process_element1(self, row: Any, ctx: KeyedContext) -> Iterator[Visited]:
        return self._visited(row)

    def process_element2(self, row: Any, ctx: KeyedContext) -> Iterator[Visited]:
        return self._visited(row)

    def _visited(self, row: Any) -> Iterator[Visited]:
        self.visits.value += 1
        yield Visited(row.k, row.i, row.left, self.visits.value)


def _once(loop: DataStream) -> tuple[DataStream, DataStream]:
    return loop.filter(pl.lit(False)), loop


def _meeting(rows: DataStream) -> Mapping[str, DataStream]:
    """Send rows from outside through a loop of their own first, so that they have no event time
    either."""
    begun = _begun(rows)
    outside = begun.filter(pl.col("i") % 3 > 0).iterate(_once).key_by("k")

    def body(loop: DataStream) -> tuple[DataStream, DataStream]:
        visited = loop.key_by("k").connect(outside).process(Meetings())
        return _again(visited), visited

    return {"out": begun.filter(pl.col("i") % 3 == 0).iterate(body)}


def _check_walking(rows: list[Arrived], outputs: Outputs) -> None:
    wanted, visits = [], defaultdict[int, int](int)
    for row in rows:
        key = row.k % _KEYS
        for left in range(row.i % _MOST_ROUNDS, -1, -1):
            wanted.append((key, row.i, left))
            visits[key] += 1
            key = (key * 7 + 1) % _KEYS
    out = outputs["out"]
    same(((row["k"], row["i"], row["left"]) for row in out), wanted, "visits")
    # However rows meet in their iterations, each visit of a key is counted exactly once.
    counted = [(key, visit) for key, count in visits.items() for visit in range(1, count + 1)]
    same(((row["k"], row["visit"]) for row in out), counted, "counts of visits")


WALKING = CheckedProgram(
    "a loop until silent", _walking, _check_walking, _check_walking, has_least=True
)

MEETING = CheckedProgram(
    "a loop that others join", _meeting, _check_walking, _check_walking, has_least=True
)


def _split_up(loop: DataStream) -> tuple[DataStream, DataStream]:
    """Send two copies of each row around the loop: one within the subtask, one through the subtask
    of its key."""
    here = loop.with_columns(path=pl.col("path") * 2)
    there = loop.key_by("k").process(Passes()).with_columns(path=pl.col("path") * 2 + 1)
    both = here.union(there)
    return both, both


@dataclass
class LoopStep:
    k: int
    i: int
    path: int
    round: int


class Passes(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[LoopStep]:
        yield LoopStep(row.k, row.i, row.path, row.round)


def _splitting(rows: DataStream) -> Mapping[str, DataStream]:
    begun = rows.select(k=pl.col("k").cast(pl.Int64), i=pl.col("i").cast(pl.Int64), path=pl.lit(1))
    begun = begun.with_columns(path=pl.col("path").cast(pl.Int64))
    return {"out": begun.iterate(_split_up, rounds=_ROUNDS)}


def _check_splitting(rows: list[Arrived], outputs: Outputs) -> None:
    wanted = [
        (row.k, row.i, path, turn)
        for row in rows
        for turn in range(_ROUNDS)
        for path in range(2 << turn, 4 << turn)
    ]
    out = outputs["out"]
    same(((row["k"], row["i"], row["path"], row[ROUND]) for row in out), wanted, "steps")


SPLITTING = CheckedProgram(
    "a loop of bounded rounds", _splitting, _check_splitting, _check_splitting, has_least=True
)

PROGRAMS = (WALKING, MEETING, SPLITTING)
