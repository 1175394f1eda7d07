"""The program of worlds whose functions wait for others, with its oracle: asynchronous calls and
lookups are in progress at every barrier, and rows are counted without a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rheos.api.lookup_tables import lookup_table
from rheos.api.streams import DataStream
from rheos.core.graph.connected_functions import ProcessContext, ProcessFunction
from rheos.core.graph.state import OperatorListState, OperatorUnionState
from rheos.testing.lookup import MemoryLookup
from tests.worlds.programs import Arrived, CheckedProgram, InputRow, Outputs, same

KINDS = 7
NAMES = MemoryLookup(["kind"], [{"kind": kind, "name": f"n{kind}"} for kind in range(1, KINDS)])
"""The kind 0 has no name."""


@dataclass
class KindCode:
    kind: int
    code: int


def _load_codes() -> list[KindCode]:
    return [KindCode(kind, 10 * kind) for kind in range(1, KINDS)]


LOADED = lookup_table(_load_codes, key="kind", schema=KindCode, reload_every="30ms")
"""Loaded again and again while rows come; the kind 0 has no code."""


@dataclass
class AskedRow:
    i: int
    kind: int


@dataclass
class NumberedRow:
    i: int
    place: int


async def _ask(row: InputRow) -> AskedRow:
    await asyncio.sleep(0.004 * (row.i % 5))
    return AskedRow(row.i, row.i % KINDS)


class NumberRows(ProcessFunction):
    """Function that numbers rows in order of arrival. When state is restored, the first kind is
    distributed over the subtasks; every subtask gets all of the second kind."""

    counts = OperatorListState(int)
    places = OperatorUnionState(int)

    def process_element(self, row: Any, ctx: ProcessContext) -> Iterator[NumberedRow]:
        place = sum(self.counts) + 1
        assert place == max(self.places, default=0) + 1
        self.counts.replace([place])
        self.places.replace([place])
        yield NumberedRow(row.i, place)


def _outside(rows: DataStream) -> Mapping[str, DataStream]:
    asked = rows.map_async(_ask, capacity=3)
    answered = rows.map_async(_ask, order="unordered", capacity=5)
    return {
        "out": asked.lookup(NAMES, on="kind"),
        "named": answered.lookup(NAMES, on="kind", how="inner", cache_for="20ms", cache_keys=2),
        "loaded": answered.lookup(LOADED, on="kind", how="inner"),
        "numbered": rows.process(NumberRows()).set_parallelism(1),
    }


def _check_outside(rows: list[Arrived], outputs: Outputs) -> None:
    named = [(row.i, f"n{row.i % KINDS}" if row.i % KINDS else None) for row in rows]
    same(((o["i"], o["name"]) for o in outputs["out"]), named, "rows that were looked up")
    known = ((i, name) for i, name in named if name is not None)
    same(((o["i"], o["name"]) for o in outputs["named"]), known, "rows with a name")
    same(
        ((o["i"], o["code"]) for o in outputs["loaded"]),
        ((row.i, row.i % KINDS * 10) for row in rows if row.i % KINDS),
        "rows with a code",
    )
    same((o["i"] for o in outputs["numbered"]), (row.i for row in rows), "rows that were numbered")
    same((o["place"] for o in outputs["numbered"]), range(1, len(rows) + 1), "numbers")


OUTSIDE = CheckedProgram("asked outside", _outside, _check_outside, _check_outside)
