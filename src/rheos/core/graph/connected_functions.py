"""Base classes for functions of two streams and of streams without a key, and their contexts.

They are opened and closed, and declare their outputs, like a KeyedProcessFunction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from rheos.core.graph.functions import KeyedContext


class ProcessContext(Protocol):
    """The context of methods that are called for a row without a key."""

    timestamp: int
    """Event timestamp of the record, in ms since the epoch; None if its stream has no event time."""

    @property
    def watermark(self) -> int:
        """Return the watermark before the record, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...

    def output(self, tag: str, record: Any) -> None:
        """Emit a record to a declared side output."""
        ...


class RunningFunction:
    """Base class of the functions of connected streams."""

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. Called once in each subtask, before any record: `def open(self, ctx:
        rh.RuntimeContext)`, or `def open(self)`."""

    def close(self) -> None:
        """Release resources. Called once, at the end."""


class ProcessFunction(RunningFunction):
    """A function over the records of a stream without a key, with side outputs and operator state
    (`OperatorListState`, `OperatorUnionState`)."""

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record. Called for every record."""
        raise NotImplementedError


# --- two streams --------------------------------------------------------------------------------------


class CoMapFunction(RunningFunction):
    """Converts each record of two connected streams to one output record."""

    def map1(self, record: Any) -> Any:
        """Convert a record of the first stream. Called for each of them."""
        raise NotImplementedError

    def map2(self, record: Any) -> Any:
        """Convert a record of the second stream. Called for each of them."""
        raise NotImplementedError


class CoFlatMapFunction(RunningFunction):
    """Converts each record of two connected streams to any number of output records."""

    def flat_map1(self, record: Any) -> Iterable[Any] | None:
        """Convert a record of the first stream. Called for each of them."""
        raise NotImplementedError

    def flat_map2(self, record: Any) -> Iterable[Any] | None:
        """Convert a record of the second stream. Called for each of them."""
        raise NotImplementedError


class CoProcessFunction(RunningFunction):
    """A function over two connected streams without a key, with side outputs and operator state."""

    def process_element1(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the first stream. Called for each of them."""
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the second stream. Called for each of them."""
        raise NotImplementedError


class KeyedCoProcessFunction(RunningFunction):
    """A function over two streams that are connected by key. Records of both streams share the declared
    state and the timers of their key."""

    def process_element1(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the first stream. Called for each of them."""
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the second stream. Called for each of them."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Handle a timer of the key that is due."""
        return None


# --- a broadcast stream -------------------------------------------------------------------------------


class BroadcastProcessFunction(RunningFunction):
    """A function over a stream and a broadcast stream, whose records every subtask receives. It stores
    data of broadcast records in `BroadcastState`."""

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the stream. Broadcast state is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the broadcast stream. Called in every subtask. It must change broadcast
        state identically everywhere. Every subtask emits the output."""
        raise NotImplementedError


class KeyedBroadcastProcessFunction(RunningFunction):
    """A function over a keyed stream, with state and timers, and a broadcast stream."""

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the keyed stream. Broadcast state is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the broadcast stream. Called in every subtask. Keyed state and timers are
        not available, as there is no key here."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Handle a timer of the key that is due. Broadcast state is read-only here."""
        return None
