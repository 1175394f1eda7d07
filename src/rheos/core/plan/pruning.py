"""Column pruning: columns that no operator downstream needs are neither read nor sent.

    source a b c d ─ filter(c > 1) ─ key_by(a) ─ window: sum(b)
           a b c                   ─ a b

Each operator's spec declares which columns it needs (`OperatorSpec.columns_read`); the pass goes from
the sinks to the sources. A source skips unneeded columns if it can (`PrunesColumns`); otherwise they
are dropped after it. Before an exchange, a `ColumnSelectionSpec` drops unneeded columns that operators
in between have added. Functions and sinks receive whole records, so they need all columns.

Every runtime uses this pass, for programs of the API and of SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from rheos.core.graph.nodes import MAIN, Graph, Input, Node, StreamType
from rheos.core.graph.row_distribution import PartitionBy, RowDistribution
from rheos.core.graph.types import columns_read
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.column_selection import ColumnSelectionSpec
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.source import SourceSpec


@dataclass(frozen=True)
class _Output:
    node: int
    tag: str


def pruned(graph: Graph, *, stores_state: bool = True) -> Graph:
    """Return the graph without unneeded columns.

    Args:
        graph: A checked graph.
        stores_state: Whether the runtime takes checkpoints. Then operators that store whole rows
            (`OperatorSpec.keeps_rows`) receive all columns, because a changed program may need them.
    """
    return _Pruning(graph, stores_state).graph()


class _Pruning:
    def __init__(self, graph: Graph, stores_state: bool) -> None:
        self._all = graph
        self._stores_state = stores_state
        live = live_nodes(graph)
        self._nodes = [node for node in graph.nodes if node.id in live]
        self._by_id = {node.id: node for node in self._nodes}
        self._needed: dict[_Output, frozenset[str]] = {}
        self._ports: dict[tuple[int, int], frozenset[str]] = {}
        """Columns that each input of a node needs."""
        self._types: dict[_Output, StreamType] = {}
        """Types of the outputs after pruning."""
        self._next_id = max((node.id for node in graph.nodes), default=0) + 1
        self._narrow: dict[tuple[_Output, tuple[str, ...]], int] = {}
        self._find_needed()

    # --- needed columns, from the sinks to the sources ----------------------------------------------

    def _find_needed(self) -> None:
        for node in self._nodes:
            for port, input in enumerate(node.inputs):
                if input.feedback:
                    self._need(node, port, input, None)
        for node in reversed(self._nodes):
            for port, input in enumerate(node.inputs):
                if not input.feedback:
                    self._need(node, port, input, self._read(node, port, input))

    def _read(self, node: Node, port: int, input: Input) -> frozenset[str] | None:
        spec, type = node.spec, self._type_before(input)
        assert isinstance(spec, OperatorSpec)
        if type.changes is not None or (self._stores_state and spec.keeps_rows):
            return None
        needed = {tag: self._needed.get(_Output(node.id, tag), frozenset()) for tag in node.outputs}
        read = spec.columns_read(port, type.schema, needed)
        if read is None:
            return None
        read = read.union(input.keys, self._partitioned_by(node, input, type.schema))
        # Keep one column: rows without any column would lose their number.
        return read.intersection(type.schema.names) or frozenset(type.schema.names[:1])

    def _partitioned_by(self, node: Node, input: Input, schema: pa.Schema) -> frozenset[str]:
        if not isinstance(input.distribution, PartitionBy):
            return frozenset()
        if input.distribution.on:
            return frozenset(input.distribution.on)
        if not isinstance(input.distribution.to, pl.Expr):
            return frozenset(schema.names)
        return columns_read([input.distribution.to], schema.names)

    def _type_before(self, input: Input) -> StreamType:
        return self._by_id[input.node].outputs[input.tag]

    def _need(self, node: Node, port: int, input: Input, names: frozenset[str] | None) -> None:
        if names is None:
            names = frozenset(self._type_before(input).schema.names)
        self._ports[node.id, port] = names
        output = _Output(input.node, input.tag)
        self._needed[output] = self._needed.get(output, frozenset()) | names

    # --- the pruned graph, from the sources to the sinks --------------------------------------------

    def graph(self) -> Graph:
        nodes: list[Node] = []
        for node in self._all.nodes:
            nodes += self._narrow_node(node) if node.id in self._by_id else [node]
        return Graph(tuple(nodes))

    def _narrow_node(self, node: Node) -> Iterator[Node]:
        """Yield the node with fewer columns, preceded by the nodes that drop columns upstream of it."""
        if isinstance(node.spec, SourceSpec):
            node = self._source(node, node.spec)
        gone: frozenset[str] = frozenset()
        inputs: list[Input] = []
        # All inputs of a union must have the same schema.
        narrows_all = node.spec.is_union and (self._is_sent(node) or self._differ(node.inputs))
        for port, input in enumerate(node.inputs):
            if not input.feedback:
                wanted = self._ports[node.id, port]
                if node.spec.is_union:
                    wanted = self._needed.get(_Output(node.id, MAIN), wanted)
                if narrows_all or _is_exchange(input):
                    narrow = self._narrowed(input, wanted)
                    if isinstance(narrow, Node):
                        yield narrow
                        self._by_id[narrow.id] = narrow
                        self._types[_Output(narrow.id, MAIN)] = narrow.outputs[MAIN]
                        narrow = Input(narrow.id)
                    input = replace(input, node=narrow.node, tag=narrow.tag)
                before = self._type_before(node.inputs[port]).schema.names
                now = self._type_now(_Output(input.node, input.tag)).schema.names
                gone |= frozenset(before).difference(now)
            inputs.append(input)
        outputs: Mapping[str, StreamType] = node.outputs
        if gone:
            assert isinstance(node.spec, OperatorSpec)
            outputs = {
                tag: _with_schema(type, node.spec.narrowed(tag, type.schema, gone))
                for tag, type in outputs.items()
            }
        for tag, type in outputs.items():
            self._types[_Output(node.id, tag)] = type
        yield replace(node, inputs=tuple(inputs), outputs=outputs)

    def _is_sent(self, union: Node) -> bool:
        """Return whether the next step sends rows of the union to other subtasks."""
        return any(
            _is_exchange(input) or (node.spec.is_union and self._is_sent(node))
            for node in self._nodes
            for input in node.inputs
            if input.node == union.id
        )

    def _differ(self, inputs: Sequence[Input]) -> bool:
        """Return whether an input has fewer columns than before."""
        return any(
            self._type_now(_Output(input.node, input.tag)).schema.names
            != self._type_before(input).schema.names
            for input in inputs
        )

    def _type_now(self, output: _Output) -> StreamType:
        return self._types[output]

    def _source(self, node: Node, spec: SourceSpec) -> Node:
        type = node.outputs[MAIN]
        schema = type.schema
        needed = self._needed.get(_Output(node.id, MAIN), frozenset())
        needed = needed or frozenset(schema.names[:1])
        aside = any(output.node == node.id and output.tag != MAIN for output in self._needed)
        if aside or needed == frozenset(schema.names):
            return node  # Rejected rows keep all columns.
        left = pa.schema([field for field in schema if field.name in needed])
        spec = replace(spec, columns=tuple(left.names))
        outputs = {**node.outputs, MAIN: _with_schema(type, left)}
        return replace(node, spec=spec, outputs=outputs)

    def _narrowed(self, input: Input, wanted: frozenset[str]) -> Node | Input:
        """Return a new node that keeps only the wanted columns, or the input to read instead."""
        output = _Output(input.node, input.tag)
        type, producer = self._type_now(output), self._by_id[input.node]
        left = pa.schema([field for field in type.schema if field.name in wanted])
        names = tuple(left.names)
        if len(left) == len(type.schema) or producer.ends_chain or producer.spec.is_union:
            return input
        known = self._narrow.get((output, names))
        if known is not None:
            return Input(known)
        self._narrow[output, names] = id = self._next_id
        self._next_id += 1
        all_to_one = any(each.distribution is RowDistribution.GLOBAL for each in producer.inputs)
        return Node(
            id=id,
            name=f"{producer.name} columns",
            uid=None,
            site=producer.site,
            spec=ColumnSelectionSpec(names),
            inputs=(Input(input.node, input.tag),),
            outputs={MAIN: _with_schema(type, left)},
            parallelism=1 if all_to_one else producer.parallelism,
        )


def _is_exchange(input: Input) -> bool:
    """Return whether rows are sent to other subtasks on their way to the input."""
    return (
        bool(input.keys) or input.broadcast or input.distribution not in (None, RowDistribution.FORWARD)
    )


def _with_schema(type: StreamType, schema: pa.Schema) -> StreamType:
    """Return the type with other columns. It has no record class if columns of that class are
    missing."""
    if schema.names == type.schema.names:
        return type
    return replace(type, schema=schema, record=None)
