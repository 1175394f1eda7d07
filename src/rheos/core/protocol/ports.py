"""The ports of the core: clock, store, I/O executor. The runtimes provide real and simulated ones.

Nothing in `task`, `operators`, `state` or `checkpoint` accesses a clock, a disk or a socket directly.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from traceback import FrameSummary
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import ChannelId

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clock(Protocol):
    """A clock: the only source of time for the core."""

    def now_ms(self) -> int:
        """Return the wall-clock time in ms since the epoch, for processing time and reports; may
        jump."""
        ...

    def now_ns(self) -> int:
        """Return the wall-clock time in ns since the epoch, for latency marks."""
        ...

    def monotonic_us(self) -> int:
        """Return microseconds since an arbitrary start, for timeouts and pacing. Never decreases."""
        ...


class ThreadTime(NamedTuple):
    """Processor time of a thread since it began."""

    ran_us: int
    queued_us: int
    """Time for which the thread was runnable while other threads ran."""


ThreadTimes = Callable[[], ThreadTime | None]
"""Reads the processor time of the current thread; None if the system does not report it."""


Content: TypeAlias = bytes | memoryview
"""Content of a file. A memoryview is not copied on its way to a store, and a store does not keep it."""


class Store(Protocol):
    """Durable files under one root. Paths are relative, with forward slashes."""

    def put(self, path: str, data: Content) -> None:
        """Write a whole file atomically, replacing any other: readers see all of it or nothing."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file unless one exists; return whether the file now has this content. Atomic
        across processes.

        If a file with equal content exists, it counts as written by this call: the answer to an earlier
        try of the same write may have been lost. So writers that compete put their names into the
        content."""
        ...

    def get(self, path: str) -> bytes:
        """Return the content of the file. Raise FileNotFoundError if it does not exist."""
        ...

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        """Return the files below the folder `prefix` that are not yet visible to readers and were not
        written to for `idle_s`. Their writers are still working, or were killed. A working writer fails
        if its file is deleted."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the paths of all files below the folder `prefix`, sorted. There may be none."""
        ...

    def delete(self, path: str) -> None:
        """Delete the file; do nothing if it does not exist."""
        ...


class Completion(Protocol[T_co]):
    """The result of work on the I/O executor. The mailbox polls it, and never waits for it."""

    def done(self) -> bool:
        """Return whether the work has ended."""
        ...

    def result(self) -> T_co:
        """Return the value of the work, or raise its error. Call it only after `done` returned True."""
        ...


class IoExecutor(Protocol):
    """An executor of blocking work outside the mailbox, bounded. A completion wakes the mailbox."""

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        """Run blocking work in another thread.

        Args:
            work: A function without arguments.

        Returns:
            The result, to be polled.
        """
        ...

    def wake(self) -> None:
        """Wake the subtask's mailbox, as a completion does. Any thread may call it."""
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

    Each batch costs a credit. The receiver grants some credits to each channel, and returns one after
    it has *processed* a batch. Marks need no credit, but never overtake the batches before them."""

    def credits(self, channel: ChannelId) -> int:
        """Return the number of batches that may be sent on the channel now."""
        ...

    def send(self, channel: ChannelId, batch: Batch) -> None:
        """Send a batch. The caller has checked that a credit is available."""
        ...

    def send_mark(self, channel: ChannelId, mark: Mark) -> None: ...

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        """Return the elements that have arrived, FIFO per channel. Raise TransportError on a gap, or if
        a peer sends an invalid frame. Frames of unauthenticated peers are dropped."""
        ...

    def strangers(self) -> int:
        """Return the number of dropped frames and connections of unauthenticated peers so far."""
        ...

    def release(self, channel: ChannelId) -> None:
        """Return the credit for one processed batch of the channel to its sender."""
        ...


class EventLoop(Protocol):
    """An asyncio event loop for one operator. All its coroutines run in one thread outside the mailbox,
    or in virtual time. Its methods are called in the mailbox."""

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Completion[T]:
        """Start the coroutine that `work` returns. Its completion wakes the mailbox."""
        ...

    def stack(self) -> list[FrameSummary]:
        """Return the current stack of its thread, the innermost call last; empty if it is unknown."""
        ...

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel all running coroutines, run `last`, and wait for a few seconds at most."""
        ...


class TaskIo(IoExecutor, Protocol):
    """The I/O of a task outside its mailbox."""

    def aside(self, work: Callable[[], T]) -> Completion[T]:
        """Run long work in a thread of its own. Nothing waits for it, and the process may end before
        it."""
        ...

    def event_loop(self) -> EventLoop:
        """Return a new event loop; the caller must close it."""
        ...
