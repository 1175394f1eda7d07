"""What a keyed function is called by: the seam behind its operators, one core for each form of it.

Operators say when rows and timers reach the function; a core calls it, and gives what it emits in
batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rheos.core.operators.contract import OperatorContext, Out, Restored
from rheos.core.operators.records import Hidden, call_user
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.protocol.elements import Batch
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.keys import KeyCodec
from rheos.core.state.timers import TimerService


class ProcessCore(ABC):
    """Calls one function for one subtask."""

    ctx: OperatorContext
    function: Any
    """The subtask's own copy."""
    codec: KeyCodec
    codecs: Sequence[KeyCodec]
    """The codec of each keyed port."""
    backend: KeyedStateBackend
    timers: TimerService
    watermark_ms: int
    """The watermark that calls run at. The operator sets it."""
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
        """Raises what the function raises, once it was open."""
        if self._open:
            self._open = False
            self._call_without_key(self.function.close)

    def _call_without_key(self, method: Callable[[], object]) -> None:
        call_user(self.ctx, method)

    @abstractmethod
    def next_keys(self) -> None:
        """Forgets all keys; the watermark starts over."""

    @abstractmethod
    def deliver_batch(self, port: int, batch: Batch, hidden: Hidden) -> Iterator[Out]:
        """Call the function for the rows of a keyed port. Before the call for a row, the event-time
        timers up to the watermark that the stream had reached have fired."""

    @abstractmethod
    def fire_event_timers(self, until_ms: int) -> Iterator[Out]:
        """Fires what is due at or before `until_ms`, what these register included."""

    @abstractmethod
    def fire_processing_timers(self, until_ms: int) -> Iterator[Out]:
        """As above, by the wall clock."""
