"""Which windows of a whole stream run in two phases, and how: decided here, and nowhere else.

Their subtask would get every row of the stream. Where what they compute can be merged, the subtasks
before it combine their rows, and it gets a few partials of each batch (`operators.window.two_phases`).
Where every row is looked at, one phase stays, and `explain` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.core.graph.nodes import MAIN, Graph, Input, Node, StreamType, WindowSpec
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.contract import PortType
from rheos.core.operators.window.contract import FixedWindows
from rheos.core.operators.window.frames import key_names
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.tables import Tables
from rheos.core.operators.window.two_phases import MergedWindowSpec, WindowCombineSpec, partials_of
from rheos.core.protocol.elements import TS, WM


@dataclass(frozen=True)
class Phased:
    """A graph, and what is to be said of its nodes."""

    graph: Graph
    notes: Mapping[int, str]
    """By the id of a node."""


def in_two_phases(graph: Graph) -> Phased:
    """The graph with a node before the windows of each whole stream that combines their rows."""
    live = live_nodes(graph)
    read = {(input.node, input.tag) for node in graph.nodes if node.id in live for input in node.inputs}
    nodes: list[Node] = []
    notes: dict[int, str] = {}
    next_id = max((node.id for node in graph.nodes), default=0) + 1
    for node in graph.nodes:
        if node.id in live and any(input.one_key for input in node.inputs):
            why = _every_row(node, graph, read)
            if why is None:
                combines, node = _phases(node, graph, next_id)
                nodes.append(combines)
                next_id += 1
                notes[combines.id] = "the first of two phases"
                notes[node.id] = "the second of two phases"
            else:
                notes[node.id] = f"one phase: {why}"
        nodes.append(node)
    return Phased(Graph(tuple(nodes)), notes)


def _every_row(node: Node, graph: Graph, read: set[tuple[int, str]]) -> str | None:
    """Why the windows have to get every row; None where partials will do."""
    spec = node.spec
    if not isinstance(spec, WindowSpec) or spec.fn is not None:
        return "what fires the windows, or is computed of them, gets every row"
    if (node.id, spec.late_tag) in read:
        return "late rows are read"
    windows = windows_of(spec.window)
    if not isinstance(windows, FixedWindows):
        return "which rows are one window depends on every row"
    rows = _rows(node, graph)
    tables = Tables(key_names(rows.keys), spec.aggregates, rows.schema, windows)
    if any(table.keeps_rows for table in tables.others):
        return "an aggregate needs every row"
    return None


def _rows(node: Node, graph: Graph) -> PortType:
    """What the windows read, with the hidden columns that they look at."""
    (input,) = node.inputs
    type = graph.node(input.node).outputs[input.tag]
    schema = type.schema.append(pa.field(TS, pa.int64())).append(pa.field(WM, pa.int64()))
    return PortType(type, input.keys, schema, input.keyed_at)


def _phases(node: Node, graph: Graph, id: int) -> tuple[Node, Node]:
    """The node that combines rows, and the windows behind it."""
    spec = node.spec
    assert isinstance(spec, WindowSpec)
    (input,), rows = node.inputs, _rows(node, graph)
    (key,) = input.keys
    schema = partials_of(spec, key, rows.schema).schema
    combines = Node(
        id=id,
        name=f"{node.name} combines",
        uid=None,
        site=node.site,
        spec=WindowCombineSpec(spec, key),
        inputs=(replace(input, keys=(), keyed_at=None, one_key=False),),
        outputs={MAIN: StreamType(schema, event_time=False)},
        parallelism=graph.node(input.node).parallelism,
    )
    of_partials = Input(id, keys=input.keys, keyed_at=input.keyed_at)
    return combines, replace(node, spec=MergedWindowSpec(spec, rows), inputs=(of_partials,))
