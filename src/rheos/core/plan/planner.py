"""The planner, which turns the logical graph into the physical plan.

1. Nodes without a sink downstream are removed.
2. A union is not an operator: its reader reads all of its inputs, through one port.
3. A node with a single input that is neither keyed nor broadcast joins the chain of its producer. Any
   other node begins a chain. For each output that it reads, one edge leads to one of its ports. The
   edge is HASH if the port is keyed, BROADCAST if it is broadcast, else FORWARD. If producer and reader
       differ in parallelism, the edge is REBALANCE, and the reader begins a chain, too. An asynchronous
       operator also begins a chain, after a FORWARD edge. The rows that it processes ahead of their
       turn stay at the chain's input. If the program specifies how rows are distributed, the edge
       follows it.
   If the program disables chaining, the node begins a chain. Feedback edges are added last.
4. Each stream gets the hidden columns that are needed downstream. `__ts` is on every stream with event
   time. `__wm` is needed by windows and by functions that process rows in event-time order, and `__swm`
   by functions that process rows in the order of arrival. `__split` is needed by operators that assign
   a new event time. Operators in between pass these columns on.
5. Before these steps, windows over a whole stream are split into two phases if possible (`two_phases`).

An id is the user's `uid`, or is derived from the kind and the position among the nodes of that kind. So
names may change, and operators still find their state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.nodes import Graph, Input, Node, Spec, StreamType
from rheos.core.graph.row_distribution import PartitionBy, RowDistribution
from rheos.core.graph.validate import live_nodes
from rheos.core.operators.contract import OperatorSpec, OutputType, PortType
from rheos.core.plan.physical import (
    Chain,
    Edge,
    Exchange,
    PhysicalPlan,
    PlannedOperator,
    Route,
    ToEdge,
    ToOperator,
)
from rheos.core.plan.pruning import pruned
from rheos.core.plan.two_phases import TwoPhaseGraph, in_two_phases
from rheos.core.plan.unread_splits import without_unread_splits
from rheos.core.protocol.elements import SPLIT, SWM, TS, WM
from rheos.core.protocol.ids import ChainId, OperatorId


def make_plan(
    graph: Graph,
    *,
    name: str,
    parallelism: int,
    max_parallelism: int,
    context: JobContext | None = None,
    two_phases: bool = True,
    stores_state: bool = True,
    prunes: bool = True,
) -> PhysicalPlan:
    """Return the plan of a checked graph.

    Args:
        graph: The program.
        name: Name of the job.
        parallelism: Number of subtasks of each chain.
        max_parallelism: Number of key groups.
        context: Parameters and files for the user's functions.
        two_phases: Whether windows over a whole stream combine rows before the exchange. A runtime that
            shuffles the state of windows does not need that.
        stores_state: Whether the runtime takes checkpoints (`pruning`).
        prunes: Whether unneeded columns and splits are not read. A harness that feeds one operator
            needs all of them.
    """
    phased = in_two_phases(graph) if two_phases else TwoPhaseGraph(graph, {})
    if prunes:
        graph, notes = without_unread_splits(phased.graph)
        graph = pruned(graph, stores_state=stores_state)
        phased = TwoPhaseGraph(graph, {**phased.notes, **notes})
    ids = operator_ids(phased.graph)
    wiring = _Wiring(phased.graph)
    chains, edges = _chains(wiring)
    return PhysicalPlan(
        name=name,
        chains=tuple(_finished(chain, wiring, ids, phased.notes) for chain in chains),
        edges=tuple(edges),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        context=JobContext(name) if context is None else context,
    )


def operator_ids(graph: Graph) -> dict[int, OperatorId]:
    """Return the id of each node: its uid, or "<kind>-<n>", counted per kind in program order."""
    taken = {node.uid for node in graph.nodes if node.uid is not None}
    counts: Counter[str] = Counter()
    ids: dict[int, OperatorId] = {}
    for node in graph.nodes:
        kind = node.spec.kind
        counts[kind] += 1
        made = f"{kind}-{counts[kind]}"
        while node.uid is None and made in taken:
            made += "-auto"
        ids[node.id] = OperatorId(node.uid if node.uid is not None else made)
    return ids


# --- edges between nodes --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Output:
    """An output of a node."""

    node: int
    tag: str


class _Wiring:
    """The live nodes without unions, the readers of each output, and the hidden columns of each
    output."""

    def __init__(self, graph: Graph) -> None:
        live = live_nodes(graph)
        self._by_id = {node.id: node for node in graph.nodes if node.id in live}
        self.nodes = [node for node in self._by_id.values() if not node.spec.is_union]
        self.producers: dict[tuple[int, int], list[_Output]] = {}
        """Outputs that a port reads, by node and port."""
        self.read: dict[_Output, None] = {}
        """Outputs with readers, in a stable order."""
        for node in self.nodes:
            for port, input in enumerate(node.inputs):
                outputs = list(self._resolved(input))
                self.producers[node.id, port] = outputs
                self.read.update(dict.fromkeys(outputs))
        self._watermarked = self._carrying(WM)
        self._reached = self._carrying(SWM)
        self._split = self._carrying(SPLIT, timed=False)

    def node(self, id: int) -> Node:
        return self._by_id[id]

    def _resolved(self, input: Input) -> Iterator[_Output]:
        node = self._by_id[input.node]
        if node.spec.is_union:
            for member in node.inputs:
                yield from self._resolved(member)
        else:
            yield _Output(input.node, input.tag)

    def _carrying(self, column: str, *, timed: bool = True) -> frozenset[_Output]:
        """Return the outputs that carry a hidden column; if it is `timed`, only those with event time.

        All producers of a port must have one schema. If one of them carries the column for another
        reader, all of them must carry it. That may require another iteration.
        """
        carrying: set[_Output] = set()
        while True:
            before = len(carrying)
            for node in reversed(self.nodes):
                for port in range(len(node.inputs)):
                    producers = self.producers[node.id, port]
                    wanted = node.spec.looks_at(column)
                    if wanted is None:
                        wanted = any(_Output(node.id, tag) in carrying for tag in node.outputs)
                    if wanted or not carrying.isdisjoint(producers):
                        carrying.update(p for p in producers if self.type_of(p).event_time or not timed)
            if len(carrying) == before:
                return frozenset(carrying)

    def type_of(self, output: _Output) -> StreamType:
        return self.node(output.node).outputs[output.tag]

    def schema_of(self, output: _Output) -> pa.Schema:
        """Return the schema of the output, including the hidden columns."""
        type = self.type_of(output)
        schema = type.schema
        if type.event_time:
            schema = schema.append(pa.field(TS, pa.int64()))
        if output in self._watermarked:
            schema = schema.append(pa.field(WM, pa.int64()))
        if output in self._reached:
            schema = schema.append(pa.field(SWM, pa.int64()))
        if output in self._split:
            schema = schema.append(pa.field(SPLIT, pa.int64()))
        return schema

    def port_type(self, node: Node, port: int) -> PortType:
        first = self.producers[node.id, port][0]
        input = node.inputs[port]
        return PortType(
            self.type_of(first), input.keys, self.schema_of(first), input.keyed_at, input.broadcast
        )

    def outputs(self, node: Node) -> list[_Output]:
        """Return the outputs of the node that have readers."""
        return [output for tag in node.outputs if (output := _Output(node.id, tag)) in self.read]


# --- chains ---------------------------------------------------------------------------------------


@dataclass
class _Chain:
    id: ChainId
    nodes: list[Node]
    widest: int | None
    inputs: list[int] = field(default_factory=list)
    routes: dict[_Output, list[Route]] = field(default_factory=dict)

    @property
    def of_source(self) -> bool:
        return self.nodes[0].spec.reads_from is not None


def _chains(wiring: _Wiring) -> tuple[list[_Chain], list[Edge]]:
    chains: list[_Chain] = []
    edges: list[Edge] = []
    home: dict[int, _Chain] = {}
    for node in wiring.nodes:
        host = _host(node, wiring, home)
        restamps = node.inputs and node.spec.stamps is not None and node.spec.keeps_splits
        if restamps and (host is None or not host.of_source):
            raise ProgramError(
                "event time is assigned where the source's rows are read, but this operator, "
                "or one upstream, has its own parallelism or chain",
                site=node.site,
                operator=node.name,
                hint="set it on the source, or on operators after with_event_time",
            )
        if host is None:
            host = _Chain(ChainId(len(chains)), [node], _widest(node))
            chains.append(host)
            edges += _edges_into(host, node, wiring, home, len(edges), feedback=False)
        else:
            (producer,) = wiring.producers[node.id, 0]
            host.routes.setdefault(producer, []).append(ToOperator(len(host.nodes)))
            host.nodes.append(node)
        home[node.id] = host
    for chain in chains:
        edges += _edges_into(chain, chain.nodes[0], wiring, home, len(edges), feedback=True)
    return chains, _with_loops(edges)


def _host(node: Node, wiring: _Wiring, home: dict[int, _Chain]) -> _Chain | None:
    """Return the chain that the node joins; None if it begins one."""
    if len(node.inputs) != 1 or node.inputs[0].keys or node.inputs[0].broadcast:
        return None
    if node.inputs[0].distribution not in (None, RowDistribution.FORWARD) or node.begins_chain:
        return None
    if node.spec.begins_chain:
        return None
    producers = wiring.producers[node.id, 0]
    if len(producers) != 1 or wiring.node(producers[0].node).ends_chain:
        return None
    chain = home[producers[0].node]
    return chain if chain.widest == _widest(node) else None


def _widest(node: Node) -> int | None:
    """Return the maximum number of subtasks in which the node has rows; None: no limit."""
    if not any(input.distribution is RowDistribution.GLOBAL for input in node.inputs):
        return node.parallelism
    if node.parallelism not in (None, 1):
        raise ProgramError(
            f"all rows are sent to one subtask, but the operator has parallelism {node.parallelism}",
            site=node.site,
            operator=node.name,
            hint="leave out global_() or set_parallelism()",
        )
    return 1


def _edges_into(
    chain: _Chain,
    head: Node,
    wiring: _Wiring,
    home: dict[int, _Chain],
    next_id: int,
    *,
    feedback: bool,
) -> list[Edge]:
    """Return the feedback edges into the head, or all its other edges."""
    edges: list[Edge] = []
    for port, input in enumerate(head.inputs):
        if input.feedback is not feedback:
            continue
        for producer in wiring.producers[head.id, port]:
            source = home[producer.node]
            edge = Edge(
                id=next_id + len(edges),
                exchange=_exchange(input, source, chain, head),
                source=source.id,
                target=chain.id,
                target_port=port,
                keys=input.keys,
                keyed_at=input.keyed_at,
                distribution=input.distribution,
                feedback=feedback,
            )
            source.routes.setdefault(producer, []).append(ToEdge(edge.id))
            chain.inputs.append(edge.id)
            edges.append(edge)
    return edges


def _with_loops(edges: list[Edge]) -> list[Edge]:
    """Return the edges with `loop` set on each edge between a loop's head and its feedback edge."""
    loops: dict[int, ChainId] = {}
    for head in {edge.target for edge in edges if edge.feedback}:
        tails = {edge.source for edge in edges if edge.feedback and edge.target == head}
        behind = _reached({head}, [(e.source, e.target) for e in edges if not e.feedback])
        before = _reached(tails, [(e.target, e.source) for e in edges if not e.feedback])
        of_loop = behind & before | {head}
        on_loop = [edge.id for edge in edges if edge.source in of_loop and edge.target in of_loop]
        loops |= dict.fromkeys(on_loop, head)
    return [replace(edge, loop=loops.get(edge.id)) for edge in edges]


def _reached(begin: set[ChainId], steps: list[tuple[ChainId, ChainId]]) -> set[ChainId]:
    reached = set(begin)
    while further := {to for of, to in steps if of in reached and to not in reached}:
        reached |= further
    return reached


def _exchange(input: Input, source: _Chain, target: _Chain, head: Node) -> Exchange:
    if input.keys:
        return Exchange.HASH
    if input.broadcast:
        return Exchange.BROADCAST
    even = source.widest == target.widest
    match input.distribution:
        case PartitionBy():
            return Exchange.CUSTOM
        case RowDistribution.FORWARD if not even:
            raise ProgramError(
                "forward() sends rows from each subtask to the one with the same number, but "
                "the two operators differ in parallelism",
                site=head.site,
                operator=head.name,
                hint="give both the same parallelism, or use rescale() or rebalance()",
            )
        case None | RowDistribution.FORWARD:
            return Exchange.FORWARD if even else Exchange.REBALANCE
        case RowDistribution.REBALANCE | RowDistribution.GLOBAL:
            return Exchange.REBALANCE
        case RowDistribution.RESCALE:
            return Exchange.RESCALE
        case _:
            assert_never(input.distribution)


def _finished(
    chain: _Chain, wiring: _Wiring, ids: dict[int, OperatorId], notes: Mapping[int, str]
) -> Chain:
    operators = []
    for node in chain.nodes:
        outputs = wiring.outputs(node)
        operators.append(
            PlannedOperator(
                id=ids[node.id],
                name=node.name,
                site=node.site,
                spec=_buildable(node.spec),
                ports=tuple(wiring.port_type(node, port) for port in range(len(node.inputs))),
                outputs={o.tag: OutputType(wiring.type_of(o), wiring.schema_of(o)) for o in outputs},
                routes={o.tag: tuple(chain.routes[o]) for o in outputs},
                note=notes.get(node.id, ""),
            )
        )
    return Chain(chain.id, tuple(operators), tuple(chain.inputs), chain.widest)


def _buildable(spec: Spec) -> OperatorSpec:
    assert isinstance(spec, OperatorSpec), f"{spec.kind} does not derive from OperatorSpec"
    return spec
