"""The classes users derive their keyed functions from, and the contexts these are handed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Protocol


class Timers(Protocol):
    """The timers of the current key. Registering one twice keeps one."""

    def register(self, timestamp_ms: int) -> None:
        """Calls `on_timer` once the watermark has passed `timestamp_ms` (event time)."""
        ...

    def delete(self, timestamp_ms: int) -> None: ...

    def register_processing(self, timestamp_ms: int) -> None:
        """Calls `on_timer` once the wall clock has passed `timestamp_ms`."""
        ...

    def delete_processing(self, timestamp_ms: int) -> None: ...


class KeyedContext(Protocol):
    """What `process_element` and `on_timer` are handed."""

    key: Any
    """The current key: a value, or a tuple where the stream is keyed by several columns."""

    timestamp: int
    """The event timestamp of the record or of the timer, in ms since the epoch. None for a record where
    the stream has no event time."""

    timers: Timers

    @property
    def watermark(self) -> int:
        """How far event time has come before the record, in ms since the epoch; for a timer, when it
        was found due."""
        ...

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...

    def output(self, tag: str, record: Any) -> None:
        """Emits a record to a declared side output."""
        ...


class KeyedProcessFunction:
    """A function over the records of one key at a time, with declared state and timers.

    State is declared as class attributes (`ValueState`, `ListState`, `MapState`). Output records are
    yielded (or returned in an iterable); their type is the annotation of `process_element`, such as
    `Iterator[Alert]`, or the `returns=` of `process`. Side outputs are declared in `side_outputs` as
    tag to dataclass.
    """

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self) -> None:
        """Called once on each worker, before any record."""

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for every record."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called when a timer of the key is due."""
        return None

    def close(self) -> None:
        """Called once, at the end."""


class TimeWindow(NamedTuple):
    """A window [start_ms, end_ms)."""

    start_ms: int
    end_ms: int


class WindowContext(Protocol):
    """What `process` of a WindowFunction is handed."""

    key: Any
    window: TimeWindow


class WindowFunction:
    """A function over all records of a key and window, sorted by event time."""

    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        raise NotImplementedError
