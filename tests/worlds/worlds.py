"""Random worlds, each drawn from a seed: a program, its input, settings and faults; and their check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import StateConfig
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.job import JobState
from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.testing.drawn_settings import draw_checkpoints, draw_requests, draw_task
from rheos.testing.memory import MemoryTable
from rheos.testing.simulation import Simulated, Taken, simulate
from tests.worlds import (
    changelog_programs,
    connected_programs,
    join_programs,
    loop_programs,
    programs,
)
from tests.worlds.compiled_program import COMPILED
from tests.worlds.drawn_input import DrawnInput
from tests.worlds.expiring_programs import EXPIRING
from tests.worlds.outside_programs import OUTSIDE
from tests.worlds.programs import CheckedProgram
from tests.worlds.session_program import sessions
from tests.worlds.window_programs import TRIGGERED


class Climate(Enum):
    """Conditions of a world, which determine the defects that it can show."""

    SWARM = "any faults at any rates"
    STALLS = "nothing moves for a while, again and again: checkpoints are given up half-way"
    MOVES = "few faults: the job is stopped with a savepoint, and goes on from that elsewhere"
    RIVALS = "drivers are cut off, and return while their successors run"
    PHASES = "sources are read in steps, each when all subtasks have done with the one before"
    """Not drawn where none is given."""
    APPEARS = "splits are found while the job runs, in any order, by listings of which some fail"
    """Not drawn where none is given."""


@dataclass(frozen=True)
class RandomWorld:
    """Everything that a seed decides."""

    seed: int
    program: CheckedProgram
    inputs: tuple[DrawnInput, ...]
    parallelisms: tuple[int, ...]
    """Of the job's drivers, one after the other."""
    min_parallelism: int | None
    checkpoint: CheckpointConfig
    task: TaskConfig
    faults: Faults
    requests: Requests
    forks: bool
    """Whether a second job is started from a savepoint of the first."""
    state: StateConfig = field(default_factory=StateConfig)
    on_driver: bool = False
    """Whether the driver publishes the outputs."""

    @property
    def appears(self) -> bool:
        """Whether splits are discovered while the job runs. Then the input ends when all must have
        been discovered."""
        return any(of.appears for of in self.inputs)

    def of(self, program: CheckedProgram) -> RandomWorld:
        """Return the world with another program, as far as its oracle supports the world."""
        idle = program.check_idle is not None
        exact = replace(self.task, guarantee=Guarantee.EXACTLY_ONCE)
        return replace(
            self,
            program=program,
            inputs=tuple(of if idle else replace(of, idle_after_ms=None) for of in self.inputs),
            task=self.task if program.has_least else exact,
        )

    def run(
        self,
        from_savepoint: Taken | None = None,
        tables: Mapping[str, MemoryTable] | None = None,
    ) -> Simulated:
        """Run the job with its faults. With `tables`, its sinks write into them."""
        return simulate(
            self._build,
            seed=self.seed,
            faults=self.faults,
            parallelism=self.parallelisms[0],
            parallelisms=self.parallelisms,
            min_parallelism=self.min_parallelism,
            checkpoint=self.checkpoint,
            task=self.task,
            requests=self.requests,
            from_savepoint=from_savepoint,
            state=self.state,
            tables=tables,
            on_driver=self.on_driver,
            until_read=self._is_read if self.appears else None,
        )

    def _is_read(self, splits: int, now_ms: int) -> bool:
        """Return whether the input counts as read: rows not read after this long are missing."""
        return splits == sum(of.splits for of in self.inputs) or now_ms > _NEVER_READ_MS

    def run_and_check(self) -> None:
        """Run the job, and check its results. An error of either names the world."""
        try:
            self.check(self.run())
        except Exception as error:
            error.add_note(str(self))
            raise

    def check(self, done: Simulated) -> None:
        """Raise AssertionError if the outputs are not those of the oracle. Check a fork in the same
        way, together with the rows published before its savepoint. A job that was stopped for good
        is moved: it resumes from its savepoint in another directory, with the same sinks."""
        if done.status.state is JobState.STOPPED:
            self._check_job_from(done.savepoints[-1], {}, done.tables)
            return
        self._check(done, {})
        # After a drain no input is left to read, although not all of it was read.
        savepoints = [taken for taken in done.savepoints if not (taken.final and done.drained)]
        if self.forks and savepoints:
            taken = savepoints[self.seed % len(savepoints)]
            self._check_job_from(taken, taken.rows, None)

    def _check_job_from(
        self, taken: Taken, before: Mapping[str, pa.Table], tables: Mapping[str, MemoryTable] | None
    ) -> None:
        job = self._job_from_savepoint()
        try:
            job._check(job.run(taken, tables), before)
        except Exception as error:
            error.add_note(f"from the savepoint {taken.directory}:\n{job}")
            raise

    def _check(self, done: Simulated, before: Mapping[str, pa.Table]) -> None:
        rows = [
            row
            for number, of in enumerate(self.inputs, 1)
            for row in of.arrived(
                done.positions[OperatorId(f"source-{number}")]
                if done.drained and not self.appears
                else None
            )
        ]
        outputs = {
            name: [*before[name].to_pylist(), *table.to_pylist()] if before else table.to_pylist()
            for name, table in done.rows.items()
        }
        if self.task.guarantee is Guarantee.AT_LEAST_ONCE:
            # If an attempt is drained, rows that the previous attempt had read further may be
            # published.
            possible = [row for of in self.inputs for row in of.arrived(None)]
            self.program.check_at_least(rows, possible, outputs)
        elif self.appears or any(of.idle_after_ms is not None for of in self.inputs):
            assert self.program.check_idle is not None
            self.program.check_idle(rows, outputs)
        else:
            self.program.check(rows, outputs)

    def _job_from_savepoint(self) -> RandomWorld:
        """Return the world of the job that starts from a savepoint: other settings, other faults."""
        other = draw_world(self.seed + 1_000_000)
        return replace(
            other,
            program=self.program,
            inputs=self.inputs,
            task=replace(other.task, guarantee=self.task.guarantee),
            requests=Requests(),
            forks=False,
        )

    def _build(self, env: Environment) -> Mapping[str, DataStream]:
        streams = [_stream(env, of, f"rows {number}") for number, of in enumerate(self.inputs)]
        first, *others = streams
        return self.program.build(first.union(*others) if others else first)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.program.name}, parallelism {self.parallelisms}"]
        lines += ["  published by the driver"] if self.on_driver else []
        lines += [f"  {of}" for of in self.inputs]
        lines += [f"  {self.task}", f"  {self.checkpoint}", f"  {self.requests}"]
        return "\n".join([*lines, f"  faults: {self.faults or 'none'}"])


def draw_world(seed: int, climate: Climate | None = None) -> RandomWorld:
    """Return the world of the seed, in its own climate or the given one. Worlds are small, so that a
    seed takes a fraction of a second.

    Each part is drawn separately, so that a change of one leaves the others of a seed unchanged.
    """

    def drawing(what: str) -> Random:
        return Random(f"{seed}/{what}")

    program = _draw_program(drawing("program"))
    for what, among in _FURTHER.items():
        further = drawing(what)
        if further.random() < _FURTHER_IN:
            program = further.choice(among)
    rng = drawing("inputs")
    rows = rng.randrange(100, 300)
    count = rng.choice([1, 1, 2])
    rescaling = drawing("rescaling")
    swarm = RandomWorld(
        seed=seed,
        program=program,
        inputs=tuple(
            _draw_input(drawing(f"input {number}"), number, rows // count, program)
            for number in range(count)
        ),
        parallelisms=tuple(rescaling.randrange(1, 5) for _ in range(rescaling.choice([1, 3, 3]))),
        min_parallelism=rescaling.choice([None, 1]),
        checkpoint=draw_checkpoints(drawing("checkpoints")),
        task=draw_task(drawing("task"), has_least=program.has_least),
        faults=Faults.draw(drawing("faults")),
        requests=draw_requests(drawing("requests")),
        forks=drawing("forks").random() < 0.5,
        on_driver=drawing("on driver").random() < 0.3,
    )
    drawn = climate or drawing("climate").choice(
        [Climate.SWARM, Climate.SWARM, Climate.SWARM, Climate.STALLS, Climate.MOVES, Climate.RIVALS]
    )
    return _CLIMATES[drawn](swarm, drawing(drawn.name))


def _steady(world: RandomWorld, rng: Random) -> RandomWorld:
    """Return the world with keyed state that changes little from one checkpoint to the next."""
    program = rng.choice([*_KEYED, programs.TWICE_KEYED])
    return replace(
        world,
        program=program,
        inputs=tuple(
            replace(
                of,
                rows=rng.randrange(200, 400) // len(world.inputs),
                rate_per_s=400.0,
                keys=rng.choice([20, 40]),
                hot_keys=rng.randrange(1, 3),
                idle_after_ms=None if program.check_idle is None else of.idle_after_ms,
            )
            for of in world.inputs
        ),
        checkpoint=replace(
            world.checkpoint, interval_ms=rng.choice([10, 20]), max_concurrent=rng.randrange(1, 4)
        ),
        task=replace(world.task, guarantee=Guarantee.EXACTLY_ONCE),
    )


def _stalls(world: RandomWorld, rng: Random) -> RandomWorld:
    world = _steady(world, rng)
    return replace(
        world,
        parallelisms=(rng.randrange(2, 4),),
        checkpoint=replace(world.checkpoint, timeout_ms=rng.choice([40, 60, 100])),
        task=replace(world.task, unaligned_after_us=rng.choice([None, 0, 0, 5_000])),
        faults=Faults(
            clog=rng.uniform(4.0, 12.0),
            slow_network=rng.uniform(0.0, 3.0),
            crash_slot=rng.uniform(0.5, 2.0),
            lose_message=rng.choice([0.0, 0.1]),
            store_error=rng.choice([0.0, 0.1]),
            until_us=rng.randrange(500_000, 1_200_000),
        ),
        requests=Requests(),
    )


def _moves(world: RandomWorld, rng: Random) -> RandomWorld:
    world = _steady(world, rng)
    return replace(
        world,
        checkpoint=replace(world.checkpoint, timeout_ms=1500),
        faults=Faults(
            crash_slot=rng.choice([0.0, 0.5]),
            store_slow=rng.choice([0.0, 3.0, 6.0]),
            slow_network=rng.choice([0.0, 2.0]),
            until_us=2_000_000,
        ),
        requests=Requests(
            savepoint=rng.choice([0.0, 2.0]),
            stop=rng.uniform(1.0, 3.0),
            resume_from_savepoint=1.0,
            leave=rng.choice([0.3, 1.0]),
        ),
        forks=True,
    )


def _rivals(world: RandomWorld, rng: Random) -> RandomWorld:
    return replace(
        world,
        checkpoint=replace(world.checkpoint, interval_ms=rng.choice([10, 20])),
        faults=Faults(
            crash_driver=rng.uniform(1.0, 4.0),
            sleeping_driver=0.9,
            crash_slot=rng.choice([0.0, 1.0]),
            zombie=0.5,
            store_slow=rng.choice([0.0, 2.0]),
            clock_skew_ms=rng.choice([0.0, 60_000.0]),
            until_us=rng.randrange(1_000_000, 2_000_000),
        ),
        requests=replace(world.requests, stop=0.0, drain=0.0),
    )


def _phases(world: RandomWorld, rng: Random) -> RandomWorld:
    return replace(
        world,
        inputs=tuple(
            replace(of, splits=rng.randrange(2, 7), phases=rng.randrange(2, 4), rate_per_s=600.0)
            for of in world.inputs
        ),
        checkpoint=replace(world.checkpoint, interval_ms=rng.choice([10, 20])),
    )


def _appears(world: RandomWorld, rng: Random) -> RandomWorld:
    program = world.program
    if program.check_idle is None:
        program = rng.choice([programs.STATELESS, programs.RUNNING, programs.COUNTED])
    return replace(
        world,
        program=program,
        inputs=tuple(_appearing(of, rng) for of in world.inputs),
        checkpoint=replace(world.checkpoint, interval_ms=rng.choice([30, 60, 100])),
        faults=replace(world.faults, until_us=rng.randrange(300_000, 1_200_000)),
        requests=replace(world.requests, drain=0.0, until_us=1_000_000),
    )


def _appearing(of: DrawnInput, rng: Random) -> DrawnInput:
    drifts = not of.assigned_after_source and rng.random() < 0.5
    return replace(
        of,
        splits=rng.randrange(2, 7),
        appears=True,
        rate_per_s=600.0,
        idle_after_ms=60 if drifts else None,
        max_drift_ms=rng.choice([1, 20, 100]) if drifts else None,
    )


_CLIMATES: dict[Climate, Callable[[RandomWorld, Random], RandomWorld]] = {
    Climate.SWARM: lambda world, _: world,
    Climate.STALLS: _stalls,
    Climate.MOVES: _moves,
    Climate.RIVALS: _rivals,
    Climate.PHASES: _phases,
    Climate.APPEARS: _appears,
}
_NEVER_READ_MS = 12_000


_KEYED = (
    programs.RUNNING,
    programs.REDUCED,
    programs.COUNTED,
    programs.VECTORISED,
    programs.TWICE_KEYED,
    programs.ORDERED,
)


_FURTHER: dict[str, tuple[CheckedProgram, ...]] = {
    "further program": (
        connected_programs.CONNECTED,
        connected_programs.BROADCAST,
        connected_programs.FOLLOWED,
        *join_programs.PROGRAMS,
        changelog_programs.TABLES,
    ),
    "loops, windows and compiled functions": (
        *loop_programs.PROGRAMS,
        TRIGGERED,
        COMPILED,
        programs.windows(60, 20, 10, whole=True),
        EXPIRING,
    ),
    "waiting functions and co-groups": (OUTSIDE, join_programs.CO_GROUPED),
}
"""Programs that take the place of some seeds' own: what is added here leaves the other seeds alone."""

_FURTHER_IN = 0.2


def _draw_program(rng: Random) -> CheckedProgram:
    every = rng.choice([20, 50, 100])
    size = every * rng.choice([1, 1, 2, 3])
    lateness = rng.choice([0, 0, 10, 60])
    windows = programs.windows(size, every, lateness)
    return rng.choice(
        [
            programs.STATELESS,
            programs.RUNNING,
            programs.REDUCED,
            programs.COUNTED,
            programs.VECTORISED,
            programs.TWICE_KEYED,
            programs.TWICE_KEYED,
            programs.NARROW,
            programs.ORDERED,
            programs.ORDERED,
            windows,
            windows,
            sessions(every, lateness),
        ]
    )


def _stream(env: Environment, of: DrawnInput, name: str) -> DataStream:
    if of.assigned_after_source:
        return env.from_source(of.source(), name=name).with_event_time(of.watermark())
    return env.from_source(of.source(), watermark=of.watermark(), name=name)


def _draw_input(rng: Random, number: int, rows: int, program: CheckedProgram) -> DrawnInput:
    jitter_ms = rng.choice([0, 5, 30, 100])
    keys = rng.choice([1, 3, 20, 80, 80])
    return DrawnInput(
        splits=rng.randrange(1, 6),
        rows=max(rows, 1),
        rate_per_s=rng.choice([150.0, 300.0, 600.0]),
        block_rows=rng.choice([7, 50, 1000]),
        keys=keys,
        hot_keys=rng.randrange(1, min(keys, 4) + 1),
        jitter_ms=jitter_ms,
        bound_ms=rng.choice([0, jitter_ms // 2, jitter_ms]),
        first=number * 10_000,
        seed=rng.randrange(1_000_000),
        pause_ms=rng.choice([0, 0, 150]),
        idle_after_ms=rng.choice([None, 20, 60]) if program.check_idle is not None else None,
    )
