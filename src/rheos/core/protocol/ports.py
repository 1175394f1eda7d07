"""The ports of the core: clock, store, I/O executor. The runtimes provide real and simulated ones.

Nothing in `task`, `operators`, `state` or `checkpoint` reads a clock, a disk or a socket by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from traceback import FrameSummary
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import ChannelId

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clock(Protocol):
    """The only source of time."""

    def now_ms(self) -> int:
        """Wall-clock time in ms since the epoch; may jump. For processing time and reports."""
        ...

    def now_ns(self) -> int:
        """Wall-clock time in ns since the epoch, for latency marks."""
        ...

    def monotonic_us(self) -> int:
        """Microseconds from an arbitrary start; never goes back. For timeouts and pacing."""
        ...


class ThreadTime(NamedTuple):
    """Processor time of a thread since it began."""

    ran_us: int
    queued_us: int
    """Time for which it was runnable while other threads ran."""


ThreadTimes = Callable[[], ThreadTime | None]
"""Reads that of the thread that works; None where the system does not say it."""


class Store(Protocol):
    """Durable files under one root. Paths are relative, with forward slashes."""

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file so that a reader sees all of it or nothing; replaces one."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file unless one exists; False where one does. Atomic over processes."""
        ...

    def get(self, path: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        ...

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        """Below the folder `prefix`, the files that no reader sees yet, not written to for `idle_s`:
        their writers are at work, or were killed. A writer that is at work fails when its file is
        deleted."""
        ...

    def list(self, prefix: str) -> list[str]:
        """The paths of all files below the folder `prefix`, sorted. May be empty."""
        ...

    def delete(self, path: str) -> None:
        """Delete the file; no error where it does not exist."""
        ...


class Completion(Protocol[T_co]):
    """The result of work handed to the I/O executor. Polled, never waited for."""

    def done(self) -> bool: ...

    def result(self) -> T_co:
        """The value, or raises what the work raised. Called only once `done()`."""
        ...


class IoExecutor(Protocol):
    """Runs blocking work outside the mailbox. It is bounded, and a completion wakes the mailbox."""

    def submit(self, work: Callable[[], T]) -> Completion[T]: ...

    def wake(self) -> None:
        """Wake the mailbox, as a completion does. For any thread."""
        ...


class Immediate(Generic[T]):
    """A completion that is already done."""

    def __init__(self, value: T) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def result(self) -> T:
        return self._value


class Transport(Protocol):
    """Moves elements between the subtasks of one attempt. Owned and used by the mailbox alone.

    Each batch costs a credit. The receiver grants a channel some credits, and returns one when the
    batch has been *processed*. Marks need no credit, but never overtake the batches before them."""

    def credits(self, channel: ChannelId) -> int:
        """Return the number of batches that may be sent on the channel now."""
        ...

    def send(self, channel: ChannelId, batch: Batch) -> None:
        """Send a batch; the caller has checked that there is credit."""
        ...

    def send_mark(self, channel: ChannelId, mark: Mark) -> None: ...

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        """Return the elements that have arrived, FIFO per channel. Raises TransportError on a gap, or
        if a peer sends an invalid frame. Frames of unauthenticated peers are dropped."""
        ...

    def strangers(self) -> int:
        """Return the number of dropped frames and connections of unauthenticated peers so far."""
        ...

    def release(self, channel: ChannelId) -> None:
        """The receiver has processed one batch of the channel: its credit returns to the sender."""
        ...


class EventLoop(Protocol):
    """An asyncio event loop for one operator. All its coroutines run in one thread outside the mailbox,
    or in virtual time. Called in the mailbox."""

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        """Start what `work` gives. Its completion wakes the mailbox."""
        ...

    def stack(self) -> list[FrameSummary]:
        """Return the current stack of its thread, the innermost call last; empty if it is unknown."""
        ...

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what is under way and runs `last`, waiting for a few seconds at the most."""
        ...


class TaskIo(IoExecutor, Protocol):
    """The I/O of a task outside its mailbox."""

    def event_loop(self) -> EventLoop:
        """A new one; who asks for it closes it."""
        ...
