"""Base classes of functions over two streams and over streams without a key, and their contexts.

The functions open, close and declare their outputs like a KeyedProcessFunction.
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
    def is_late(self) -> bool:
        """Return whether the watermark had passed the record's timestamp before the record. False
        without event time."""
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


class RunningFunction:
    """Base class of the functions of connected streams."""

    side_outputs: ClassVar[dict[str, type]] = {}

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. The subtask calls it once, before any record.

        Define it as `def open(self, ctx: rh.RuntimeContext)` or `def open(self)`.
        """

    def close(self) -> None:
        """Release what `open` has acquired. The subtask calls it once, at the end."""


class ProcessFunction(RunningFunction):
    """A function of the records of a stream without a key, with side outputs and operator state
    (`OperatorListState`, `OperatorUnionState`).

    ```python
    class Parse(rh.ProcessFunction):
        side_outputs = {"bad": Line}

        def process_element(self, line: Line, ctx: rh.ProcessContext) -> Iterator[Word]:
            if line.text:
                yield Word(line.text.upper())
            else:
                ctx.output("bad", line)

    lines.process(Parse())
    ```
    """

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError


# --- two streams --------------------------------------------------------------------------------------


class CoMapFunction(RunningFunction):
    """A function that makes one record of each record of two connected streams.

    ```python
    class Users(rh.CoMapFunction):
        def map1(self, click: Click) -> Word:
            return Word(click.user)

        def map2(self, view: View) -> Word:
            return Word(view.user)

    clicks.connect(views).map(Users())
    ```
    """

    def map1(self, record: Any) -> Any:
        """Make a record of a record of the first stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.

        Returns:
            A record of the output type.
        """
        raise NotImplementedError

    def map2(self, record: Any) -> Any:
        """Make a record of a record of the second stream.

        Args:
            record: The record.

        Returns:
            A record of the output type.
        """
        raise NotImplementedError


class CoFlatMapFunction(RunningFunction):
    """A function that makes any number of records of each record of two connected streams.

    ```python
    class Names(rh.CoFlatMapFunction):
        def flat_map1(self, click: Click) -> Iterator[Word]:
            yield Word(click.user)

        def flat_map2(self, view: View) -> Iterator[Word]:
            yield from (Word(part) for part in view.page.split("/"))

    clicks.connect(views).flat_map(Names())
    ```
    """

    def flat_map1(self, record: Any) -> Iterable[Any] | None:
        """Make records of a record of the first stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def flat_map2(self, record: Any) -> Iterable[Any] | None:
        """Make records of a record of the second stream.

        Args:
            record: The record.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError


class CoProcessFunction(RunningFunction):
    """A function of two connected streams without a key, with side outputs and operator state.

    ```python
    class Merge(rh.CoProcessFunction):
        side_outputs = {"views": View}

        def process_element1(self, click: Click, ctx: rh.ProcessContext) -> Iterator[Alert]:
            yield Alert(click.user)

        def process_element2(self, view: View, ctx: rh.ProcessContext) -> None:
            ctx.output("views", view)

    clicks.connect(views).process(Merge())
    ```
    """

    def process_element1(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the first stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the second stream.

        Args:
            record: The record.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError


class KeyedCoProcessFunction(RunningFunction):
    """A function of two streams that are connected by key. Both share the key's state and timers.

    ```python
    class Match(rh.KeyedCoProcessFunction):
        order = rh.ValueState(Order)

        def process_element1(self, order: Order, ctx: rh.KeyedContext) -> None:
            self.order.value = order

        def process_element2(self, payment: Payment, ctx: rh.KeyedContext) -> Iterator[Alert]:
            if self.order.value is None:
                yield Alert(ctx.key)

    orders.key_by("id").connect(payments.key_by("order_id")).process(Match())
    ```
    """

    def process_element1(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the first stream.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: key, time, timers and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def process_element2(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the second stream.

        Args:
            record: The record.
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


# --- a broadcast stream -------------------------------------------------------------------------------


class BroadcastProcessFunction(RunningFunction):
    """A function of a stream, and of a broadcast stream whose records reach every subtask.

    Broadcast records are stored in `BroadcastState`.

    ```python
    class Flag(rh.BroadcastProcessFunction):
        rules = rh.BroadcastState(str, Rule)

        def process_element(self, event: Event, ctx: rh.ProcessContext) -> Iterator[Alert]:
            if event.user in self.rules:
                yield Alert(event.user)

        def process_broadcast_element(self, rule: Rule, ctx: rh.ProcessContext) -> None:
            self.rules[rule.name] = rule

    events.connect(rules.broadcast()).process(Flag())
    ```
    """

    def process_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the stream. Broadcast state is read-only here.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the broadcast stream. Every subtask calls it for every such record.

        It must change broadcast state in the same way in each subtask. The records that it emits are
        emitted by every subtask.

        Args:
            record: The record of the broadcast stream.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError


class KeyedBroadcastProcessFunction(RunningFunction):
    """A function of a keyed stream, with state and timers, and of a broadcast stream.

    ```python
    class Alarms(rh.KeyedBroadcastProcessFunction):
        rules = rh.BroadcastState(str, Rule)

        def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Alert]:
            if ctx.key in self.rules:
                yield Alert(event.user)

        def process_broadcast_element(self, rule: Rule, ctx: rh.ProcessContext) -> None:
            self.rules[rule.name] = rule

    events.key_by("user").connect(rules.broadcast()).process(Alarms())
    ```
    """

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a record of the keyed stream. Broadcast state is read-only here.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            ctx: The context: key, time, timers and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def process_broadcast_element(self, record: Any, ctx: ProcessContext) -> Iterable[Any] | None:
        """Process a record of the broadcast stream. Every subtask calls it for every such record.

        It has no key, so keyed state and timers are not available.

        Args:
            record: The record of the broadcast stream.
            ctx: The context: time and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterable[Any] | None:
        """Process a timer of the key that is due. Broadcast state is read-only here.

        Args:
            timestamp: The time that the timer was registered for, in ms since the epoch.
            ctx: The context: key, time, timers and side outputs.

        Returns:
            Records of the output type, or None for none. A generator may yield them.
        """
        return None
