"""The classes users derive functions of two streams from, those of streams without a key, and the
contexts these are handed.

All are open and closed as a KeyedProcessFunction is, and say their outputs as it does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from rheos.core.graph.functions import KeyedContext


class ProcessContext(Protocol):
    """The context of methods that are called for a row without a key."""

    timestamp: int
    """The event timestamp of the record, in ms since the epoch. None where its stream has no event
    time."""

    @property
    def watermark(self) -> int:
        """The watermark before the record, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...

    def output(self, tag: str, record: Any) -> None:
        """Emit a record to a declared side output."""
        ...


class RunningFunction:
    """Base class of the functions of connected streams."""

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each subtask, before any record: `def open(self, ctx: rh.RuntimeContext)`, or
        `def open(self)`."""

    def close(self) -> None:
        """Called once, at the end."""


class ProcessFunction(RunningFunction):
    """A function over the records of a stream without a key, with side outputs and operator state
    (`OperatorListState`, `OperatorUnionState`)."""

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record."""
        raise NotImplementedError


# --- two streams --------------------------------------------------------------------------------------


class CoMapFunction(RunningFunction):
    """Makes one record of each record of two connected streams."""

    def map1(self, record: Any) -> Any:
        """Called for every record of the first stream."""
        raise NotImplementedError

    def map2(self, record: Any) -> Any:
        """Called for every record of the second stream."""
        raise NotImplementedError


class CoFlatMapFunction(RunningFunction):
    """Makes any number of records of each record of two connected streams."""

    def flat_map1(self, record: Any) -> Iterable[Any] | None:
        """Called for every record of the first stream."""
        raise NotImplementedError

    def flat_map2(self, record: Any) -> Iterable[Any] | None:
        """Called for every record of the second stream."""
        raise NotImplementedError


class CoProcessFunction(RunningFunction):
    """A function over two connected streams without a key, with side outputs and operator state."""

    def process_element1(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record of the first stream."""
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record of the second stream."""
        raise NotImplementedError


class KeyedCoProcessFunction(RunningFunction):
    """A function over two streams that are connected by key. Its declared state and its timers are
    those of the key, whichever stream a record is of."""

    def process_element1(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for every record of the first stream."""
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for every record of the second stream."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called when a timer of the key is due."""
        return None


# --- a broadcast stream -------------------------------------------------------------------------------


class BroadcastProcessFunction(RunningFunction):
    """A function over a stream, and over a broadcast one whose records every subtask gets. What it
    keeps of these is `BroadcastState`."""

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record of the stream. Broadcast state can only be read here."""
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record of the broadcast stream, in every subtask. It is to do the same to
        broadcast state everywhere; what it emits, every subtask emits."""
        raise NotImplementedError


class KeyedBroadcastProcessFunction(RunningFunction):
    """A function over a keyed stream, with state and timers, and over a broadcast one."""

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for every record of the keyed stream. Broadcast state can only be read here."""
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Called for every record of the broadcast stream, in every subtask. There is no key here, so
        neither state by key nor timers."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called when a timer of the key is due. Broadcast state can only be read here."""
        return None
