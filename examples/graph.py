"""Graphs as streams: connected components by an iteration, and degrees as an updating table.

usage: python examples/graph.py

Edges may arrive at any time. A node takes the smallest label that it is offered, and offers it to its
neighbours until nothing changes; the last label of a node is its component's. The number of edges of a
node is counted as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import rheos as rh
from rheos import col

EDGES = [(4, 5), (1, 2), (7, 8), (2, 3), (3, 4), (8, 9)]


@dataclass
class Message:
    kind: str
    """edge: `node` and `other` are neighbours; offer: `other` offers a label; is: the new label."""
    node: int
    other: int
    label: int


class Spread(rh.KeyedProcessFunction):
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


def _round(messages: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
    said = messages.key_by("node").process(Spread())
    return said.filter(col("kind") == "offer"), said.filter(col("kind") == "is")


def both_ways(env: rh.Environment, edges: Sequence[tuple[int, int]]) -> rh.DataStream:
    """Return each edge once for each of its ends."""
    rows = [Message("edge", a, b, a) for x, y in edges for a, b in ((x, y), (y, x))]
    return env.from_source(rh.collection(rows), name="edges")


def components(edges: rh.DataStream) -> rh.DataStream:
    """Return the labels of nodes as they decrease: columns node and label. The last label of a node is
    the smallest node of its component."""
    return edges.iterate(_round).select("node", "label")


def degrees(edges: rh.DataStream) -> rh.DataStream:
    """Return the number of edges of each node as a changelog: columns node, degree and op."""
    return edges.key_by("node").table(degree=rh.agg.count()).as_rows()


def main() -> None:
    env = rh.Environment(parallelism=2)
    edges = both_ways(env, EDGES)
    components(edges).collect("labels")
    degrees(edges).collect("degrees")
    result = env.execute("graph")
    least = {}
    for row in result.collected["labels"].to_pylist():
        least[row["node"]] = min(row["label"], least.get(row["node"], row["label"]))
    most = {row["node"]: row["degree"] for row in result.collected["degrees"].to_pylist()}
    for node in sorted(least):
        print(f"node {node}: component {least[node]}, {most[node]} edges")


if __name__ == "__main__":
    main()
