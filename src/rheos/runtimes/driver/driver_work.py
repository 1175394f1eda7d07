"""The driver's work at sinks, concurrent with the master's steps: the recovery commit, publications,
and the end. A server that does not answer blocks neither a step nor a command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rheos.core.checkpoint.events import Event
from rheos.core.errors import RheosError, unexpected
from rheos.core.protocol.ports import Completion, IoExecutor

Answer = Callable[[RheosError | None], Event]
"""Makes the event that reports an outcome: None for success, or the error."""


class _Pending(NamedTuple):
    completion: Completion[None]
    answer: Answer


class DriverWork:
    """The pieces of work that have not returned."""

    def __init__(self, io: IoExecutor) -> None:
        self._io = io
        self._pending: list[_Pending] = []

    @property
    def busy(self) -> bool:
        """Whether any work is under way."""
        return bool(self._pending)

    def begin(self, work: Callable[[], None], answer: Answer) -> None:
        """Run `work` on the I/O executor. `poll` returns its answer once it has ended."""
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
