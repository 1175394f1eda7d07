"""The function of `call_once` in its event loop: one call, and the answers of calls that were released
together."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.graph.functions import AsyncFunction
from rheos.core.operators.async_calls import CallBatch
from rheos.core.operators.runtime_context import RuntimeContext, opening
from rheos.core.state.keys import Key


@dataclass(frozen=True, slots=True, repr=False)
class OnceCall:
    """The record of one call; errors show the record."""

    record: Any
    in_doubt: bool

    def __repr__(self) -> str:
        return repr(self.record)


class OnceFunction(AsyncFunction):
    """The user's function, and the function that confirms calls in doubt."""

    def __init__(self, fn: Any, confirm: Callable[[Any], Any] | None) -> None:
        # One deep copy of both: if `confirm` is a method of `fn`, it stays a method of the copy.
        self._fn, self._confirm = copy.deepcopy((fn, confirm))
        self._call = self._fn.invoke if isinstance(self._fn, AsyncFunction) else self._fn

    def open(self, runtime: RuntimeContext) -> Any:
        return opening(self._fn, runtime)() if isinstance(self._fn, AsyncFunction) else None

    async def invoke(self, record: OnceCall) -> Any:
        if record.in_doubt and self._confirm is not None:
            answer = await self._confirm(record.record)
            if answer is not None:
                return answer
        return await self._call(record.record)

    def close(self) -> Any:
        return self._fn.close() if isinstance(self._fn, AsyncFunction) else None


class ReleasedCalls(CallBatch):
    """Calls that were released together. Each answer is passed on when it arrives."""

    def __init__(
        self,
        calls: Sequence[OnceCall],
        keys: Sequence[Key],
        arrived: deque[tuple[Key, Any]],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(calls)
        self._keys = keys
        self._arrived = arrived
        self._wake = wake

    def answer(self, at: int, result: Any) -> None:
        self._arrived.append((self._keys[at], result))
        super().answer(at, result)
        self._wake()
