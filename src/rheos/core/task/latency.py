"""Latency of rows from sources to sinks, and of batches from a gate until they are processed.

Markers measure the latency to the sinks; they move and wait like rows. A source emits a marker about
once a second, after rows that it has just returned, so an idle job has no markers. On each edge a
marker goes to one of the targets, in turn, and continues downstream from there. A chain with a sink
records the age of the marker. Markers are not part of any state: those in transit when an attempt ends
are lost. At a gate, one batch at a time is followed, from its arrival until it is processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rheos.core.metrics import declarations as f
from rheos.core.operators.runtime_context import Distribution
from rheos.core.plan.physical import Chain
from rheos.core.protocol.elements import Batch, LatencyMark
from rheos.core.protocol.ids import ChainId, OperatorId
from rheos.core.protocol.ports import Clock
from rheos.core.protocol.readings import Reading


class LatencyMarkers:
    """The latency markers of one subtask of a chain."""

    def __init__(
        self, chain: Chain, sources: Mapping[ChainId, OperatorId], clock: Clock, interval_us: int
    ) -> None:
        """Create the markers. `sources` has the source of each chain that begins with one."""
        self._chain = chain.id
        self._sources = sources
        self._sinks = [each.id for each in chain.operators if each.spec.writes_to is not None]
        self._clock = clock
        self._interval_us = interval_us
        self._next_us = clock.monotonic_us() + interval_us
        self._took_ms: dict[tuple[OperatorId, OperatorId], Distribution] = {}

    def born(self) -> LatencyMark | None:
        """Return the marker to send after the rows just returned; None if none is due."""
        now_us = self._clock.monotonic_us()
        if now_us < self._next_us:
            return None
        self._next_us = now_us + self._interval_us
        return LatencyMark(self._chain, self._clock.now_ms())

    def arrived(self, mark: LatencyMark) -> None:
        """Record a marker whose earlier rows are processed. Clocks differ: ages below 0 count as 0."""
        source = self._sources.get(mark.source)
        if source is None:
            return
        for sink in self._sinks:
            took_ms = max(self._clock.now_ms() - mark.born_ms, 0)
            self._took_ms.setdefault((source, sink), Distribution()).add(took_ms)

    def readings(self) -> Iterator[Reading]:
        for (source, sink), took_ms in self._took_ms.items():
            yield Reading(f.LATENCY.name, (str(source), str(sink)), took_ms.value)


class GateLatency:
    """Measures the latency of batches. The gate reports batches that arrive or are taken; the chain
    reports when it has processed one."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._watched: Batch | None = None
        self._since_us = 0
        self._taken = False
        self._longest_us = 0

    def arrived(self, batch: Batch) -> None:
        if self._watched is None:
            self._watched, self._since_us, self._taken = batch, self._now_us(), False

    def took(self, batch: object) -> None:
        if batch is self._watched:
            self._taken = True

    def processed(self) -> None:
        """Record that the taken batch is processed."""
        if self._taken:
            self._longest_us = max(self._longest_us, self._now_us() - self._since_us)
            self._watched, self._taken = None, False

    def longest_us(self) -> int:
        """Return the longest time since the last call, including that of a batch in progress."""
        longest_us, self._longest_us = self._longest_us, 0
        if self._watched is not None:
            longest_us = max(longest_us, self._now_us() - self._since_us)
        return longest_us
