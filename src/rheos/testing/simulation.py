"""Run a program in the simulated runtime: virtual time and faults, drawn from one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.settings import StateChoice
from rheos.api.streams import DataStream
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.errors import ProgramError
from rheos.core.known_names import NamedItems
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.site import call_site, located
from rheos.core.task.config import TaskConfig
from rheos.runtimes.driver.sources_and_sinks import published_here
from rheos.runtimes.job import JobConfig, JobStatus
from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.runtimes.simulated.invariants import InvariantError
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.split_watch import split_rows
from rheos.runtimes.simulated.world import World
from rheos.testing.drawn_settings import CHECKPOINTS, DrawnSettings
from rheos.testing.memory import MemorySink, MemoryTable
from rheos.testing.outputs import OUT, named_outputs
from rheos.testing.seeds import QUIET, Agreement, seeds_of
from rheos.testing.slow_source import SlowSource

Build = Callable[[Environment], DataStream | Mapping[str, DataStream]]


@dataclass(frozen=True)
class Taken:
    """A savepoint that was taken while a program was simulated."""

    directory: str
    final: bool
    """Whether all input had ended, by itself or by a request."""
    files: Mapping[str, bytes]
    """Contents of its files, by path."""
    rows: Mapping[str, pa.Table]
    """Rows of each output that had been committed up to it."""


@dataclass(frozen=True)
class Simulated:
    """Result of a run."""

    seed: int
    faults: Faults
    rows: Mapping[str, pa.Table]
    """The committed rows of each output, in the order of their commits."""
    status: JobStatus
    trace: int
    """Hash of all events of the run and their times. It is the same for the same seed."""
    crashes: int
    drivers: int
    """Number of drivers that the job has had."""
    virtual_ms: int
    positions: Mapping[OperatorId, Mapping[str, bytes | None]]
    """Positions of the job's final checkpoint, for each split of each source."""
    drained: bool
    """Whether a request ended the input. Then the input may have ended before all of it was read."""
    savepoints: Sequence[Taken]
    tables: Mapping[str, MemoryTable]
    """Tables with the rows of each output."""

    @property
    def out(self) -> pa.Table:
        """Rows of the only output."""
        return self.rows[OUT]


def simulate(
    build: Build,
    *,
    seed: int = 0,
    faults: Faults | None = None,
    parallelism: int = 2,
    max_parallelism: int = 128,
    checkpoint: CheckpointConfig = CHECKPOINTS,
    task: TaskConfig | None = None,
    parallelisms: Sequence[int] = (),
    requests: Requests | None = None,
    from_savepoint: Taken | None = None,
    min_parallelism: int | None = None,
    state: StateChoice = "memory",
    tables: Mapping[str, MemoryTable] | None = None,
    on_driver: bool = False,
    until_read: Callable[[int, int], bool] | None = None,
    slow: bool = False,
    seeds: int | Iterable[int] | None = None,
    expected: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    last_by: Sequence[str] = (),
) -> Simulated:
    """Run the program to its end and return the rows that it committed.

    ```python
    def build(env):
        clicks = env.from_source(rh.generator(make_clicks, count=500, rate_per_s=500))
        return clicks.key_by("user").running(n=rh.agg.count())

    done = rheos.testing.simulate(build, seed=7)
    assert done.out.num_rows == 500
    ```

    Set a rate on the source, as in the example, or pass `slow`: at full speed the source is read before
    faults occur.

    With `seeds`, the program runs once for each seed, with slow sources. The seed determines
    parallelism, batches, checkpoints, requests and faults. Each run must commit the same rows, in any
    order: the `expected` rows, or those of a run without faults. That run is returned. Otherwise
    AssertionError names the seed, and the missing and extra rows in the smallest world that still shows
    the difference.

    ```python
    rheos.testing.simulate(build, seeds=20, expected=[{"user": "ada", "n": 1}, {"user": "ada", "n": 2}])
    ```

    Args:
        build: receives an environment, builds the program in it, and returns the stream whose rows are
            compared, or several by name.
        seed: decides everything random.
        faults: the faults; by default drawn from the seed. `Faults(until_us=0)` disables them.
        parallelism: number of subtasks of each operator.
        max_parallelism: the number of key groups.
        checkpoint: how the job is checkpointed and restarted.
        task: settings of the data plane.
        parallelisms: parallelism under each of the job's drivers, in turn; by default always
            `parallelism`.
        requests: requests of users while the job runs; by default none.
        from_savepoint: savepoint from which the job starts.
        min_parallelism: minimum parallelism with which the job continues if slots are lost.
        state: the state backend, as for `rh.Environment`. The files that rocksdb writes do not depend
            on the seed alone, but the committed rows do.
        tables: tables for the rows of each output, which may contain rows of another job; by default
            empty ones.
        on_driver: whether the driver publishes the outputs, as for Spark tables.
        until_read: for sources that never end. It receives the number of splits that the newest
            checkpoint has finished, and the virtual time in ms, and returns whether the input should
            end.
        slow: whether sources are slow: they emit few rows at once, at times drawn from the seed.
        seeds: number of seeds, or the seeds.
        expected: with `seeds`, the rows (dicts or dataclass instances) of the one output, or of each by
            name.
        last_by: with `seeds`, for results that replace each other, such as those of windows with
            allowed lateness: only the last one of each combination of these columns counts.

    Returns:
        The committed rows of each output.

    Raises:
        RheosError: The error that ended the job.
        JobFailedError: The job did not end after the faults had ended.
        InvariantError: The engine broke one of its own rules; please report it with the seed.
        ProgramError: `seeds` and an argument that it draws are both set.
        AssertionError: With `seeds`, a run committed other rows.
    """
    if seeds is not None:
        arguments = {
            "faults": faults,
            "task": task,
            "requests": requests,
            "from_savepoint": from_savepoint,
        }
        if drawn_too := [name for name, value in arguments.items() if value is not None]:
            raise ProgramError(
                f"{drawn_too[0]}= is set, but seeds= draws it at random",
                hint="use seed= for a single world with your own settings",
            )

        def run(drawn: DrawnSettings | None) -> Simulated:
            same = partial(
                simulate, build, max_parallelism=max_parallelism, state=state, until_read=until_read
            )
            if drawn is None:
                return same(parallelism=1, faults=QUIET)
            return same(
                seed=drawn.seed,
                faults=drawn.faults,
                parallelism=drawn.parallelisms[0],
                parallelisms=drawn.parallelisms,
                min_parallelism=drawn.min_parallelism,
                checkpoint=drawn.checkpoint,
                task=drawn.task,
                requests=drawn.requests,
                slow=True,
            )

        given = expected if expected is None or isinstance(expected, Mapping) else {OUT: expected}
        return Agreement(run, given, last_by).check(seeds_of(seeds))
    drawn = Faults.draw(Random(seed)) if faults is None else faults
    runtime = _Runtime(
        seed,
        drawn,
        checkpoint,
        task or TaskConfig(batch_rows=64),
        tuple(parallelisms),
        requests or Requests(),
        from_savepoint,
        min_parallelism,
        StateConfig.of(state),
        until_read,
        slow,
    )
    env = Environment(parallelism, max_parallelism=max_parallelism, runtime=runtime)
    with located(call_site()):
        streams = named_outputs(build(env))
    sinks = {}
    for name, stream in streams.items():
        table = MemoryTable() if tables is None else tables[name]
        sinks[name] = MemorySink(table, on_driver)
        stream.sink_to(sinks[name], name=name)
    result = env.execute("simulated")
    (world,) = runtime.worlds
    violations = [text for sink in sinks.values() for text in sink.target.violations]
    if violations:
        raise InvariantError("; ".join(violations))
    return Simulated(
        seed=seed,
        faults=drawn,
        rows=NamedItems(
            "the program has no output",
            {name: sink.target.table(runtime.schemas[name]) for name, sink in sinks.items()},
        ),
        status=result.status,
        trace=world.trace,
        crashes=world.crashes,
        drivers=world.drivers,
        virtual_ms=world.clock.monotonic_us() // 1000,
        positions=_positions(world),
        drained=world.drained,
        savepoints=[
            Taken(
                taken.directory,
                taken.final,
                taken.files,
                {
                    name: sink.target.table(runtime.schemas[name], only=taken.published)
                    for name, sink in sinks.items()
                },
            )
            for taken in world.savepoints
        ],
        tables=NamedItems(
            "the program has no output", {name: sink.target for name, sink in sinks.items()}
        ),
    )


def _positions(world: World) -> dict[OperatorId, dict[str, bytes | None]]:
    final = world.watch.final
    splits = split_rows(() if final is None else final.handles, world.store.files)
    return {
        operator: {row["split"]: row["position"] for row in rows} for operator, rows in splits.items()
    }


def _slowed(plan: PhysicalPlan, seed: int) -> PhysicalPlan:
    """Return the plan with slow sources."""

    def slowed(planned: PlannedOperator) -> PlannedOperator:
        spec = planned.spec
        if not isinstance(spec, SourceSpec):
            return planned
        return replace(planned, spec=replace(spec, source=SlowSource(spec.source, seed)))

    return replace(
        plan,
        chains=tuple(
            replace(chain, operators=tuple(map(slowed, chain.operators))) for chain in plan.chains
        ),
    )


@dataclass
class _Runtime:
    """The simulated runtime, with a job id and settings that are the same in each run."""

    seed: int
    faults: Faults
    checkpoint: CheckpointConfig
    task: TaskConfig
    parallelisms: tuple[int, ...]
    requests: Requests
    from_savepoint: Taken | None
    min_parallelism: int | None
    state: StateConfig
    until_read: Callable[[int, int], bool] | None
    slow: bool
    worlds: list[World] = field(default_factory=list)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> SimulatedJob:
        taken = self.from_savepoint
        if self.slow:
            plan = _slowed(plan, self.seed)
        config = replace(
            config,
            job=JobId("simulated"),
            checkpoint=self.checkpoint,
            task=self.task,
            min_parallelism=self.min_parallelism,
            state=self.state,
            from_savepoint=None if taken is None else taken.directory,
        )
        world = World(
            plan,
            config,
            self.seed,
            self.faults,
            self.parallelisms,
            self.requests,
            None if taken is None else taken.files,
            until_read=self.until_read,
        )
        for planned in plan.operators():
            if isinstance(planned.spec, SinkSpec) and isinstance(planned.spec.sink, MemorySink):
                planned.spec.sink.target.on_commit = world.on_commit
                self.schemas[planned.name] = visible(planned.ports[0].schema)
        world.watch.on_driver = published_here(plan)
        self.worlds.append(world)
        return SimulatedJob(world)
