"""The logical graph: what the user wrote, as frozen nodes. Running logic is built from the specs.

A `Node` is one operator with its place in the program; its `spec` describes the operator. Nodes refer
to their inputs, so a program is the set of its sinks' ancestors."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.connectors.contract import Sink, Source
from rheos.core.errors import Site
from rheos.core.graph.changelog import Changes
from rheos.core.graph.row_distribution import Dealt
from rheos.core.graph.windows import Watermark, Window

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


@dataclass(frozen=True)
class SourceSpec:
    """Reads splits, stamps event time, generates watermarks."""

    source: Source
    watermark: Watermark | None
    until_now: bool = False
    """Said where the job is started: it stops once all has been read that was there by then."""
    columns: tuple[str, ...] | None = None
    """Said where the program is planned: the source's columns that it gives, where that is not all."""


@dataclass(frozen=True)
class EventTimeSpec:
    """Gives the rows of a source a new event time, and watermarks by it."""

    watermark: Watermark


@dataclass(frozen=True)
class ExpressionSpec:
    """`filter`, `select` and `with_columns`, with row-separable Polars expressions."""

    op: Literal["filter", "select", "with_columns"]
    exprs: tuple[pl.Expr, ...]
    failing: tuple[str, str] | None = None
    """Message and hint of the error for a row on which an expression fails; None for Polars'
    message."""


@dataclass(frozen=True)
class MapSpec:
    """A plain function of one record. `flat` functions return an iterable of records.

    Records arrive as `record` (a dataclass) or, where it is None, as a light named row.
    """

    fn: Callable[[Any], Any]
    flat: bool
    record: type | None
    keeps: str | None = None
    """A column that the function may not change, as downstream operators use the event time that was
    read from it."""


@dataclass(frozen=True)
class MapBatchesSpec:
    """A function of whole batches, in the form the user chose. It keeps neither rows nor order, but
    where the stream has event time it must give as many rows as it got."""

    fn: Callable[[Any], Any]
    form: Literal["polars", "arrow", "pandas"]
    keeps: str | None = None
    """As in MapSpec."""


@dataclass(frozen=True)
class UnionSpec:
    """Rows of all inputs, which have one schema."""


@dataclass(frozen=True)
class ProcessSpec:
    """A keyed process function with state and timers."""

    fn: Any
    order: Order
    record: type | None
    side_outputs: Mapping[str, pa.Schema] = field(default_factory=dict)


@dataclass(frozen=True)
class ReduceSpec:
    """Combines two records of a key into one; emits the combined record for every input."""

    fn: Callable[[Any, Any], Any]
    record: type | None


@dataclass(frozen=True)
class RunningSpec:
    """Running aggregates per key (count, sum, min, max, mean): each row, with its key's new values."""

    aggregates: Mapping[str, Agg]


@dataclass(frozen=True)
class WindowSpec:
    """Windows over a keyed stream: built-in aggregates, or a process function over the elements."""

    window: Window
    lateness_ms: int
    aggregates: Mapping[str, Agg]
    fn: Any | None = None
    """A WindowFunction; then `aggregates` is empty."""
    record: type | None = None
    late_tag: str | None = None
    """The side output of late rows, where the program reads it."""


@dataclass(frozen=True)
class SinkSpec:
    sink: Sink


class OwnSpec(ABC):
    """An operator that says of itself what the planner and the descriptions ask.

    A new kind of operator derives from `operators.contract.OperatorSpec`, which also makes it and names
    its state: then nothing has to be added to the matches over the kinds above.
    """

    kind: ClassVar[str]
    """What the ids of its operators are made of. It never changes: state is found by it."""
    begins_chain: ClassVar[bool] = False
    """It is the head of a chain, as an asynchronous operator is to be."""
    any_order: ClassVar[bool] = False
    """Of several keyed ports: it goes by the times of rows, and not by which of two ports has given one
    first. In batch it gets a key's rows port by port, in large batches, and not in turns."""
    takes_changes: ClassVar[bool] = False
    """Its inputs may be streams of changes (`graph.changes`); others are taken by it as they are."""

    def looks_at(self, column: str) -> bool | None:
        """Whether it looks at a hidden column of its inputs; None where it does not, and passes it on
        to its outputs."""
        return None

    def keeping(self, column: str) -> OwnSpec | None:
        """The same operator, which sees to it that its function gives that column of its input no other
        values. None where it passes no rows on that its function could have changed."""
        return None

    def check_bounded(self) -> None:
        """Raises ProgramError where it means nothing in a batch job, which has all rows at once. Called
        when such a job is planned."""

    def summary(self) -> str:
        """What it does, on one line."""
        return ""


Spec: TypeAlias = (
    SourceSpec
    | EventTimeSpec
    | ExpressionSpec
    | MapSpec
    | MapBatchesSpec
    | UnionSpec
    | ProcessSpec
    | ReduceSpec
    | RunningSpec
    | WindowSpec
    | SinkSpec
    | OwnSpec
)


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
