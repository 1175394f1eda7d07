"""The event loop of one asynchronous function: its start, its end, and how the operator watches it."""

from __future__ import annotations

from functools import partial

from rheos.core.errors import UnavailableError
from rheos.core.operators.async_calls import AsyncCalls, CallBatch, nothing
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.records import user_site
from rheos.core.operators.runtime_context import RuntimeContext
from rheos.core.protocol.ports import Completion, EventLoop

WATCH_US = 100_000
"""Interval in µs at which the event loop is checked."""


class FunctionLoop:
    """The calls of one subtask in their event loop. All methods are called in the mailbox."""

    def __init__(self, ctx: OperatorContext, calls: AsyncCalls, timeout_ms: int) -> None:
        """Create the loop, not running yet. `timeout_ms` is the time limit of a call."""
        self._ctx = ctx
        self._calls = calls
        self._timeout_ms = timeout_ms
        self._loop: EventLoop | None = None
        self._opened: Completion[None] | None = None
        self._ping: Completion[None] | None = None
        self._silent_us = 0
        """Time in µs for which the event loop has not answered the last ping, as far as observed."""
        self._watched_us = 0

    def open(self, runtime: RuntimeContext) -> None:
        """Start the event loop, and open the function in it."""
        self._loop = self._ctx.io.event_loop()
        self._opened = self._loop.submit(partial(self._calls.open, runtime))

    def submit(self, batch: CallBatch) -> Completion[None]:
        """Call the function for all rows of the batch. The completion raises the RheosError of the
        first call that fails."""
        assert self._loop is not None
        return self._loop.submit(partial(self._calls.run, batch))

    def watch(self) -> None:
        """Check the event loop, while answers are awaited. Raise the error of the function's `open`.
        Raise also if the function has blocked the event loop for as long as a call may take."""
        assert self._loop is not None
        if self._opened is not None and self._opened.done():
            self._opened.result()
            self._opened = None
        now_us = self._ctx.clock.monotonic_us()
        if self._ping is None or self._ping.done():
            self._ping, self._silent_us = self._loop.submit(nothing), 0
        else:
            # While the whole process is suspended, nothing checks the event loop.
            self._silent_us += min(now_us - self._watched_us, 2 * WATCH_US)
        self._watched_us = now_us
        if self._silent_us <= self._timeout_ms * 1000:
            return
        frames = self._loop.stack()
        raise UnavailableError(
            f"the function has blocked the event loop for {self._silent_us / 1000000.0:.3g} s",
            site=user_site(frames) or self._ctx.site,
            operator=self._ctx.name,
            hint="it blocks without await: use an asyncio client, or `await asyncio.to_thread(...)` "
            "for blocking calls",
        )

    def close(self) -> None:
        """Close the function, and wait a few seconds at most until that is done. Raise the RheosError
        of a function that fails."""
        if self._loop is None:
            return
        loop, self._loop = self._loop, None
        loop.close(self._calls.close)
        if self._calls.failure is not None:
            raise self._calls.failure
