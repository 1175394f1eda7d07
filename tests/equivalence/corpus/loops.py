"""Programs with loops: connected components, and k-means whose centres move while points arrive."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

import rheos as rh
from tests.equivalence.corpus.inputs import SALES
from tests.equivalence.corpus.program import Given, Golden, Program

# --- connected components ---------------------------------------------------------------------------


@dataclass
class Message:
    kind: str
    """`edge`: to a node, that another is beside it; `offer`: to it, a label; `is`: the one it has."""
    node: int
    other: int
    label: int


class Spread(rh.KeyedProcessFunction):
    """Each node adopts the smallest label that it receives, and sends it to its neighbours."""

    label = rh.ValueState(int)
    beside = rh.ListState(int)

    def process_element(self, message: Message, ctx: rh.KeyedContext) -> Iterator[Message]:
        node = message.node
        if self.label.value is None:
            self.label.value = node
            yield Message("is", node, node, node)
        if message.kind == "edge":
            self.beside.append(message.other)
            yield Message("offer", message.other, node, self.label.value)
        elif message.label < self.label.value:
            self.label.value = message.label
            yield Message("is", node, node, message.label)
            for other in self.beside:
                yield Message("offer", other, node, message.label)


def spread(messages: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
    said = messages.key_by("node").process(Spread())
    labels = said.filter(pl.col("kind") == "is").select("node", "label")
    return said.filter(pl.col("kind") == "offer"), labels


def both_ways(sale: Any) -> Iterator[Message]:
    a, b = nodes(sale.n, sale.user)
    yield Message("edge", a, b, a)
    yield Message("edge", b, a, b)


def nodes(n: int, user: int) -> tuple[int, int]:
    return user, 100 + n % 40


# --- k-means ----------------------------------------------------------------------------------------

CENTRES = {0: (0, 0), 1: (1000, 0), 2: (0, 1000)}


@dataclass
class Point:
    x: int
    y: int


@dataclass
class Centre:
    """Sum of `n` points in whole numbers, so that its place does not depend on order."""

    centre: int
    x: int
    y: int
    n: int


class Assign(rh.BroadcastProcessFunction):
    """Assigns each point to the nearest centre, by the centres received so far."""

    known = rh.BroadcastState(int, Centre)

    def process_element(self, point: Point, ctx: rh.ProcessContext) -> Iterator[Centre]:
        def distance(centre: int) -> float:
            at = self.known.get(centre)
            x, y = CENTRES[centre] if at is None else (at.x / at.n, at.y / at.n)
            return (point.x - x) ** 2 + (point.y - y) ** 2

        yield Centre(min(CENTRES, key=distance), point.x, point.y, 1)

    def process_broadcast_element(self, centre: Centre, ctx: rh.ProcessContext) -> None:
        before = self.known.get(centre.centre)
        if before is None or centre.n > before.n:
            self.known[centre.centre] = centre


class Move(rh.KeyedProcessFunction):
    centre = rh.ValueState(Centre)

    def process_element(self, added: Centre, ctx: rh.KeyedContext) -> Iterator[Centre]:
        at = self.centre.value or Centre(added.centre, 0, 0, 0)
        moved = Centre(at.centre, at.x + added.x, at.y + added.y, at.n + 1)
        self.centre.value = moved
        yield moved


def place(n: int, user: int) -> tuple[int, int, int]:
    """Return a point near one of the centres."""
    centre = user % 3
    x, y = CENTRES[centre]
    return centre, x + n % 41 - 20, y + n % 37 - 18


def point(sale: Any) -> Point:
    _, x, y = place(sale.n, sale.user)
    return Point(x, y)


def start(sale: Any) -> Iterator[Centre]:
    """Return the initial centre, which any first row may bring."""
    if sale.n == 0:
        yield Centre(0, 0, 0, 1)


# --- both -------------------------------------------------------------------------------------------


def loops(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    few = sales.filter(pl.col("n") % 7 == 0)
    points = sales.map(point)

    def step(centres: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        assigned = points.connect(centres.broadcast()).process(Assign())
        moved = assigned.key_by("centre").process(Move())
        return moved, moved

    moved = sales.flat_map(start).iterate(step)
    return {
        "labels": few.flat_map(both_ways).iterate(spread),
        "steps": moved.select("centre", "n"),
        "centres": moved,
        "rounds": sales.select("n", path=pl.lit(1)).iterate(split_up, rounds=3),
    }


def split_up(loop: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
    """Split each row into two, which circulate."""
    here = loop.with_columns(path=pl.col("path") * 2)
    both = here.union(loop.with_columns(path=pl.col("path") * 2 + 1))
    return both, both


def least(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("label").unique("node", keep="first")


def last(found: pl.DataFrame) -> pl.DataFrame:
    return found.sort("n").unique("centre", keep="last")


def loops_golden() -> Mapping[str, Golden]:
    rows = SALES.table.to_pylist()
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for row in rows:
        if row["n"] % 7 == 0:
            a, b = map(root, nodes(row["n"], row["user"]))
            parent[max(a, b)] = min(a, b)
    assert len({root(node) for node in parent}) > 2, "there are several components"
    sums: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        centre, x, y = place(row["n"], row["user"])
        sums[centre].update(x=x, y=y, n=1)
    return {
        "labels": [{"node": node, "label": root(node)} for node in parent],
        "steps": [{"centre": c, "n": n} for c, of in sums.items() for n in range(1, of["n"] + 1)],
        "centres": [{"centre": c, **of} for c, of in sums.items()],
        "rounds": [
            {"n": row["n"], "path": path, "round": turn}
            for row in rows
            for turn in range(3)
            for path in range(2 << turn, 4 << turn)
        ],
    }


PROGRAMS = (Program("loops", loops, loops_golden, {"labels": least, "centres": last}),)
