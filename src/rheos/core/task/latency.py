"""Latency of rows from the sources to the sinks, by markers that move and wait as rows do.

A source emits a marker about once a second, after rows that it has just returned: so an idle job has no
markers. On each edge a marker goes to one of the targets, in turn, and from there downstream. A chain
with a sink records the age of the marker. Markers are no part of any state: those on their way when an
attempt ends are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rheos.core.metrics import declarations as f
from rheos.core.operators.runtime_context import Distribution
from rheos.core.plan.physical import Chain
from rheos.core.protocol.elements import LatencyMark
from rheos.core.protocol.ids import ChainId, OperatorId
from rheos.core.protocol.ports import Clock
from rheos.core.protocol.readings import Reading


class LatencyMarkers:
    """The latency markers of one subtask of a chain."""

    def __init__(
        self, chain: Chain, sources: Mapping[ChainId, OperatorId], clock: Clock, interval_us: int
    ) -> None:
        """`sources` names the source of each chain that begins with one."""
        self._chain = chain.id
        self._sources = sources
        self._sinks = [each.id for each in chain.operators if each.spec.writes_to is not None]
        self._clock = clock
        self._interval_us = interval_us
        self._next_us = clock.monotonic_us() + interval_us
        self._took_ms: dict[tuple[OperatorId, OperatorId], Distribution] = {}

    def born(self) -> LatencyMark | None:
        """Called by a source that has given rows: the marker that follows them, where it is time."""
        now_us = self._clock.monotonic_us()
        if now_us < self._next_us:
            return None
        self._next_us = now_us + self._interval_us
        return LatencyMark(self._chain, self._clock.now_ms())

    def arrived(self, mark: LatencyMark) -> None:
        """All rows before it are processed. Clocks of machines differ: none is younger than nothing."""
        source = self._sources.get(mark.source)
        if source is None:
            return
        for sink in self._sinks:
            took_ms = max(self._clock.now_ms() - mark.born_ms, 0)
            self._took_ms.setdefault((source, sink), Distribution()).add(took_ms)

    def readings(self) -> Iterator[Reading]:
        for (source, sink), took_ms in self._took_ms.items():
            yield Reading(f.LATENCY.name, (str(source), str(sink)), took_ms.value)
