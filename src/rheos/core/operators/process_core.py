"""The interface between operators with a keyed function and the code that calls the function. Each form
of function has its own core.

An operator decides when rows and timers reach the function. The core calls the function, and returns
its output in batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.due_rows import Due
from rheos.core.operators.records import HiddenColumns, call_user
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.protocol.elements import Batch
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.keys import KeyCodec
from rheos.core.state.timers import TimerService


class ProcessCore(ABC):
    """Calls one function for one subtask."""

    ctx: OperatorContext
    function: Any
    """The subtask's own copy of the function."""
    codec: KeyCodec
    codecs: Sequence[KeyCodec]
    """The codec of each keyed port."""
    backend: KeyedStateBackend
    timers: TimerService
    watermark_ms: int
    """Watermark at the time of the calls. The operator sets it."""
    _open = False

    def open(self, restored: Restored) -> None:
        self.backend.restore(restored)
        self._call_without_key(opening(self.function, RuntimeContext(self.ctx)))
        self._open = True

    def close(self) -> None:
        try:
            self.close_function()
        finally:
            self.backend.close()

    def close_function(self) -> None:
        """Close the function if it is open, and raise the errors of its `close`."""
        if self._open:
            self._open = False
            self._call_without_key(self.function.close)

    def _call_without_key(self, method: Callable[[], object]) -> None:
        call_user(self.ctx, method)

    @abstractmethod
    def next_keys(self) -> None:
        """Forget all keys, and reset the watermark."""

    @abstractmethod
    def deliver_batch(self, port: int, batch: Batch, hidden: HiddenColumns) -> Iterator[Out]:
        """Call the function for the rows of a keyed port. Before the call for a row, fire the
        event-time timers up to the stream's watermark at that row."""

    def deliver_merged(self, due: Sequence[Due]) -> Iterator[Out]:
        """Call the function for rows of several keyed ports, in their common order."""
        raise AssertionError("only functions of two streams take rows of several ports")

    @abstractmethod
    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        """Fire all timers that are due at or before `until_ms`, including those registered
        meanwhile."""

    @abstractmethod
    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        """Fire due processing-time timers, like `fire_event_timers`."""
