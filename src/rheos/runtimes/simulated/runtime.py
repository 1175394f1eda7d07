"""The simulated runtime: the whole job in one thread, under virtual time and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import pyarrow as pa

from rheos.core.checkpoint.events import After
from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.metrics.event_log import JobEvent
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import JobFigures
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.durations import Duration
from rheos.core.protocol.stacks import StackProfile
from rheos.runtimes.driver.restart_report import RestartReport
from rheos.runtimes.job import CheckpointInfo, JobConfig, JobResult, JobStatus
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.world import MAX_TURNS, World


class SimulatedRuntime:
    """Runs plans in a `World`. Faults strike only where they are given. After `until_ms` of virtual
    time the input of a job ends: windows fire, sinks commit, and it finishes."""

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
        # Without faults a job that goes on has a source that never ends.
        turns = MAX_TURNS if self._faults is not None else None
        world = World(plan, config, self._seed, self._faults, until_ms=self._until_ms, max_turns=turns)
        # A user who asks for faults expects restarts.
        return SimulatedJob(world, _reporting(listener) if self._faults is None else listener)


def _reporting(listener: Callable[[JobStatus], None] | None) -> Callable[[JobStatus], None]:
    report = RestartReport()

    def heard(status: JobStatus) -> None:
        report.heard(status)
        if listener is not None:
            listener(status)

    return heard


class SimulatedJob:
    """A JobHandle. Virtual time passes within `wait`, and while a savepoint is waited for. `listener`
    is called once a second of it, within `wait`."""

    def __init__(self, world: World, listener: Callable[[JobStatus], None] | None = None) -> None:
        self.world = world
        self._listener = listener

    def __repr__(self) -> str:
        return f"<Job {self.status().summary}>"

    def status(self) -> JobStatus:
        return self.world.status()

    def wait(self, timeout_s: float | None = None) -> JobResult:
        return self.world.run(self._listener)

    def cancel(self) -> None:
        self.world.master.cancel()
        self.world.run()

    def savepoint(self, directory: str | None = None) -> str:
        return self._taken(directory, After.GO_ON)

    def stop(self, directory: str | None = None, *, drain: bool = False) -> str:
        folder = self._taken(directory, After.DRAIN if drain else After.STOP)
        self.world.run()
        return folder

    def rescale(self, parallelism: int) -> None:
        self._answered(self.world.master.request_rescale(parallelism), "the job was not rescaled")

    def profile(self, subtask: int = 0, duration: Duration = "10s") -> StackProfile:
        raise ConfigurationError(
            "a simulated job has no time of its own, and one thread",
            hint='run it with runtime="continuous"; or profile this process',
        )

    def checkpoints(self) -> Sequence[CheckpointInfo]:
        return self.world.master.checkpoints()

    def take_collected(self) -> Mapping[str, pa.Table]:
        return self.world.master.take_collected()

    def figures(self) -> JobFigures:
        return self.world.master.figures()

    def history(self) -> HistoryView:
        return self.world.master.history()

    def events(self) -> Sequence[JobEvent]:
        return self.world.master.events()

    def story(self) -> Sequence[str]:
        return self.world.master.story()

    def _taken(self, directory: str | None, after: After) -> str:
        answer = self.world.master.request_savepoint(directory or "savepoints", after)
        return self._answered(answer, "no savepoint was taken")

    def _answered(self, answer: Future[str], otherwise: str) -> str:
        master = self.world.master
        self.world.run_until(lambda: answer.done() or self.world.master is not master)
        if not answer.done():
            raise CheckpointError(
                f"{otherwise}: the driver was lost meanwhile",
                hint="the job goes on from its last checkpoint; ask again",
            )
        return answer.result()
