"""Concurrent calls of an `async def` function. This code runs in the event loop, in one thread.

    rows ─> queue ─> one of `capacity` workers: call ─answered──> the row's place among the results
                                                 │ ^
                                            failed │ └── back-off, per `retry`; then the error
                                                 └── not answered in time: the fallback, or the error

A worker is an asyncio task that processes one row after the other. If a call is not answered in time,
its worker is cancelled and abandoned, and another worker replaces it. A call that never ends blocks no
other row.
"""

from __future__ import annotations

import asyncio
import inspect
import linecache
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from traceback import FrameSummary
from typing import Any

from rheos.core.connectors.backoff import Backoff
from rheos.core.connectors.retry import Retry
from rheos.core.errors import RheosError, UnavailableError
from rheos.core.graph.functions import AsyncFunction
from rheos.core.operators.contract import OperatorContext
from rheos.core.operators.records import UserRaised, user_error, user_site
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.safe_strings import is_error, named_error, shown, traceback_of

MISSING: Any = object()
"""Marker for a missing result."""

_OPENS_WITHIN_S = 60.0


class CallBatch:
    """Rows of one batch for which the function is called, and their results."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self.results: list[Any] = [MISSING] * len(rows)
        """Results by row. Written in the loop's thread, and read in any thread."""
        self.next = 0
        """Index of the first row whose call has not started."""
        self.left = len(rows)
        self.done: asyncio.Future[None] | None = None
        self.failed = False

    def answer(self, at: int, result: Any) -> None:
        self.results[at] = result
        self.left -= 1
        if not self.left and self.done is not None and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: RheosError) -> None:
        self.failed = True
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)


class _Worker:
    __slots__ = ("abandoned", "at", "batch", "call", "since_s", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.batch: CallBatch | None = None
        self.at = 0
        self.call: Any = None
        """Awaitable that the function has returned."""
        self.since_s = 0.0
        self.abandoned = False


class AsyncCalls:
    """Runs the calls of one subtask in a fixed number of workers."""

    def __init__(
        self,
        ctx: OperatorContext,
        fn: Any,
        *,
        capacity: int,
        timeout_ms: int,
        retry: Retry | None,
        on_timeout: Callable[[Any], Any] | None,
    ) -> None:
        self._ctx = ctx
        self._fn = fn
        self._invoke: Callable[[Any], Any] = fn.invoke if isinstance(fn, AsyncFunction) else fn
        self._capacity = capacity
        self._timeout_s = timeout_ms / 1000
        self._retry = retry
        self._on_timeout = on_timeout
        self._queue: deque[CallBatch] = deque()
        """Batches with rows whose calls have not started."""
        self._workers = 0
        self._started: dict[_Worker, None] = {}
        """Workers that wait for an answer, oldest call first."""
        self._stuck: set[asyncio.Task[None]] = set()
        """Abandoned tasks that have not ended."""
        self._sweep: asyncio.TimerHandle | None = None
        self._closing = False
        self.failure: RheosError | None = None
        """Error of closing the function."""
        self._open = asyncio.Event()

    async def open(self, runtime: RuntimeContext) -> None:
        """Open the function. Raise RheosError if that fails."""
        if not isinstance(self._fn, AsyncFunction):
            self._open.set()
            return
        try:
            async with asyncio.timeout(_OPENS_WITHIN_S):
                given = opening(self._fn, runtime)()
                if inspect.isawaitable(given):
                    await given
        except TimeoutError as error:
            raise UnavailableError(
                f"open() of the function did not end within {_OPENS_WITHIN_S:.0f} s",
                site=self._ctx.site,
                operator=self._ctx.name,
            ) from error
        except UserRaised as error:
            raise user_error(self._ctx, error) from error
        self._open.set()

    async def close(self) -> None:
        """Close the function. An error that it raises becomes `failure`."""
        self._closing = True
        if not isinstance(self._fn, AsyncFunction):
            return
        try:
            given = self._fn.close()
            if inspect.isawaitable(given):
                await given
        except UserRaised as error:
            self.failure = user_error(self._ctx, error)

    async def run(self, batch: CallBatch) -> None:
        """Call the function for all rows. Raise the RheosError of the first call that fails."""
        if not batch.rows:
            return
        await self._open.wait()
        loop = asyncio.get_running_loop()
        batch.done = loop.create_future()
        self._queue.append(batch)
        for _ in range(min(self._capacity - self._workers, len(batch.rows))):
            self._begin_worker()
        await batch.done

    def _begin_worker(self) -> None:
        worker = _Worker()
        self._workers += 1
        worker.task = asyncio.get_running_loop().create_task(self._work(worker))

    async def _work(self, worker: _Worker) -> None:
        clock = asyncio.get_running_loop().time
        queue, started, invoke, retry = self._queue, self._started, self._invoke, self._retry
        # Every record takes this path, so it does nothing that is not needed.
        while queue:
            batch = queue[0]
            at = batch.next
            batch.next = at + 1
            if at + 1 == len(batch.rows) or batch.failed:
                queue.popleft()
            if batch.failed:
                continue
            worker.batch, worker.at, worker.since_s = batch, at, clock()
            started[worker] = None
            if self._sweep is None:
                self._sweep_after(self._timeout_s)
            row = batch.rows[at]
            try:
                if retry is None:
                    worker.call = call = invoke(row)
                    result = await call
                else:
                    result = await self._tried(worker, row, retry)
            except asyncio.CancelledError as error:
                if worker.abandoned or self._closing:
                    return
                batch.fail(self._raised(error, row))
            except (GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                # Also catches errors that are no Exception, such as a library's panic. If a worker
                # ended silently, its call would later be reported as not answered.
                if worker.abandoned:
                    return
                batch.fail(self._raised(error, row))
            else:
                if worker.abandoned:
                    return
                batch.answer(at, result)
            worker.call = None
            del started[worker]
        self._workers -= 1

    async def _tried(self, worker: _Worker, row: Any, retry: Retry) -> Any:
        clock = asyncio.get_running_loop().time
        back_off = Backoff(
            int(self._timeout_s * 1e6), first_us=retry.first_wait_us, longest_us=retry.longest_wait_us
        )
        tries = 0
        while True:
            tries += 1
            try:
                worker.call = call = self._invoke(row)
                return await call
            except retry.on as error:
                wait_us = back_off.failed(int(clock() * 1e6))
                if wait_us is None or tries > retry.times:
                    located = user_error(self._ctx, error, record=row)
                    raise UnavailableError(
                        f"the call has failed {tries} times: {located.what}",
                        site=located.site,
                        operator=self._ctx.name,
                        record=shown(row),
                        hint="check that the service responds; retries= sets the number of retries; "
                        "the job is restarted by its restart strategy",
                        detail=located.detail,
                    ) from error
                self._ctx.count("retries")
                await asyncio.sleep(wait_us / 1e6)

    def _raised(self, error: BaseException, row: Any) -> RheosError:
        if is_error(error, UnavailableError) and error.record is not None:
            return error
        if is_error(error, Exception) or is_error(error, SystemExit):
            return user_error(self._ctx, error, record=row)
        # A panic; or code inside the call cancelled it, although nobody requested that.
        replaced = RuntimeError(named_error(error)).with_traceback(traceback_of(error))
        return user_error(self._ctx, replaced, record=row)

    # --- calls that are not answered in time ------------------------------------------------------

    def _sweep_after(self, wait_s: float) -> None:
        self._sweep = asyncio.get_running_loop().call_later(wait_s, self._sweep_now)

    def _sweep_now(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._sweep = None
        while self._started:
            worker = next(iter(self._started))
            left_s = worker.since_s + self._timeout_s - now_s
            if left_s > 1e-6:
                self._sweep_after(left_s)
                return
            self._abandon(worker)

    def _abandon(self, worker: _Worker) -> None:
        batch, at = worker.batch, worker.at
        assert batch is not None
        assert worker.task is not None
        del self._started[worker]
        frames = _waiting_at(worker.call)
        worker.abandoned = True
        worker.task.cancel()
        self._stuck.add(worker.task)
        worker.task.add_done_callback(self._stuck.discard)
        self._workers -= 1
        self._ctx.count("timeouts")
        row = batch.rows[at]
        if self._on_timeout is None or len(self._stuck) > self._capacity:
            batch.fail(self._timed_out(row, frames))
        else:
            try:
                batch.answer(at, self._on_timeout(row))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                batch.fail(self._raised(error, row))
        if self._queue:
            self._begin_worker()

    def _timed_out(self, row: Any, frames: list[FrameSummary]) -> RheosError:
        what = f"a call was not answered within {self._timeout_s:g} s"
        hint = (
            "check that the service responds; timeout= limits a call including its retries; "
            "on_timeout= returns a result instead"
        )
        if self._on_timeout is not None:
            what = (
                f"{len(self._stuck)} calls that exceeded their timeout are still running, although "
                "cancelled"
            )
            hint = "the function must not suppress asyncio.CancelledError"
        return UnavailableError(
            what,
            site=user_site(frames) or self._ctx.site,
            operator=self._ctx.name,
            record=shown(row),
            hint=hint,
        )


def _waiting_at(call: Any) -> list[FrameSummary]:
    """Return the stack of a waiting coroutine, innermost call last."""
    frames: list[FrameSummary] = []
    while call is not None:
        frame = getattr(call, "cr_frame", None) or getattr(call, "gi_frame", None)
        if frame is None:
            break
        name, line = frame.f_code.co_filename, frame.f_lineno
        frames.append(
            FrameSummary(name, line, frame.f_code.co_name, line=linecache.getline(name, line))
        )
        call = getattr(call, "cr_await", None) or getattr(call, "gi_yieldfrom", None)
    return frames


def nothing() -> Coroutine[Any, Any, None]:
    """Return a coroutine that ends at once, to probe whether the event loop runs."""
    return _do_nothing()


async def _do_nothing() -> None:
    return None
