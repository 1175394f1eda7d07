"""Checks of the arguments of `stream.iterate(...)`: the head of the loop, and its feedback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from rheos.core.callables import check_callable
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.nodes import Input, StreamType
from rheos.core.graph.types import describe
from rheos.core.operators.iterate import ROUND, IterateSpec

if TYPE_CHECKING:
    from rheos.api.program import Program
    from rheos.api.streams import DataStream
    from rheos.api.transformations import Transformation

_EXAMPLE = "write `def body(loop): ...; return again, result`, and stream.iterate(body)"


def iterate_spec(body: Any, rounds: Any, capacity: Any) -> IterateSpec:
    """Return the head of the loop. Raise ProgramError if an argument is invalid."""
    if not callable(body):
        raise ProgramError(f"iterate() takes a function of a stream, not {body!r}", hint=_EXAMPLE)
    for name, value in (("rounds", rounds), ("capacity", capacity)):
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not whole and not (name == "rounds" and value is None):
            raise ProgramError(
                f"{name}={value!r} is not a whole number of at least 1", hint=f"write {name}=1000"
            )
    return IterateSpec(rounds, capacity)


def loop_type(of_input: StreamType, spec: IterateSpec) -> StreamType:
    """Return the type of the feedback: the input's columns, without its event time. Raise
    SchemaError."""
    fields = [field.with_nullable(True) for field in of_input.schema]
    if spec.rounds is None:
        return StreamType(pa.schema(fields), event_time=False, record=of_input.record)
    if ROUND in of_input.schema.names:
        raise SchemaError(
            f"iterate() counts iterations in the column {ROUND!r}, but the stream already has "
            "one of that name",
            hint="give that column another name before iterate()",
        )
    return StreamType(pa.schema([*fields, pa.field(ROUND, pa.int64())]), event_time=False)


def close_loop(head: Transformation, body: Callable[[DataStream], Any]) -> DataStream:
    """Call the body, connect its first stream to the head of the loop, and return its second. Raise
    ProgramError or SchemaError if they do not fit."""
    program = head.program
    check_callable(body, "iterate", ["the stream of the loop"])
    with program.within_loop():
        given = body(head.stream)
    if (
        not isinstance(given, tuple)
        or len(given) != 2
        or not all(isinstance(stream, type(head.stream)) for stream in given)
    ):
        raise ProgramError(
            f"the body of a loop must return (feedback, output), two streams, not {given!r}",
            hint=_EXAMPLE,
        )
    again, result = given
    wanted = head.type.schema
    if not again.schema.equals(wanted) and not _same(again.schema, wanted):
        raise SchemaError(
            "the feedback stream has other columns than the loop",
            hint=f"select the same columns with .select(...)\n    the loop: {describe(wanted)}\n    "
            f"feedback: {describe(again.schema)}",
        )
    port: Input = again._port
    changes = again._type.changes
    if port.broadcast or changes is not None:
        what = "are broadcast to all subtasks" if changes is None else f"are {changes.describe()}"
        raise ProgramError(
            f"each row must be fed back exactly once, but these {what}",
            hint="leave out broadcast() there, and call it in the body"
            if changes is None
            else "turn them into plain rows: .as_rows()",
        )
    if not _leads_to(program, port, head.node.id):
        raise ProgramError(
            "the feedback stream does not originate in the loop",
            hint="return a stream that the body derives from its argument",
        )
    inputs = (*head.node.inputs, replace(port, feedback=True))
    program.replace(replace(head.node, inputs=inputs))
    return cast("DataStream", result)


def _same(schema: pa.Schema, wanted: pa.Schema) -> bool:
    return [(f.name, f.type) for f in schema] == [(f.name, f.type) for f in wanted]


def _leads_to(program: Program, port: Input, head: int) -> bool:
    """Return whether rows of the head reach the port."""
    found, next = set[int](), [port.node]
    while next:
        id = next.pop()
        if id not in found:
            found.add(id)
            next += (input.node for input in program.node(id).inputs if input.node >= head)
    return head in found
