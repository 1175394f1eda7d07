"""The logical graph: the program as frozen nodes. Workers build running operators from their specs.

A `Node` is one operator with its place in the program; its `spec` describes the operator. Nodes refer
to their inputs, so a program consists of its sinks and all nodes upstream of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa

from rheos.core.connectors.contract import Sink, Source
from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import Site
from rheos.core.graph.changelog import Changes
from rheos.core.graph.row_distribution import AnyDistribution
from rheos.core.graph.watermark import Watermark

Order: TypeAlias = Literal["arrival", "event_time"]
Late: TypeAlias = Literal["side_output", "deliver"]
"""Order in which a keyed function is called for the rows of a key."""

MAIN = ""
"""Tag of an operator's main output."""


@dataclass(frozen=True)
class StreamType:
    """The properties of a stream that are known when the program is built."""

    schema: pa.Schema
    """Visible columns."""
    event_time: bool
    """Whether its batches have the column `__ts`."""
    record: type | None = None
    """Dataclass of its records, if the user named one."""
    time_column: str | None = None
    """Column with the event time, in ms or finer; None if no column has it."""
    time_changed: str | None = None
    """Place at which the values of that column changed, and the column's name; None if they did not
    change."""
    changes: Changes | None = None
    """Kind of changelog; None if its rows are not changes of a table."""


@dataclass(frozen=True)
class Input:
    """One input of a node: an output of another node, and the distribution of its rows to subtasks.

    With `keys`, each row goes to the owner of its key. With `broadcast`, it goes to all subtasks.
    Otherwise `distribution` decides; without it, any subtask may get the row. Every input of a node is
    a port of its operator, with a distribution of its own.
    """

    node: int
    tag: str = MAIN
    keys: tuple[str, ...] = ()
    keyed_at: Site | None = None
    """Place of the `key_by` in the user's program."""
    one_key: bool = False
    """Whether all rows have the same key, because they are the rows of a whole stream."""
    broadcast: bool = False
    distribution: AnyDistribution | None = None
    """Distribution that the program specifies; None if the planner decides."""
    feedback: bool = False
    """Whether the input's rows return through a loop whose head is this node, from a producer
    downstream."""


class Spec(ABC):
    """Description of one operator, with everything that the graph and the API need to know of it.

    Every operator derives from `operators.contract.OperatorSpec`, which adds how it is built and
    described. This base exists because the graph must not depend on operators.
    """

    begins_chain: ClassVar[bool] = False
    """Whether it must be the head of a chain, as an asynchronous operator must."""
    any_order: ClassVar[bool] = False
    """Whether the result depends on the times of rows, but not on the order of arrival between keyed
    ports. A batch job then sends a key's rows port by port, in large batches, without alternating."""
    is_union: ClassVar[bool] = False
    """Whether the planner removes the node, so that its downstream nodes read all of its inputs."""
    keeps_changes: ClassVar[bool] = False
    """Whether its output is the same kind of changelog as its input."""
    keeps_splits: ClassVar[bool] = False
    """Whether its rows are still in the order of the splits of its source, so that they may get another
    event time."""
    side_outputs_hint: ClassVar[str | None] = None
    """Hint of the error for a missing side output: how to get one. None for operators that have no side
    outputs."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return the prefix of the operator's id. It never changes, because a restored job finds state
        by it."""

    @property
    def takes_changes(self) -> bool:
        """Return whether its inputs may be changelogs (`graph.changes`), or must be plain rows."""
        return False

    @property
    def reads_from(self) -> Source | None:
        """Return the source that it reads; None for an operator with inputs."""
        return None

    @property
    def writes_to(self) -> Sink | None:
        """Return the sink that it writes to; None for every other operator."""
        return None

    @property
    def looks_up(self) -> Lookup | None:
        """Return the external system whose rows it looks up; None for every other operator."""
        return None

    @property
    def stamps(self) -> Watermark | None:
        """Return the strategy by which it assigns event time; None if rows keep their event time."""
        return None

    def looks_at(self, column: str) -> bool | None:
        """Return whether the operator reads a hidden column of its inputs; None if it only passes the
        column on to its outputs."""
        return None

    def keeping(self, column: str) -> Spec | None:
        """Return the same operator with a check that its function does not change that column of its
        input. Return None if the operator emits no rows that its function could have changed."""
        return None

    def reading_side_output(self, tag: str) -> Spec:
        """Return the operator for a program that reads the side output `tag`."""
        return self

    def check_bounded(self) -> None:
        """Raise ProgramError if a batch job, which has all rows at once, cannot run the operator.
        Called when a batch job is planned."""

    def summary(self) -> str:
        """Return a description of the operator on one line."""
        return ""


@dataclass(frozen=True)
class Node:
    """One operator of the program.

    `outputs` maps tags to stream types; it contains MAIN unless the node is a sink. `id` is its number
    in the order of creation.
    """

    id: int
    name: str
    uid: str | None
    site: Site
    spec: Spec
    inputs: tuple[Input, ...]
    outputs: Mapping[str, StreamType]
    parallelism: int | None = None
    """Maximum number of subtasks that receive rows; None: all."""
    begins_chain: bool = False
    """Whether it starts a new chain, though it could join one."""
    ends_chain: bool = False
    """Whether no other operator may join its chain."""


@dataclass(frozen=True)
class Graph:
    """A whole program. `nodes` is in the order of creation: topological except for feedback."""

    nodes: tuple[Node, ...]

    def node(self, id: int) -> Node:
        return next(node for node in self.nodes if node.id == id)
