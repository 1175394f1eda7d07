"""Sets the pace of a slot: observes its chains, asks a controller, and configures the chains.

With a latency objective, the settings are the batch size and the buffer timeout (`pace`); without one,
only the batch size (`batch_time`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rheos.core.metrics import declarations as f
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ports import Clock, ThreadTimes
from rheos.core.protocol.readings import Reading
from rheos.core.task.batch_cost import IntakeCounts
from rheos.core.task.batch_time import BatchTime
from rheos.core.task.chain import ChainRunner
from rheos.core.task.config import TaskConfig
from rheos.core.task.core_waits import CoreWaits
from rheos.core.task.fixed_cost import FixedCosts
from rheos.core.task.pace import OBSERVE_EVERY_US, PaceController, SlotMeasurements, exchanges_on_path
from rheos.core.task.traffic import SpentTime


class Pacing(ABC):
    """The pace of a slot. The engine calls `turned` after each turn of its loop."""

    def __init__(self, chains: Sequence[tuple[ChainRunner, SpentTime]], thread: ThreadTimes) -> None:
        self._costs = FixedCosts(chains)
        self._waits = CoreWaits(thread)
        self._worked_us = 0
        """Sum of the turns in which work was done, in µs."""

    def turned(self, took_us: int, now_us: int) -> None:
        """Record a turn in which work was done."""
        self._worked_us += took_us
        self._costs.turned(took_us)
        self._pace(took_us, now_us)

    def readings(self) -> Iterator[Reading]:
        """Return the chosen settings, the waits for a core, and the fixed cost of runs. Called once for
        each report."""
        rows = self._batch_rows()
        share = self._waits.worked_share(self._worked_us)
        yield Reading(f.CORE_WAIT.name, (), self._waits.total_us / 1000)
        yield Reading(f.CHOSEN_ROWS.name, (), rows)
        yield Reading(f.FIXED_COST.name, (), self._costs.total_us(rows, share) / 1000)

    @abstractmethod
    def _pace(self, took_us: int, now_us: int) -> None:
        """Record a turn, and change the settings if it is time for that."""

    @abstractmethod
    def _batch_rows(self) -> int:
        """Return the chosen maximum number of rows of a batch."""


def pacing(
    plan: PhysicalPlan,
    config: TaskConfig,
    chains: Sequence[tuple[ChainRunner, SpentTime]],
    clock: Clock,
    thread: ThreadTimes,
) -> Pacing:
    """Return the object that sets the pace of a slot with these chains. The engine measures how they
    spend their time."""
    if config.latency_us is None:
        return BatchPacing(chains, plan.parallelism, config, clock, thread)
    exchanges = exchanges_on_path(plan.edges)
    return ObjectivePacing(config.latency_us, exchanges, chains, config, clock, thread)


class BatchPacing(Pacing):
    """Limits the time for which a chain works on one batch."""

    def __init__(
        self,
        chains: Sequence[tuple[ChainRunner, SpentTime]],
        parallelism: int,
        config: TaskConfig,
        clock: Clock,
        thread: ThreadTimes,
    ) -> None:
        super().__init__(chains, thread)
        self._batch_waits = CoreWaits(thread)
        self._controller = BatchTime(len(chains), config.batch_rows, parallelism)
        self._chains = chains
        self._config = config
        self._next_us = clock.monotonic_us() + OBSERVE_EVERY_US
        self._set()

    def _pace(self, took_us: int, now_us: int) -> None:
        if now_us < self._next_us:
            return
        self._next_us = now_us + OBSERVE_EVERY_US
        was = self._controller.rows
        taken = [
            IntakeCounts(of.rows_taken, of.batches_taken, spent.busy_us) for of, spent in self._chains
        ]
        share = self._batch_waits.worked_share(sum(each.busy_us for each in taken))
        if self._controller.observe(taken, share) != was:
            self._set()

    def _set(self) -> None:
        config = replace(self._config, batch_rows=self._controller.rows)
        for chain, _ in self._chains:
            chain.configure(config)

    def _batch_rows(self) -> int:
        return self._controller.rows


class ObjectivePacing(Pacing):
    """Keeps a slot within its latency objective."""

    def __init__(
        self,
        objective_us: int,
        exchanges: int,
        chains: Sequence[tuple[ChainRunner, SpentTime]],
        config: TaskConfig,
        clock: Clock,
        thread: ThreadTimes,
    ) -> None:
        super().__init__(chains, thread)
        self._controller = PaceController(objective_us, exchanges, config.batch_rows)
        self._objective_us = objective_us
        self._chains = [chain for chain, _ in chains]
        self._config = config
        self._clock = clock
        self._next_us = clock.monotonic_us() + OBSERVE_EVERY_US
        for chain in self._chains:
            chain.watch_sojourn()
        self._busy_us = 0
        self._turn_us = 0
        self._rows = 0
        self._set()

    def _pace(self, took_us: int, now_us: int) -> None:
        self._busy_us += took_us
        self._turn_us = max(self._turn_us, took_us)
        if now_us < self._next_us:
            return
        self._next_us = now_us + OBSERVE_EVERY_US
        was = self._controller.pace
        if self._controller.observe(self._measure(now_us)) != was:
            self._set()

    def _measure(self, now_us: int) -> SlotMeasurements:
        totals = [chain.totals() for chain in self._chains]
        rows = sum(sum(each.records_in.values()) + sum(each.records_out.values()) for each in totals)
        oldest_us = [since_us for chain in self._chains if (since_us := chain.oldest_us()) is not None]
        waited_us = now_us - min(oldest_us, default=now_us)
        timeout_us = self._controller.pace.buffer_timeout_us
        seen = SlotMeasurements(
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

    def _batch_rows(self) -> int:
        return self._controller.pace.batch_rows

    def readings(self) -> Iterator[Reading]:
        yield from super().readings()
        pace = self._controller.pace
        yield Reading(f.LATENCY_OBJECTIVE.name, (), self._objective_us / 1000)
        yield Reading(f.LATENCY_FOUND.name, (), self._controller.found_us / 1000)
        yield Reading(f.CHOSEN_TIMEOUT.name, (), pace.buffer_timeout_us / 1000)
