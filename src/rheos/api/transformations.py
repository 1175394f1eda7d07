"""Transformations: the builder layer that the methods of streams share with SQL.

A transformation is one output of an operator in the program. Its methods add the operators that read
this output. `stream.transformation` returns the transformation of a stream, and `transformation.stream`
the stream.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rheos.api.program import Program
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import MAIN, Input, Node, Spec, StreamType
from rheos.core.graph.validate import check_event_time
from rheos.core.site import call_site

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


@dataclass(frozen=True, slots=True)
class Transformation:
    """Output of an operator in a program, to which further operators can be added."""

    program: Program
    port: Input
    results_of: Transformation | None = None
    """The operator of the windows, if this is the output of operators that compute the results from the
    windows' rows. Uid and side outputs of the results are those of the windows."""
    named: Transformation | None = None
    """Output of the operator that `DataStream.name` renames, if it is not this one."""

    @property
    def stream(self) -> DataStream:
        """Stream of the rows at this output."""
        return self.program.stream_of(self)

    def stream_titled(self, title: str) -> DataStream:
        """Return the stream of the rows at this output, with a title that `print` shows.

        Args:
            title: name of a table or view, or "result-N".

        Returns:
            The stream. Streams derived from it do not have the title.
        """
        stream = self.stream
        stream._title = title
        return stream

    @property
    def type(self) -> StreamType:
        """Type of the rows at this output."""
        return self.program.type_of(self.port)

    @property
    def node(self) -> Node:
        """Operator that emits the rows."""
        return self.program.node(self.port.node)

    def keyed_by(self, keys: tuple[str, ...], *, one_key: bool = False) -> Transformation:
        """Return the same output, whose rows the next operator receives by key."""
        port = Input(self.port.node, self.port.tag, keys, call_site(), one_key=one_key)
        return Transformation(self.program, port)

    def go_by_event_time(self, what: str) -> None:
        """Record that the next operator uses the event time of the rows.

        Raises:
            ProgramError: If the rows have no event time. The error names `what`, which needs it.
        """
        check_event_time(self.type, what)
        self.program.go_by_event_time(self.port)

    def add(
        self, spec: Spec, name: str, outputs: Mapping[str, StreamType], *others: Transformation
    ) -> Transformation:
        """Add an operator that reads this output, and those of `others`.

        Args:
            spec: The operator.
            name: Name of the operator in errors, `explain` and metrics.
            outputs: Type of each output, by tag.
            others: Further inputs of the operator, in order.

        Returns:
            The main output of the new operator.

        Raises:
            ProgramError: If the operator does not accept such inputs.
        """
        inputs = (self.port, *(other.port for other in others))
        node = self.program.add(spec, name=name, site=call_site(), inputs=inputs, outputs=outputs)
        return Transformation(self.program, Input(node.id))

    def then(
        self, spec: Spec, name: str, schema: pa.Schema, record: builtins.type | None = None
    ) -> Transformation:
        """Add an operator that makes rows of `schema` from the rows of this output.

        The new rows keep the event time. They also keep its column, if `schema` has a column with the
        same name and type.

        Raises:
            ProgramError: If the operator does not accept such an input.
        """
        before = self.type
        column = before.time_column
        kept = column if column is not None and column in schema.names else None
        if kept is not None and schema.field(kept).type != before.schema.field(kept).type:
            kept = None
        changes = before.changes if spec.keeps_changes else None
        made = StreamType(schema, before.event_time, record, kept, before.time_changed, changes)
        return self.add(spec, name, {MAIN: made})

    def with_type(self, declared: StreamType) -> Transformation:
        """Replace the type of the operator's main output, and return this transformation.

        The operator must have no other output.
        """
        self.program.replace(replace(self.node, outputs={MAIN: declared}))
        return self

    def with_changes(self, changes: Changes | None) -> Transformation:
        """Declare the rows to be a changelog, or plain rows if `changes` is None."""
        return self.with_type(replace(self.type, changes=changes))

    def without_event_time(self) -> Transformation:
        """Declare that the rows have no event time."""
        return self.with_type(replace(self.type, event_time=False, time_column=None))
