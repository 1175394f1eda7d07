"""The physical plan: chains of operators, and the edges between them. Frozen and picklable.

Every chain has one subtask in every slot; subtask i of all chains runs in slot i. A chain is a tree
of operators joined in place: the head reads the chain's edges (or is a source), and each output tag
routes to further operators of the same chain or to edges.

A chain may be narrower than the job: its rows go to its first subtasks, as many as its width, and so
does all of its state. The others pass marks on, so that time, barriers and the end need no special
case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.row_distribution import Dealt
from rheos.core.operators.contract import OperatorSpec, OutputType, PortType
from rheos.core.protocol.ids import ChainId, OperatorId


class Exchange(Enum):
    FORWARD = "forward"
    """Subtask i to subtask i; the batch itself is handed over."""

    REBALANCE = "rebalance"
    """Batches in turn to all subtasks of the receiver: where sender and receiver differ in width."""

    HASH = "hash"
    """Each row to the subtask that owns its key group."""

    BROADCAST = "broadcast"
    """Every row to every subtask."""

    RESCALE = "rescale"
    """Batches in turn to the receiver subtasks that are assigned to the sender."""

    CUSTOM = "partition_by"
    """Each row to the subtask that the program computes for it."""


@dataclass(frozen=True)
class Edge:
    """Joins an output of one chain to an input port of another chain's head."""

    id: int
    exchange: Exchange
    source: ChainId
    target: ChainId
    target_port: int
    keys: tuple[str, ...]
    keyed_at: Site | None = None
    """The line of the `key_by`, which a null key is blamed on."""
    dealt: Dealt | None = None
    """The distribution of rows that the program specifies, if any."""
    feedback: bool = False
    """Whether the edge leads back to the head of a loop, and so points backward."""
    loop: ChainId | None = None
    """Head of the loop that the edge is part of. Rows that leave the head by it may return."""

    def peers(self, subtask: int, parallelism: int) -> range:
        """The subtasks with which one has a channel, as sender or as receiver: marks go to all of them.
        Rows go to those that the receiving chain is wide."""
        if self.exchange is Exchange.FORWARD:
            return range(subtask, subtask + 1)
        return range(parallelism)


@dataclass(frozen=True)
class ToOperator:
    """Routes within the chain: to the operator at `index`, which has one port."""

    index: int


@dataclass(frozen=True)
class ToEdge:
    edge: int


Route = ToOperator | ToEdge


@dataclass(frozen=True)
class PlannedOperator:
    """One operator of a chain, with all that is needed to build it on a worker."""

    id: OperatorId
    name: str
    site: Site
    spec: OperatorSpec
    ports: tuple[PortType, ...]
    outputs: Mapping[str, OutputType]
    """The tags that are read."""
    routes: Mapping[str, tuple[Route, ...]]
    note: str = ""
    """Remark shown with the operator when the plan is displayed."""

    @property
    def is_asynchronous(self) -> bool:
        """Whether it works on several batches of a channel at once. Such an operator is a head."""
        return self.spec.begins_chain


@dataclass(frozen=True)
class Chain:
    id: ChainId
    operators: tuple[PlannedOperator, ...]
    """The head first; a `ToOperator` index always points forward."""
    inputs: tuple[int, ...]
    """The ids of the edges into the head; empty for a source."""
    widest: int | None = None
    """Maximum number of its subtasks that have rows; None: all."""

    @property
    def name(self) -> str:
        return " -> ".join(operator.name for operator in self.operators)


@dataclass(frozen=True)
class PhysicalPlan:
    name: str
    chains: tuple[Chain, ...]
    """In topological order: an edge points forward, but for feedback."""
    edges: tuple[Edge, ...]
    parallelism: int
    max_parallelism: int
    context: JobContext = field(default_factory=JobContext)
    """The context passed to all functions of the job."""

    def width(self, chain: ChainId) -> int:
        """Return the number of subtasks of the chain that have rows."""
        widest = self.chains[chain].widest
        return self.parallelism if widest is None else min(widest, self.parallelism)

    def widths(self) -> dict[OperatorId, int]:
        """Return the maximum number of subtasks with rows, for each operator that has such a limit."""
        return {
            operator.id: chain.widest
            for chain in self.chains
            if chain.widest is not None
            for operator in chain.operators
        }

    def edge_schemas(self) -> dict[int, pa.Schema]:
        """Return the schema of the rows on each edge, including hidden columns."""
        heads = {chain.id: chain.operators[0] for chain in self.chains}
        return {edge.id: heads[edge.target].ports[edge.target_port].schema for edge in self.edges}

    def operators(self) -> list[PlannedOperator]:
        return [operator for chain in self.chains for operator in chain.operators]
