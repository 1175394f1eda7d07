"""Calls into client libraries, each under a time limit of our own.

A client library may not keep its own limits: a call that should return after 30 s can block for ten
minutes. So such a call runs in a thread next to its caller. If the call makes no progress within the
limit, the caller abandons it: it gets an `AbandonedCallError` and continues with a new client, and the
thread ends when the library returns at last. The number of abandoned calls in a process is bounded.

```python
calls = BoundedCalls()
assert calls.run("the answer is computed", 10.0, lambda progressed: 6 * 7) == 42
calls.close()
```
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from rheos.connectors.calls.outside_calls import thread
from rheos.core.errors import UnavailableError

T = TypeVar("T")
Progressed: TypeAlias = Callable[[], None]
"""Function that restarts the time limit of the call to which it is passed. It raises AbandonedError if
that call was abandoned."""

MOST_ABANDONED = 32
"""Maximum number of abandoned calls in a process. Each keeps a thread; at the limit, no call starts."""

_HINT = (
    "check that the server is up, reachable and not overloaded. Rheos abandons the call and "
    "repeats it; before it writes again, it looks up what the abandoned call has written"
)


class AbandonedError(Exception):
    """Error that ends the work of an abandoned call, in its thread."""


class AbandonedCallError(UnavailableError):
    """Error for the caller of an abandoned call. The objects that the call uses belong to the call's
    thread from then on."""


class CallsUnderWay:
    """Calls of a process that have not returned: what each waits for, and since when. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[_Call] = set()

    def longest_wait(self) -> tuple[str, float] | None:
        """Return the purpose of the call that has waited longest for progress, and its waiting time in
        seconds; None if no call waits."""
        with self._lock:
            waits = [
                (monotonic() - call.progress_s, call.doing)
                for call in self._calls
                if not call.abandoned and monotonic() - call.progress_s >= call.quiet_s
            ]
        if not waits:
            return None
        since_s, doing = max(waits)
        return doing, since_s

    def abandoned(self) -> int:
        """Return the number of abandoned calls whose library has not returned."""
        with self._lock:
            return sum(call.abandoned for call in self._calls)

    def begin(self, call: _Call) -> None:
        """Register a call. Raises UnavailableError if too many are abandoned."""
        with self._lock:
            if sum(each.abandoned for each in self._calls) >= MOST_ABANDONED:
                raise UnavailableError(
                    f"{call.doing}: {MOST_ABANDONED} calls of this process were abandoned, and "
                    "the client library has not returned from any of them",
                    hint=_HINT,
                )
            self._calls.add(call)

    def end(self, call: _Call) -> None:
        """Forget a call whose library has returned."""
        with self._lock:
            self._calls.discard(call)

    @contextlib.contextmanager
    def watched(self, doing: str, quiet_s: float = 0.0) -> Iterator[None]:
        """Register what the current thread does within the context, without a time limit. It is for
        work that cannot be abandoned, or that has limits of its own.

        Args:
            doing: what the work is for, for people.
            quiet_s: seconds that the work may take before it counts as waiting.
        """
        call = _Call(doing, lambda progressed: None, lambda: None, quiet_s)
        with self._lock:
            self._calls.add(call)
        try:
            yield
        finally:
            self.end(call)


UNDER_WAY = CallsUnderWay()
"""All calls of this process that have not returned."""


class BoundedCalls:
    """Makes the blocking calls of one client, one at a time, for one calling thread at a time."""

    def __init__(self, under_way: CallsUnderWay = UNDER_WAY) -> None:
        self._under_way = under_way
        self._next: SimpleQueue[_Call | None] | None = None
        """Queue of the current thread's calls; None before the first call and after an abandoned
        one."""

    def run(
        self,
        doing: str,
        limit_s: float,
        work: Callable[[Progressed], T],
        release: Callable[[], object] = lambda: None,
        alive: Callable[[], bool] = lambda: False,
        quiet_s: float = 0.0,
    ) -> T:
        """Return what `work` returns, or raise what it raises.

        Args:
            doing: what the call is for, for people: "the topic 'a' cannot be written".
            limit_s: how long the call may take without progress, in seconds.
            work: makes the call, in another thread. It is passed the function that restarts the limit.
                It must not change what others see: an abandoned call may return at any later time.
            release: releases what an abandoned call holds. Called in its thread, once the library has
                returned. Not called if the call ends within its limit.
            alive: whether the server answers others, and so may be working on the call. Asked when the
                limit has passed: if it returns True, the limit begins again. It must be bounded itself.
            quiet_s: seconds that the call may take before it counts as waiting for a server.

        Raises:
            AbandonedCallError: the call made no progress for `limit_s`.
            UnavailableError: too many calls were abandoned before and have not returned.
        """
        call = _Call(doing, work, release, quiet_s)
        self._under_way.begin(call)
        if self._next is None:
            self._next = SimpleQueue()
            # The thread also ends if nobody calls `close`.
            weakref.finalize(self, self._next.put, None)
            thread(partial(_make_calls, self._next, self._under_way), "rheos-client-call").start()
        self._next.put(call)
        while not call.ended.wait(max(call.progress_s + limit_s - monotonic(), 0.0)):
            if monotonic() < call.progress_s + limit_s:
                continue
            if alive():
                call.progress_s = monotonic()
            elif call.abandon():
                self._next = None
                raise AbandonedCallError(f"{doing}: no answer for {limit_s:g} s", hint=_HINT)
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def close(self) -> None:
        """End the idle thread. Callers may call it again."""
        calls, self._next = self._next, None
        if calls is not None:
            calls.put(None)


class ThreadCalls:
    """Makes blocking calls for any number of threads; each thread has its own `BoundedCalls`."""

    def __init__(self, under_way: CallsUnderWay = UNDER_WAY) -> None:
        self._under_way = under_way
        self._local = threading.local()

    def run(
        self,
        doing: str,
        limit_s: float,
        work: Callable[[Progressed], T],
        release: Callable[[], object] = lambda: None,
        alive: Callable[[], bool] = lambda: False,
    ) -> T:
        """Make a call as `BoundedCalls.run` does, for the current thread."""
        calls: BoundedCalls | None = getattr(self._local, "calls", None)
        if calls is None:
            calls = self._local.calls = BoundedCalls(self._under_way)
        return calls.run(doing, limit_s, work, release, alive)

    def __reduce__(self) -> tuple[type[ThreadCalls], tuple[()]]:
        return ThreadCalls, ()


class LoneCalls:
    """Makes blocking calls that must not overlap with an abandoned one: until that call has returned,
    further calls with the same key are refused."""

    def __init__(self, under_way: CallsUnderWay = UNDER_WAY) -> None:
        self._under_way = under_way
        self._lock = threading.Lock()
        self._busy: set[Hashable] = set()

    def run(
        self,
        key: Hashable,
        doing: str,
        limit_s: float,
        work: Callable[[Progressed], T],
        quiet_s: float = 0.0,
    ) -> T:
        """Make a call as `BoundedCalls.run` does.

        Args:
            key: identifies the calls of which one may be under way.
            doing: what the call is for, for people.
            limit_s: how long the call may take without progress, in seconds.
            work: makes the call, in another thread.
            quiet_s: as for `BoundedCalls.run`.

        Raises:
            AbandonedCallError: the call made no progress for `limit_s`, or an earlier call with the key
                has not returned.
        """
        with self._lock:
            if key in self._busy:
                raise AbandonedCallError(
                    f"{doing}: an earlier call was abandoned and has not returned",
                    hint="no other call is made in the meantime. When it returns, the call is repeated",
                )
            self._busy.add(key)
        calls = BoundedCalls(self._under_way)
        try:
            result = calls.run(doing, limit_s, work, lambda: self._ended(key), quiet_s=quiet_s)
        except AbandonedCallError:
            raise
        except BaseException:
            self._ended(key)
            raise
        finally:
            calls.close()
        self._ended(key)
        return result

    def _ended(self, key: Hashable) -> None:
        with self._lock:
            self._busy.discard(key)


class _Call:
    """One call, shared by its caller and the thread that makes it."""

    def __init__(
        self,
        doing: str,
        work: Callable[[Progressed], Any],
        release: Callable[[], object],
        quiet_s: float = 0.0,
    ) -> None:
        self.doing = doing
        self.quiet_s = quiet_s
        self.work = work
        self.release = release
        self.progress_s = monotonic()
        self.abandoned = False
        self.ended = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._lock = threading.Lock()

    def progressed(self) -> None:
        if self.abandoned:
            raise AbandonedError
        self.progress_s = monotonic()

    def abandon(self) -> bool:
        """Abandon the call. Returns False if it has ended."""
        with self._lock:
            self.abandoned = not self.ended.is_set()
            return self.abandoned

    def make(self) -> None:
        """Make the call, in its thread."""
        try:
            self.result = self.work(self.progressed)
        except BaseException as error:
            self.error = error
        with self._lock:
            self.ended.set()
        if self.abandoned:
            self.result = self.error = None
            with contextlib.suppress(Exception):
                self.release()


def _make_calls(calls: SimpleQueue[_Call | None], under_way: CallsUnderWay) -> None:
    while (call := calls.get()) is not None:
        call.make()
        under_way.end(call)
        if call.abandoned:
            return
        del call
