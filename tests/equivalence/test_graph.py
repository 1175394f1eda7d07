"""examples/graph.py compared with a union-find and a count, over random graphs and faults."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

import rheos as rh
from rheos.testing import simulate

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import graph


def least_of_component(edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        parent.setdefault(node, node)
        while parent[node] != node:
            node = parent[node]
        return node

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return {node: root(node) for node in parent}


@pytest.mark.parametrize("seed", range(2))
def test_components_and_degrees_of_a_random_graph(seed: int) -> None:
    random = Random(f"graph {seed}")
    edges = [(random.randrange(14), random.randrange(14)) for _ in range(12)]

    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        both = graph.both_ways(env, edges)
        return {"labels": graph.components(both), "degrees": graph.degrees(both)}

    # The order of arrival decides which labels a node has meanwhile.
    done = simulate(build, seed=seed, slow=True)
    labels: dict[int, int] = {}
    for row in done.rows["labels"].to_pylist():
        labels[row["node"]] = min(row["label"], labels.get(row["node"], row["label"]))
    assert labels == least_of_component(edges)
    found = {row["node"]: 0 for row in done.rows["degrees"].to_pylist()}
    for row in done.rows["degrees"].to_pylist():
        found[row["node"]] = max(found[row["node"]], row["degree"])
    assert found == Counter(node for edge in edges for node in edge)
    assert done.rows["degrees"].num_rows == 2 * len(edges), "each edge counts once at each end"
