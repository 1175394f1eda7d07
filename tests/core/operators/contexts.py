"""Operator contexts for tests, with a constant clock and I/O that runs immediately."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.contract import OperatorContext, OutputType, PortType
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.ports import Completion, EventLoop, Immediate
from rheos.runtimes.simulated.event_loop import InstantEventLoop

T = TypeVar("T")


class StillClock:
    def now_ms(self) -> int:
        return 0

    def now_ns(self) -> int:
        return 0

    def monotonic_us(self) -> int:
        return 0


class AtOnce:
    def submit(self, work: Callable[[], T]) -> Completion[T]:
        return Immediate(work())

    aside = submit

    def wake(self) -> None:
        pass

    def event_loop(self) -> EventLoop:
        return InstantEventLoop()


def stream_type(schema: pa.Schema) -> StreamType:
    return StreamType(visible(schema), event_time=TS in schema.names)


def context(
    schema: pa.Schema,
    outputs: Mapping[str, pa.Schema] | pa.Schema,
    *,
    keys: tuple[str, ...] = (),
    subtask: int = 0,
    parallelism: int = 1,
    batch_rows: int = 16_384,
) -> OperatorContext:
    """Return the context of an operator with one port; schemas include hidden columns."""
    by_tag = {MAIN: outputs} if isinstance(outputs, pa.Schema) else outputs
    return OperatorContext(
        job=JobId("job"),
        attempt=Attempt(1),
        operator=OperatorId("op"),
        name="the operator",
        site=Site("program.py", 7),
        subtask=subtask,
        parallelism=parallelism,
        max_parallelism=128,
        ports=(PortType(stream_type(schema), keys, schema),),
        outputs={tag: OutputType(stream_type(out), out) for tag, out in by_tag.items()},
        clock=StillClock(),
        io=AtOnce(),
        batch_rows=batch_rows,
    )
