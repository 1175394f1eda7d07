"""The simulated runtime: the whole job in one thread, under virtual time and a seed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.runtimes.driver.driven_job import MasterDrivenJob
from rheos.runtimes.driver.driver_logs import RestartReport
from rheos.runtimes.driver.master import Master
from rheos.runtimes.job import JobConfig, JobResult, JobStatus
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.world import MAX_TURNS, World

T = TypeVar("T")


class SimulatedRuntime:
    """The runtime that executes plans in a `World`. Faults occur only if they are passed. After
    `until_ms` of virtual time the input ends: windows fire, sinks commit, and the job finishes."""

    def __init__(
        self, seed: int = 0, faults: Faults | None = None, until_ms: int | None = None
    ) -> None:
        self._seed = seed
        self._faults = faults
        self._until_ms = until_ms

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> SimulatedJob:
        # Without faults, only an endless source keeps a job running, so turns are not limited.
        turns = MAX_TURNS if self._faults is not None else None
        world = World(plan, config, self._seed, self._faults, until_ms=self._until_ms, max_turns=turns)
        # A user who requests faults expects restarts.
        job = SimulatedJob(world, _reporting(listener) if self._faults is None else listener)
        if self._until_ms is None:
            sources = [(each.name, each.spec.reads_from) for each in plan.operators()]
            job.endless = [name for name, source in sources if source and not source.bounded]
        return job


def _reporting(listener: Callable[[JobStatus], None] | None) -> Callable[[JobStatus], None]:
    report = RestartReport()

    def heard(status: JobStatus) -> None:
        report.heard(status)
        if listener is not None:
            listener(status)

    return heard


class SimulatedJob(MasterDrivenJob):
    """The JobHandle of a simulated job. Virtual time passes within `wait`, and while the caller waits
    for a savepoint. `wait` calls `listener` once per second of virtual time."""

    def __init__(self, world: World, listener: Callable[[JobStatus], None] | None = None) -> None:
        self.world = world
        self._listener = listener

    def __repr__(self) -> str:
        return f"<Job {self.status().summary}>"

    @property
    def master(self) -> Master:
        return self.world.master

    def wait(self, timeout_s: float | None = None) -> JobResult:
        return self.world.run(self._listener)

    def cancel(self) -> None:
        self.world.master.cancel()
        self.world.run()

    def answered(self, answer: Future[T], what_failed: str) -> T:
        """Let virtual time pass until the answer has arrived, and return it."""
        master = self.world.master
        self.world.run_until(lambda: answer.done() or self.world.master is not master)
        if not answer.done():
            raise CheckpointError(
                f"{what_failed}: the driver was lost in the meantime",
                hint="the job resumes from its last checkpoint; try again",
            )
        return answer.result()

    def savepoint_place(self, directory: str | None) -> str:
        return directory or "savepoints"

    def wait_until_over(self) -> None:
        self.world.run()

    def check_sampled(self) -> None:
        raise ConfigurationError(
            "a simulated job runs in virtual time and a single thread",
            hint='run it with runtime="continuous"; or profile this process',
        )
