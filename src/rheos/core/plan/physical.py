"""The physical plan: chains of operators, and the edges between them. Frozen and picklable.

Every chain has one subtask in every slot; subtask i of all chains runs in slot i. A chain is a tree of
operators without channels between them. The head reads the chain's edges, or is a source. Each output
tag leads to further operators of the same chain, or to edges.

A chain may be narrower than the job: only its first subtasks, up to its width, receive rows and hold
state. The other subtasks forward marks, so that time, barriers and the end need no special case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.row_distribution import AnyDistribution
from rheos.core.operators.contract import OperatorSpec, OutputType, PortType
from rheos.core.protocol.ids import ChainId, OperatorId


class Exchange(Enum):
    FORWARD = "forward"
    """Rows of subtask i go to subtask i, without a copy of the batch."""

    REBALANCE = "rebalance"
    """Batches go to all subtasks of the receiver in turn; used if the two sides have different
    widths."""

    HASH = "hash"
    """Each row goes to the subtask that owns its key group."""

    BROADCAST = "broadcast"
    """Every row goes to every subtask."""

    RESCALE = "rescale"
    """Batches go in turn to the receiver subtasks that are assigned to the sender."""

    CUSTOM = "partition_by"
    """Each row goes to the subtask that the program computes for it."""


@dataclass(frozen=True)
class Edge:
    """A connection from an output of one chain to an input port of another chain's head."""

    id: int
    exchange: Exchange
    source: ChainId
    target: ChainId
    target_port: int
    keys: tuple[str, ...]
    keyed_at: Site | None = None
    """Line of the `key_by`, for errors about null keys."""
    distribution: AnyDistribution | None = None
    """Distribution of rows that the program specifies; None if it specifies none."""
    feedback: bool = False
    """Whether the edge leads back to the head of a loop, against the topological order."""
    loop: ChainId | None = None
    """Head of the loop that the edge is part of. Rows that the head sends on the edge may return to the
    head."""

    def peers(self, subtask: int, parallelism: int) -> range:
        """Return the subtasks to which a sender or receiver has channels. Marks go to all of them. Rows
        go only to the first subtasks, up to the receiving chain's width."""
        if self.exchange is Exchange.FORWARD:
            return range(subtask, subtask + 1)
        return range(parallelism)


@dataclass(frozen=True)
class ToOperator:
    """A route within the chain: to the operator at `index`, which has one port."""

    index: int


@dataclass(frozen=True)
class ToEdge:
    edge: int


Route = ToOperator | ToEdge


@dataclass(frozen=True)
class PlannedOperator:
    """One operator of a chain, with everything that a worker needs to build it."""

    id: OperatorId
    name: str
    site: Site
    spec: OperatorSpec
    ports: tuple[PortType, ...]
    outputs: Mapping[str, OutputType]
    """Types of the outputs that are read, by tag."""
    routes: Mapping[str, tuple[Route, ...]]
    note: str = ""
    """Remark shown with the operator when the plan is displayed."""

    @property
    def is_asynchronous(self) -> bool:
        """Return whether it processes several batches of a channel at once. Then it is a head."""
        return self.spec.begins_chain


@dataclass(frozen=True)
class Chain:
    id: ChainId
    operators: tuple[PlannedOperator, ...]
    """Operators of the chain, the head first. A `ToOperator` index refers to a later operator."""
    inputs: tuple[int, ...]
    """Ids of the edges into the head; empty for a source."""
    widest: int | None = None
    """Maximum number of subtasks that have rows; None: all."""

    @property
    def name(self) -> str:
        return " -> ".join(operator.name for operator in self.operators)


@dataclass(frozen=True)
class PhysicalPlan:
    name: str
    chains: tuple[Chain, ...]
    """Chains in topological order. All edges lead to later chains, except feedback edges."""
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
