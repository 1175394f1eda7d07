"""The logical graph: what the user wrote, as frozen nodes. Running logic is built from the specs.

A `Node` is one operator with its place in the program; its `spec` describes the operator. Nodes refer
to their inputs, so a program is the set of its sinks' ancestors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa

from rheos.core.connectors.contract import Sink, Source
from rheos.core.errors import Site
from rheos.core.graph.changelog import Changes
from rheos.core.graph.row_distribution import Dealt
from rheos.core.graph.windows import Watermark

Order: TypeAlias = Literal["arrival", "event_time"]
"""In which order a keyed function is called for the rows of a key."""

MAIN = ""
"""The tag of an operator's main output."""


@dataclass(frozen=True)
class StreamType:
    """The properties of a stream that are known when the program is built."""

    schema: pa.Schema
    """The visible columns."""
    event_time: bool
    """Whether its batches carry `__ts`."""
    record: type | None = None
    """The dataclass of its records, where the user named one."""
    time_column: str | None = None
    """The column with its event time; None if no column has it."""
    time_changed: str | None = None
    """The place at which that column received other values, and its name; None if it did not."""
    changes: Changes | None = None
    """Whether its rows are changes of a table, and of which kind."""


@dataclass(frozen=True)
class Input:
    """One input of a node: an output of another, and which of its rows go to which subtask.

    Each row goes to the owner of its key where there are `keys`, to all subtasks where it is
    `broadcast`, where `dealt` says, and else to any one. Every input of a node is a port of its
    operator, and may be dealt out in another way than the others.
    """

    node: int
    tag: str = MAIN
    keys: tuple[str, ...] = ()
    keyed_at: Site | None = None
    """The line of its `key_by`."""
    one_key: bool = False
    """All rows have the same key: they are those of a whole stream."""
    broadcast: bool = False
    dealt: Dealt | None = None
    """The distribution that the program specifies; None if the planner decides."""
    feedback: bool = False
    """Whether its rows return through a loop whose head is this node: their producer is downstream."""


class Spec(ABC):
    """Description of one operator, as the graph and the API need it.

    Every operator derives from `operators.contract.OperatorSpec`, which adds how it is built and how it
    is described. This base exists because the graph knows no operators.
    """

    begins_chain: ClassVar[bool] = False
    """Whether it is the head of a chain, as an asynchronous operator has to be."""
    any_order: ClassVar[bool] = False
    """With several keyed ports: whether it uses the times of rows, and not which of two ports received
    one first. In batch it receives a key's rows port by port, in large batches, and not in turns."""
    is_union: ClassVar[bool] = False
    """Whether the planner removes the node: its readers read all of its inputs."""
    keeps_changes: ClassVar[bool] = False
    """Whether its output is the same kind of changelog as its input."""
    keeps_splits: ClassVar[bool] = False
    """Whether its rows still follow each other as in the splits of its source, so that they may receive
    another event time."""
    side_outputs_hint: ClassVar[str | None] = None
    """How a program gets a side output of it, for an error; None: by default it has none."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Prefix of the operator's id. It never changes: restored state is found by it."""

    @property
    def takes_changes(self) -> bool:
        """Whether its inputs may be changelogs (`graph.changes`). Other inputs are plain rows."""
        return False

    @property
    def reads_from(self) -> Source | None:
        """The source whose rows it reads; None for an operator with inputs."""
        return None

    @property
    def writes_to(self) -> Sink | None:
        """The sink that it writes; None for every other operator."""
        return None

    @property
    def stamps(self) -> Watermark | None:
        """The strategy by which it gives rows an event time; None if they keep theirs."""
        return None

    def looks_at(self, column: str) -> bool | None:
        """Return whether it reads a hidden column of its inputs; None if it does not, and passes it on
        to its outputs."""
        return None

    def keeping(self, column: str) -> Spec | None:
        """Return the same operator, which checks that its function does not change that column of its
        input. None if it passes no rows on that its function could have changed."""
        return None

    def reading_side_output(self, tag: str) -> Spec:
        """Return the operator for a program that reads the side output `tag`."""
        return self

    def check_bounded(self) -> None:
        """Raise ProgramError if a batch job, which has all rows at once, cannot run it. Called when a
        batch job is planned."""

    def summary(self) -> str:
        """Return what it does, on one line."""
        return ""


@dataclass(frozen=True)
class Node:
    """One operator of the program.

    `outputs` maps tags to stream types; MAIN is there unless it is a sink. `id` is its number in the
    order of writing.
    """

    id: int
    name: str
    uid: str | None
    site: Site
    spec: Spec
    inputs: tuple[Input, ...]
    outputs: Mapping[str, StreamType]
    parallelism: int | None = None
    """In how many subtasks it has rows at the most; None: in all."""
    begins_chain: bool = False
    """It joins no chain, though it could."""
    ends_chain: bool = False
    """Nor does any other join its own."""


@dataclass(frozen=True)
class Graph:
    """A whole program. `nodes` is in the order of writing, which is topological but for feedback."""

    nodes: tuple[Node, ...]

    def node(self, id: int) -> Node:
        return next(node for node in self.nodes if node.id == id)
