"""Which columns a program looks at of its sources, where what reads them says so.

    source a b c d ─ filter(c > 1) ─ select(a, b + 1)        a, b and c are read

A source that can leave columns unread does (`PrunesColumns`). What asks for whole rows, such as a
function or a sink, reads all of them. Known when the program is whole: of several readers the source
gives what all of them need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from rheos.core.connectors import capabilities
from rheos.core.graph.nodes import MAIN, Graph, Node
from rheos.core.graph.types import columns_read
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.source import SourceSpec

Readers = Mapping[int, Sequence[Node]]
"""By the id of a node: who reads its main output."""


def reading_what_is_needed(graph: Graph) -> Graph:
    """The graph, with sources that give the columns alone that are looked at."""
    live = live_nodes(graph)
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for input in node.inputs if node.id in live else ():
            if input.tag == MAIN:
                readers.setdefault(input.node, []).append(node)
    changed: dict[int, Node] = {}
    for node in graph.nodes:
        if node.id in live and isinstance(node.spec, SourceSpec):
            _narrow(node, node.spec, readers, changed)
    return Graph(tuple(changed.get(node.id, node) for node in graph.nodes))


def _narrow(node: Node, spec: SourceSpec, readers: Readers, changed: dict[int, Node]) -> None:
    """Notes the source, and the filters behind it, with fewer columns, where there are such."""
    schema = node.outputs[MAIN].schema
    needed = _needed(node, readers)
    if needed is None:
        return
    if spec.watermark is not None:
        needed |= spec.watermark.columns_read(schema)
    less = capabilities.reading(spec.source, needed or frozenset(schema.names[:1]))
    if less is None:
        return
    names = tuple(less.schema.names)
    _with_columns(replace(node, spec=replace(spec, columns=names)), names, readers, changed)


def _needed(node: Node, readers: Readers) -> frozenset[str] | None:
    """The columns that are looked at behind the node; None for all."""
    schema = node.outputs[MAIN].schema
    needed: frozenset[str] = frozenset()
    for reader in readers.get(node.id, ()):
        if not isinstance(reader.spec, ExpressionSpec) or reader.inputs[0].dealt is not None:
            return None
        match reader.spec.op:
            case "select":
                behind: frozenset[str] | None = frozenset()
            case "filter":
                behind = _needed(reader, readers)
            case "with_columns":
                behind = None
        if behind is None:
            return None
        needed |= behind | columns_read(reader.spec.exprs, schema.names)
    return needed


def _with_columns(node: Node, names: Sequence[str], readers: Readers, changed: dict[int, Node]) -> None:
    type = node.outputs[MAIN]
    left = pa.schema([field for field in type.schema if field.name in names])
    outputs = {**node.outputs, MAIN: replace(type, schema=left, record=None)}
    changed[node.id] = replace(node, outputs=outputs)
    for reader in readers.get(node.id, ()):
        if isinstance(reader.spec, ExpressionSpec) and reader.spec.op == "filter":
            _with_columns(reader, names, readers, changed)
