"""The simulated runtime: the whole job in one thread, under virtual time and a seed."""

from __future__ import annotations

from collections.abc import Callable

from rheos.plan.physical import PhysicalPlan
from rheos.runtimes.contract import JobConfig, JobResult, JobStatus, WithoutCheckpoints
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.world import World


class SimulatedRuntime:
    """Runs plans in a `World`. Faults strike only where they are given."""

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self._seed = seed
        self._faults = faults

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> SimulatedJob:
        return SimulatedJob(World(plan, config, self._seed, self._faults))


class SimulatedJob(WithoutCheckpoints):
    """A JobHandle. Nothing happens before `wait`: virtual time passes within it alone."""

    def __init__(self, world: World) -> None:
        self.world = world

    def status(self) -> JobStatus:
        return self.world.status()

    def wait(self, timeout_s: float | None = None) -> JobResult:
        return self.world.run()

    def cancel(self) -> None:
        self.world.master.cancel()
        self.world.run()
