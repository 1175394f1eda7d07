"""The driver's work at sinks and sources, which runs concurrently with the master's steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rheos.core.checkpoint.events import Event, ListSplits, SplitsListed, SplitsNotListed
from rheos.core.errors import RheosError, unexpected
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Completion, IoExecutor
from rheos.core.protocol.splits import Split
from rheos.runtimes.driver.sources_and_sinks import discovered

Answer = Callable[[RheosError | None], Event]
"""Function that creates the event with the outcome of work: from None for success, or from the
error."""


class _Pending(NamedTuple):
    completion: Completion[None]
    answer: Answer


class DriverWork:
    """The pieces of work that are running or whose result has not been polled."""

    def __init__(self, io: IoExecutor) -> None:
        self._io = io
        self._pending: list[_Pending] = []

    @property
    def busy(self) -> bool:
        """Whether any work is running or not yet polled."""
        return bool(self._pending)

    def begin(self, work: Callable[[], None], answer: Answer) -> None:
        """Run `work` on the I/O executor. Once it has ended, `poll` returns its answer."""
        self._pending.append(_Pending(self._io.submit(work), answer))

    def poll(self) -> list[Event]:
        """Return the answers of all work that has ended since the last call, the oldest first."""
        ended = [each for each in self._pending if each.completion.done()]
        self._pending = [each for each in self._pending if not each.completion.done()]
        return [each.answer(_outcome(each.completion)) for each in ended]


def _outcome(completion: Completion[None]) -> RheosError | None:
    try:
        completion.result()
    except RheosError as error:
        return error
    except Exception as error:
        return unexpected(error)
    return None


class BackgroundWrite:
    """At most one write of files at a time, on the I/O executor."""

    def __init__(self, io: IoExecutor) -> None:
        self._io = io
        self._running: Completion[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a write is running, or its end was not yet noticed."""
        return self._running is not None

    def begin(self, work: Callable[[], None]) -> None:
        self._running = self._io.submit(work)

    def has_ended(self, on_failure: Callable[[], None]) -> bool:
        """Return whether no write is running. Call `on_failure` once if the last one failed."""
        if self._running is None:
            return True
        if not self._running.done():
            return False
        ended, self._running = self._running, None
        try:
            ended.result()
        except (OSError, RheosError):
            on_failure()
        return True


class Listings:
    """The running listings, at most one per source. The executor has a thread for each, so a listing
    that hangs delays no other."""

    def __init__(self, plan: PhysicalPlan, io: IoExecutor) -> None:
        self._planned = {planned.id: planned for planned in plan.operators()}
        self._io = io
        self._under_way: dict[OperatorId, Completion[tuple[Split, ...]]] = {}

    def begin(self, action: ListSplits) -> None:
        assert action.operator not in self._under_way, "CP36: one listing at a time"
        planned = self._planned[action.operator]
        self._under_way[action.operator] = self._io.submit(partial(discovered, planned))

    def poll(self) -> list[Event]:
        """Return the results of the listings that have ended."""
        done = [id for id, completion in self._under_way.items() if completion.done()]
        return [self._outcome(id, self._under_way.pop(id)) for id in done]

    def _outcome(self, id: OperatorId, completion: Completion[tuple[Split, ...]]) -> Event:
        try:
            return SplitsListed(id, completion.result())
        except RheosError as error:
            return SplitsNotListed(id, error)
        except Exception as error:
            return SplitsNotListed(id, unexpected(error))
