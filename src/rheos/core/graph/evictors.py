"""The built-in evictors. Users know this module as `rh.evictors`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rheos.core.callables import check_callable
from rheos.core.errors import ProgramError
from rheos.core.graph.window_functions import Element, Evictor, EvictorContext
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import call_site, located

__all__ = ["count", "delta", "time"]


def count(n: int, *, after: bool = False) -> Evictor:
    """Return an evictor that keeps the last n records of a window.

    ```python
    events.key_by("user").window(rh.Tumbling("1h")).evictor(rh.evictors.count(10))
    ```

    Args:
        n: Number of records to keep.
        after: Whether records are dropped after the result is computed, instead of before.

    Returns:
        The evictor.

    Raises:
        ProgramError: `n` is not a whole number of at least 0.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ProgramError(f"count({n!r}) must keep an integer number of records", site=call_site())
    return CountEvictor(n, after)


def time(keeps: Duration, *, after: bool = False) -> Evictor:
    """Return an evictor that keeps the records of the last `keeps` of event time in a window.

    As in Flink, the bound is exclusive: a record exactly `keeps` older than the latest is dropped.

    ```python
    rh.evictors.time("10m")
    ```

    Args:
        keeps: The length of time, counted back from the latest record of the window.
        after: Whether records are dropped after the result is computed, instead of before.

    Returns:
        The evictor.
    """
    return TimeEvictor(duration_ms(keeps), after)


def delta(of: Callable[[Any], float], threshold: float, *, after: bool = False) -> Evictor:
    """Return an evictor that keeps the records whose number is near that of the last record.

    As in Flink, the bound is exclusive: a record whose number differs by exactly `threshold` is
    dropped. If `threshold` is 0, so is the last record itself.

    ```python
    rh.evictors.delta(lambda trade: trade.price, threshold=10.0)
    ```

    Args:
        of: Function that returns the number of a record.
        threshold: Minimum difference at which a record is dropped.
        after: Whether records are dropped after the result is computed, instead of before.

    Returns:
        The evictor.

    Raises:
        ProgramError: `of` cannot be called with a record, or `threshold` is not a number.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or threshold != threshold:
        raise ProgramError(
            f"the threshold of delta() must be a number, not {threshold!r}", site=call_site()
        )
    with located(call_site()):
        check_callable(of, "delta", ["a record"])
    return DeltaEvictor(of, float(threshold), after)


class _KeepingEvictor(Evictor):
    """Keeps the records that it selects. It drops the others before or after the result is computed."""

    def __init__(self, after: bool) -> None:
        self.after = after

    def keep(self, elements: list[Element]) -> list[Element]:
        raise NotImplementedError

    def evict_before(self, elements: list[Element], ctx: EvictorContext) -> list[Element]:
        return elements if self.after else self.keep(elements)

    def evict_after(self, elements: list[Element], ctx: EvictorContext) -> list[Element]:
        return self.keep(elements) if self.after else elements


class CountEvictor(_KeepingEvictor):
    def __init__(self, n: int, after: bool) -> None:
        super().__init__(after)
        self.n = n

    def keep(self, elements: list[Element]) -> list[Element]:
        return elements[max(len(elements) - self.n, 0) :]

    def __str__(self) -> str:
        return f"count({self.n})"


class TimeEvictor(_KeepingEvictor):
    def __init__(self, keeps_ms: int, after: bool) -> None:
        super().__init__(after)
        self.keeps_ms = keeps_ms

    def keep(self, elements: list[Element]) -> list[Element]:
        times = [element.timestamp for element in elements if element.timestamp is not None]
        if not times:
            return elements
        cutoff = max(times) - self.keeps_ms
        return [e for e in elements if e.timestamp is None or e.timestamp > cutoff]

    def __str__(self) -> str:
        return f"time({self.keeps_ms} ms)"


class DeltaEvictor(_KeepingEvictor):
    def __init__(self, of: Callable[[Any], float], threshold: float, after: bool) -> None:
        super().__init__(after)
        self.of, self.threshold = of, threshold

    def keep(self, elements: list[Element]) -> list[Element]:
        if not elements:
            return elements
        last = float(self.of(elements[-1].record))
        # NaN is never at or beyond the threshold, so the record is kept, as in Flink.
        return [e for e in elements if not abs(float(self.of(e.record)) - last) >= self.threshold]

    def __str__(self) -> str:
        return f"delta({self.threshold})"
