"""The program under construction: its nodes so far, to which streams refer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rheos.core.errors import ProgramError, Site
from rheos.core.graph.nodes import Graph, Input, Node, Spec, StreamType
from rheos.core.graph.validate import check_changes, check_inputs, check_uid
from rheos.core.protocol.state_config import Backend
from rheos.core.site import located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.api.transformations import Transformation


class Program:
    """The nodes of a program. They are frozen: a later change (`name`, `uid`, ...) replaces a node."""

    def __init__(
        self,
        to_frame: Callable[[Graph], Any],
        stream_of: Callable[[Transformation], DataStream],
        *,
        compiles: bool = True,
        backend: Backend = Backend.MEMORY,
    ) -> None:
        self.to_frame = to_frame
        """Function that returns a Spark DataFrame of the rows that reach the only sink of a graph."""
        self.stream_of = stream_of
        """Function that returns the stream of a transformation. It is an attribute because this module
        cannot import streams."""
        self.compiles = compiles
        """Whether functions are compiled while they run, if that is possible."""
        self.backend = backend
        """Storage of the keyed state of its functions."""
        self._nodes: list[Node] = []
        self._executed: set[int] = set()
        self._within_loop = False

    def add(
        self,
        spec: Spec,
        *,
        name: str,
        site: Site,
        inputs: tuple[Input, ...] = (),
        outputs: Mapping[str, StreamType],
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Node:
        with located(site, name):
            types = [self.type_of(input) for input in inputs]
            check_inputs(inputs, types)
            check_changes(spec, inputs, types)
        id = len(self._nodes)
        node = Node(id, checked_name(name), None, site, spec, inputs, outputs, parallelism)
        if uid is not None:
            check_uid(uid, node.id, self._nodes)
            node = replace(node, uid=uid)
        self._nodes.append(node)
        return node

    @contextmanager
    def within_loop(self) -> Iterator[None]:
        """Mark the block as the body of a loop. Raise ProgramError inside the body of another loop."""
        if self._within_loop:
            raise ProgramError(
                "a loop cannot contain another loop",
                hint="merge the two bodies, with a column that tells their rows apart",
            )
        self._within_loop = True
        try:
            yield
        finally:
            self._within_loop = False

    @property
    def in_loop(self) -> bool:
        """Return whether operators that are added now are in the body of a loop."""
        return self._within_loop

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Add operators on trial: they are removed at the end of the block."""
        before = [*self._nodes]
        try:
            yield
        finally:
            self._nodes = before

    def node(self, id: int) -> Node:
        return self._nodes[id]

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def replace(self, node: Node) -> None:
        self._nodes[node.id] = node

    def type_of(self, port: Input) -> StreamType:
        """Return the type of the rows at a port."""
        return self._nodes[port.node].outputs[port.tag]

    def go_by_event_time(self, port: Input) -> None:
        """Record that an operator uses the event time at a port. Plain functions upstream then must not
        change the column of the event time, and a check enforces this."""
        node = self._nodes[port.node]
        type = node.outputs[port.tag]
        if not node.spec.is_union:
            kept = None if type.time_column is None else node.spec.keeping(type.time_column)
            if kept is None:
                return
            self.replace(replace(node, spec=kept))
        for before in node.inputs:
            self.go_by_event_time(before)

    def graph(self) -> Graph:
        """Return the program so far, without sinks that were executed before."""
        return Graph(tuple(node for node in self._nodes if node.id not in self._executed))

    def ending_in(self, node: Node) -> Graph:
        """Return the graph that ends in this node alone."""
        inner = (other for other in self._nodes if other.spec.writes_to is None)
        return Graph((*inner, replace(node, id=len(self._nodes))))

    def executed(self, graph: Graph) -> None:
        """Mark the sinks of the graph as executed: the next `execute` does not run them."""
        self._executed.update(node.id for node in graph.nodes if node.spec.writes_to is not None)


def checked_name(name: object) -> str:
    """Check that an operator's name is a non-empty string."""
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"the name of an operator must be a non-empty string, not {name!r}")
    return name
