"""Selects the windows over a whole stream that run in two phases. Only this module decides it.

In one phase, the window's single subtask would receive every row of the stream. If partial results can
be merged, the upstream subtasks combine their rows, and the subtask receives a few partial results per
batch (`operators.window.two_phases`). If the window needs every row, it keeps one phase, and `explain`
shows the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.core.graph.nodes import MAIN, Graph, Input, Node, StreamType
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.contract import OperatorSpec, Phases, PortType
from rheos.core.protocol.elements import TS, WM


@dataclass(frozen=True)
class TwoPhaseGraph:
    """A graph, and remarks on its nodes."""

    graph: Graph
    notes: Mapping[int, str]
    """Remarks, by node id."""


def in_two_phases(graph: Graph) -> TwoPhaseGraph:
    """Return the graph with a combining node upstream of the windows over each whole stream."""
    live = live_nodes(graph)
    read = {(input.node, input.tag) for node in graph.nodes if node.id in live for input in node.inputs}
    nodes: list[Node] = []
    notes: dict[int, str] = {}
    next_id = max((node.id for node in graph.nodes), default=0) + 1
    for node in graph.nodes:
        if node.id in live and any(input.one_key for input in node.inputs):
            phases = _phases(node, graph, read)
            if isinstance(phases, str):
                notes[node.id] = f"one phase: {phases}"
            else:
                combines, node = _nodes(node, phases, graph, next_id)
                nodes.append(combines)
                next_id += 1
                notes[combines.id] = "the first of two phases"
                notes[node.id] = "the second of two phases"
        nodes.append(node)
    return TwoPhaseGraph(Graph(tuple(nodes)), notes)


def _phases(node: Node, graph: Graph, read: set[tuple[int, str]]) -> Phases | str:
    """Return the operators of the two phases, or the reason why the node needs every row."""
    assert isinstance(node.spec, OperatorSpec)
    tags = {tag for id, tag in read if id == node.id}
    return node.spec.phases(_rows(node, graph), tags)


def _rows(node: Node, graph: Graph) -> PortType:
    """Return the type of the node's input, with the hidden columns that windows read."""
    input = node.inputs[0]
    type = graph.node(input.node).outputs[input.tag]
    schema = type.schema.append(pa.field(TS, pa.int64())).append(pa.field(WM, pa.int64()))
    return PortType(type, input.keys, schema, input.keyed_at)


def _nodes(node: Node, phases: Phases, graph: Graph, id: int) -> tuple[Node, Node]:
    """Return the node that combines rows, and the node that merges the partial results."""
    (input,) = node.inputs
    combines = Node(
        id=id,
        name=f"{node.name} combines",
        uid=None,
        site=node.site,
        spec=phases.first,
        inputs=(replace(input, keys=(), keyed_at=None, one_key=False),),
        outputs={MAIN: StreamType(phases.partials, event_time=False)},
        parallelism=graph.node(input.node).parallelism,
    )
    of_partials = Input(id, keys=input.keys, keyed_at=input.keyed_at)
    return combines, replace(node, spec=phases.second, inputs=(of_partials,))
