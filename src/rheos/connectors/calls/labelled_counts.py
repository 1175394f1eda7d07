"""Counts of what a process has done, by labels, as readings of a metric."""

from __future__ import annotations

import threading
from collections import Counter

from rheos.core.metrics.declarations import Metric
from rheos.core.protocol.readings import Reading


class LabelledCounts:
    """Counts by labels. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, labels: tuple[str, ...], by: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[labels] += by

    def value(self, labels: tuple[str, ...]) -> int:
        """Return one count."""
        with self._lock:
            return self._counts[labels]

    def total(self) -> int:
        """Return the sum of all counts."""
        with self._lock:
            return self._counts.total()

    def readings(self, metric: Metric) -> list[Reading]:
        """Return the counts as readings of a metric."""
        with self._lock:
            return [Reading(metric.name, labels, n) for labels, n in self._counts.items()]
