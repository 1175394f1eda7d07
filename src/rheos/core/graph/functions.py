"""Base classes for users' functions, and the contexts that are passed to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Protocol

_BASES = tuple(
    f"rheos.core.graph.{module}"
    for module in ("functions", "connected_functions", "batch_functions", "window_functions")
)
"""Modules of the classes that users' functions derive from."""


def defines(function: object, method: str) -> bool:
    """Return whether a function has its own version of an optional method of its base class."""
    return getattr(getattr(type(function), method), "__module__", "") not in _BASES


class RichFunction:
    """A function for `map`, `flat_map` and `map_batches` that is opened in each subtask before its
    first row, and closed after the last. It may hold a client, a model or a counter.

    ```python
    class Score(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            self.model = load(ctx.file("model"))

        def __call__(self, text: Text) -> Scored:
            return Scored(text.id, self.model.predict(text.text))

    texts.map(Score())
    ```

    Each subtask has its own copy. Its attributes are not state: they are lost at the end of an attempt.
    """

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. The subtask calls it once, before any record.

        Define it as `def open(self, ctx: rh.RuntimeContext)` or `def open(self)`.
        """

    def __call__(self, record: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Release what `open` has acquired. The subtask calls it once, at the end of each attempt."""


class AsyncFunction:
    """A function for `map_async` or `call_once` with a client that is opened once in each subtask.

    ```python
    class Ask(rh.AsyncFunction):
        async def open(self, ctx: rh.RuntimeContext) -> None:
            self.client = httpx.AsyncClient()

        async def invoke(self, visit: Visit) -> Enriched: ...

        async def close(self) -> None:
            await self.client.aclose()
    ```

    `open` and `close` may be plain methods, too. All three run in the event loop of the subtask.
    """

    def open(self, *args: Any, **kwargs: Any) -> Any:
        """Prepare the function. The subtask calls it once, before any record.

        Define it as `def open(self, ctx: rh.RuntimeContext)` or `def open(self)`; either may be
        `async`.

        Returns:
            None, or an awaitable that the subtask awaits.
        """

    async def invoke(self, record: Any) -> Any:
        """Compute the result of a record. The subtask calls it for each record, many at a time.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.

        Returns:
            A record of the output type.
        """
        raise NotImplementedError

    def close(self) -> Any:
        """Release what `open` has acquired. The subtask calls it once, at the end of each attempt.

        Returns:
            None, or an awaitable that the subtask awaits.
        """


class Timers(Protocol):
    """Timers of the current key. Registering the same timer twice keeps one."""

    def register(self, timestamp_ms: int) -> None:
        """Request a call of `on_timer` once the watermark has passed `timestamp_ms` (event time)."""
        ...

    def delete(self, timestamp_ms: int) -> None: ...

    def register_processing(self, timestamp_ms: int) -> None:
        """Request a call of `on_timer` once the wall clock has passed `timestamp_ms`."""
        ...

    def delete_processing(self, timestamp_ms: int) -> None: ...


class KeyedContext(Protocol):
    """The context of `process_element` and `on_timer`."""

    key: Any
    """The current key: a value, or a tuple if the stream is keyed by several columns."""

    timestamp: int
    """Event timestamp of the record or timer, in ms since the epoch; None for a record of a stream
    without event time."""

    timers: Timers

    @property
    def watermark(self) -> int:
        """Return the watermark before the record, in ms since the epoch. In `on_timer`, it is the
        watermark that made the timer due."""
        ...

    @property
    def is_late(self) -> bool:
        """Return whether the watermark had passed the record's timestamp before the record. False in
        `on_timer`, and without event time."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...

    def output(self, tag: str, record: Any) -> None:
        """Emit a record to a declared side output.

        Args:
            tag: The side output: a key of the function's `side_outputs`.
            record: An instance of its dataclass.
        """
        ...


class KeyedProcessFunction:
    """A function over the records of one key at a time, with declared state and timers.

    State is declared as class attributes (`ValueState`, `ListState`, `MapState`). Output records are
    yielded (or returned in an iterable); their type is the annotation of `process_element`, such as
    `Iterator[Alert]`, or the `returns=` of `process`. Side outputs are declared in `side_outputs` as
    tag to dataclass.

    ```python
    class Count(rh.KeyedProcessFunction):
        n = rh.ValueState(int, default=0)

        def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Counted]:
            self.n.value += 1
            yield Counted(event.user, self.n.value)

    events.key_by("user").process(Count())
    ```
    """

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. The subtask calls it once, before any record.

        Define it as `def open(self, ctx: rh.RuntimeContext)` or `def open(self)`.
        """

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: key, time, timers and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a timer of the key that is due.

        Args:
            timestamp: The time that the timer was registered for, in ms since the epoch.
            ctx: The context: key, time, timers and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        return None

    def close(self) -> None:
        """Release what `open` has acquired. The subtask calls it once, at the end."""


class TimeWindow(NamedTuple):
    """A window from `start_ms` (inclusive) to `end_ms` (exclusive)."""

    start_ms: int
    end_ms: int


class WindowContext(Protocol):
    """The context of `WindowFunction.process`."""

    key: Any
    """Value of the key, or a tuple of values if there are several key columns."""
    window: TimeWindow


class CoGroupFunction:
    """A function of all records of two streams with the same key in the same window.

    The records of each stream are sorted by event time.

    ```python
    class Unpaid(rh.CoGroupFunction):
        def co_group(self, left: list[Order], right: list[Payment], ctx) -> Iterator[Alert]:
            if not right:
                yield Alert(ctx.key)

    orders.key_by("id").co_group(
        payments.key_by("order_id"), window=rh.Tumbling("1h"), fn=Unpaid())
    ```
    """

    def co_group(self, left: list[Any], right: list[Any], ctx: WindowContext) -> Iterable[Any]:
        """Compute records of all records of a key and window. Rheos calls it if either stream has a
        record.

        Args:
            left: The records of the first stream, sorted by event time; may be empty.
            right: The records of the second stream, sorted by event time; may be empty.
            ctx: The context: key and window.

        Returns:
            Records of the output type. Each has the last time of the window as its event time.
        """
        raise NotImplementedError


class WindowFunction:
    """A function of all records of a key and window, sorted by event time.

    ```python
    class Busiest(rh.WindowFunction):
        def process(self, records: list[Event], ctx: rh.WindowContext) -> Iterator[Counted]:
            yield Counted(ctx.key, len(records))

    events.key_by("user").window(rh.Tumbling("1h")).process(Busiest())
    ```
    """

    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        """Compute records of all records of a key and window. Rheos calls it when the window fires.

        Args:
            records: The records, at least one. After an aggregate: its result, as the only record.
            ctx: The context: key and window.

        Returns:
            Records of the output type. Each has the last time of the window as its event time.
        """
        raise NotImplementedError
