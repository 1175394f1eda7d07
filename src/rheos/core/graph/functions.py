"""Base classes for users' functions, and the contexts that are passed to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Protocol


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
        """Prepare the function. Called once in each subtask, before any record: `def open(self, ctx:
        rh.RuntimeContext)`, or `def open(self)`."""

    def __call__(self, record: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Release resources. Called once at the end, also if the attempt fails."""


class AsyncFunction:
    """A function for `map_async` with a client that is opened once in each subtask.

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
        """Prepare the function. Called once in each subtask, before any record: `def open(self, ctx:
        rh.RuntimeContext)`, or `def open(self)`; either may be `async`."""

    async def invoke(self, record: Any) -> Any:
        """Called for each record; many calls are under way at a time."""
        raise NotImplementedError

    def close(self) -> Any:
        """Release resources. Called once at the end, also if the attempt fails."""


class Timers(Protocol):
    """Timers of the current key. Registering the same timer twice keeps one."""

    def register(self, timestamp_ms: int) -> None:
        """Call `on_timer` once the watermark has passed `timestamp_ms` (event time)."""
        ...

    def delete(self, timestamp_ms: int) -> None: ...

    def register_processing(self, timestamp_ms: int) -> None:
        """Call `on_timer` once the wall clock has passed `timestamp_ms`."""
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
        """Return the watermark before the record, in ms since the epoch; for a timer, the watermark
        that made it due."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...

    def output(self, tag: str, record: Any) -> None:
        """Emit a record to a declared side output."""
        ...


class KeyedProcessFunction:
    """A function over the records of one key at a time, with declared state and timers.

    State is declared as class attributes (`ValueState`, `ListState`, `MapState`). Output records are
    yielded (or returned in an iterable); their type is the annotation of `process_element`, such as
    `Iterator[Alert]`, or the `returns=` of `process`. Side outputs are declared in `side_outputs` as
    tag to dataclass.
    """

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. Called once in each subtask, before any record: `def open(self, ctx:
        rh.RuntimeContext)`, or `def open(self)`."""

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record. Called for every record."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Handle a timer of the key that is due."""
        return None

    def close(self) -> None:
        """Release resources. Called once, at the end."""


class TimeWindow(NamedTuple):
    """A window: start_ms is inclusive, end_ms exclusive."""

    start_ms: int
    end_ms: int


class WindowContext(Protocol):
    """The context of `WindowFunction.process`."""

    key: Any
    """Value of the key, or a tuple of values if there are several key columns."""
    window: TimeWindow


class CoGroupFunction:
    """A function over all records of two streams with the same key and window. The records of each
    stream are sorted by event time."""

    def co_group(self, left: list[Any], right: list[Any], ctx: WindowContext) -> Iterable[Any]:
        """Return records of the output type for one key and window. Called once for each that has a
        record of either stream; one of the lists may be empty. The event time of each output record is
        the end of the window."""
        raise NotImplementedError


class WindowFunction:
    """A function over all records of a key and window, sorted by event time."""

    def process(self, records: list[Any], ctx: WindowContext) -> Iterable[Any]:
        """Return records of the output type. Each has the last timestamp of the window as its event
        time.

        Called when a window fires, with at least one record; after an aggregate, with its result as the
        only record.
        """
        raise NotImplementedError
