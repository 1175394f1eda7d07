"""Window functions that are called outside of window operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rheos.core.graph.functions import TimeWindow, WindowFunction
from rheos.core.graph.window_functions import GLOBAL

_EPOCH = datetime.fromtimestamp(0, UTC)
_MS = timedelta(milliseconds=1)


@dataclass
class _RowWindowContext:
    """The `WindowContext` for the result of a window."""

    key: Any
    window: TimeWindow


@dataclass(frozen=True)
class RowWindowFunction:
    """A flat-map function that calls a window function with the row of a window's aggregates."""

    function: WindowFunction
    keys: Sequence[str]

    @property
    def __name__(self) -> str:
        return type(self.function).__name__

    def __call__(self, row: Any) -> Iterable[Any]:
        keys = tuple(getattr(row, key) for key in self.keys)
        window = GLOBAL
        start, end = getattr(row, "window_start", None), getattr(row, "window_end", None)
        if start is not None and end is not None:
            window = TimeWindow((start - _EPOCH) // _MS, (end - _EPOCH) // _MS)
        return self.function.process(
            [row], _RowWindowContext(keys[0] if len(keys) == 1 else keys, window)
        )
