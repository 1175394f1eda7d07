"""Holds a slot to its latency objective: watches its chains, asks the controller, and sets the pace.

Without an objective there is none of this, and nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rheos.observe import figures as f
from rheos.protocol.ports import Clock
from rheos.protocol.readings import Reading
from rheos.task.chain import ChainRunner
from rheos.task.config import TaskConfig
from rheos.task.pace import OBSERVE_EVERY_US, Observed, PaceController


class Pacing:
    """The engine calls `turned` after each turn of its loop."""

    def __init__(
        self,
        objective_us: int,
        exchanges: int,
        chains: Sequence[ChainRunner],
        config: TaskConfig,
        clock: Clock,
    ) -> None:
        self._controller = PaceController(objective_us, exchanges, config.batch_rows)
        self._objective_us = objective_us
        self._chains = chains
        self._config = config
        self._clock = clock
        self._next_us = clock.monotonic_us() + OBSERVE_EVERY_US
        self._busy_us = 0
        self._turn_us = 0
        self._rows = 0
        self._set()

    def turned(self, took_us: int, now_us: int) -> None:
        """A turn in which something was done has ended."""
        self._busy_us += took_us
        self._turn_us = max(self._turn_us, took_us)
        if now_us < self._next_us:
            return
        self._next_us = now_us + OBSERVE_EVERY_US
        was = self._controller.pace
        if self._controller.observe(self._seen(now_us)) != was:
            self._set()

    def _seen(self, now_us: int) -> Observed:
        totals = [chain.totals() for chain in self._chains]
        rows = sum(sum(each.records_in.values()) + sum(each.records_out.values()) for each in totals)
        oldest_us = [since_us for chain in self._chains if (since_us := chain.oldest_us()) is not None]
        waited_us = now_us - min(oldest_us, default=now_us)
        timeout_us = self._controller.pace.buffer_timeout_us
        seen = Observed(
            rows=rows - self._rows,
            busy_us=self._busy_us,
            waited_us=max((chain.longest_sojourn_us() for chain in self._chains), default=0),
            stuck_us=max(waited_us - timeout_us, 0),
            turn_us=self._turn_us,
        )
        self._rows, self._busy_us, self._turn_us = rows, 0, 0
        return seen

    def _set(self) -> None:
        pace = self._controller.pace
        self._config = replace(
            self._config, batch_rows=pace.batch_rows, buffer_timeout_us=pace.buffer_timeout_us
        )
        for chain in self._chains:
            chain.configure(self._config)

    def readings(self) -> Iterator[Reading]:
        pace = self._controller.pace
        yield Reading(f.LATENCY_OBJECTIVE.name, (), self._objective_us / 1000)
        yield Reading(f.LATENCY_FOUND.name, (), self._controller.found_us / 1000)
        yield Reading(f.CHOSEN_TIMEOUT.name, (), pace.buffer_timeout_us / 1000)
        yield Reading(f.CHOSEN_ROWS.name, (), pace.batch_rows)
