"""Worlds drawn from a seed: a program, its input, its settings, its faults; and their check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.checkpoint.config import CheckpointConfig
from rheos.connectors.contract import Pending, Polled, ReaderContext, Source, Split, SplitReader
from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.graph.windows import Watermark
from rheos.protocol.elements import MIN_TIMESTAMP_MS
from rheos.protocol.ids import OperatorId
from rheos.protocol.ports import Clock
from rheos.protocol.state_config import StateConfig
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.requests import Requests
from rheos.task.config import Guarantee, TaskConfig
from rheos.testing import programs
from rheos.testing.programs import Arrived, Program
from rheos.testing.simulation import CHECKPOINTS, Simulated, Taken, simulate

_START_MS = 1_700_000_000_000


def _row(position: bytes | None) -> int:
    return 0 if position is None else msgspec.msgpack.decode(position, type=int)


@dataclass(frozen=True)
class PausingSource(Source):
    """A generator some of whose splits give nothing for a while, and then all that was due."""

    source: GeneratorSource
    pause_ms: int

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return True

    def splits(self) -> Sequence[Split]:
        return self.source.splits()

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = self.source.open(split, position, ctx)
        if int(split.id) % 2 == 0:
            return reader
        return _PausingReader(reader, self.pause_ms * 1000, ctx.clock)


class _PausingReader(SplitReader):
    """Falls quiet after its first rows, once in an attempt."""

    def __init__(self, reader: SplitReader, pause_us: int, clock: Clock) -> None:
        self._reader = reader
        self._pause_us = pause_us
        self._clock = clock
        self._given = False
        self._until_us: int | None = None

    def poll(self, max_rows: int) -> Polled:
        if self._given:
            now_us = self._clock.monotonic_us()
            if self._until_us is None:
                self._until_us = now_us + self._pause_us
            if now_us < self._until_us:
                return Pending(self._until_us - now_us)
        polled = self._reader.poll(max_rows)
        self._given |= isinstance(polled, pa.RecordBatch)
        return polled

    def position(self) -> bytes:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True)
class Input:
    """One source. `jitter_ms` is how far its rows are out of order, `bound_ms` how far the watermark
    lets them be: rows are late where the first is more."""

    splits: int
    rows: int
    rate_per_s: float
    block_rows: int
    keys: int
    hot_keys: int
    jitter_ms: int
    bound_ms: int
    first: int
    """The number of its first row."""
    seed: int

    pause_ms: int
    """How long some of its splits fall quiet, some rows after their beginning; 0 never."""
    idle_after_ms: int | None

    def watermark(self) -> Watermark:
        return Watermark.bounded_out_of_orderness(
            f"{self.bound_ms}ms",
            on="at",
            idle_after=None if self.idle_after_ms is None else f"{self.idle_after_ms}ms",
        )

    def source(self) -> Source:
        made = self._generator()
        return PausingSource(made, self.pause_ms) if self.pause_ms else made

    def _generator(self) -> GeneratorSource:
        return generator(
            self.make,
            count=self.rows,
            rate_per_s=self.rate_per_s,
            splits=self.splits,
            block_rows=self.block_rows,
            seed=self.seed,
        )

    def make(self, block: Block) -> dict[str, Any]:
        order = block.index() * self.splits + block.split
        rng = block.rng()
        behind = rng.integers(0, self.jitter_ms + 1, block.rows)
        return {
            "k": self._keys(rng, order),
            "i": self.first + order,
            "v": rng.integers(1, 10, block.rows).astype(np.float64),
            "at": (_START_MS + order * 2 - behind).astype("datetime64[ms]"),
        }

    def _keys(self, rng: np.random.Generator, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """At first each key once, then few of them: so the first checkpoint is long, those after it are
        short, and what is restored is a chain of them."""
        hot = rng.integers(0, self.hot_keys, len(order))
        any_key = rng.integers(0, self.keys, len(order))
        later = np.where(rng.random(len(order)) < 0.7, hot, any_key)
        return np.where(order < self.keys, order, later)

    def arrived(self, positions: Mapping[str, bytes | None] | None = None) -> list[Arrived]:
        """The rows, each with the watermark of its split before it; only those before the positions,
        where these are given."""
        source, rows = self._generator(), []
        for split in range(self.splits):
            start, watermark = 0, MIN_TIMESTAMP_MS
            end = self.rows if positions is None else _row(positions[source.splits()[split].id])
            while (block := source.block(split, start)).rows:
                made = self.make(block)
                columns = [made[name].tolist()[: max(end - start, 0)] for name in ("k", "i", "v")]
                times = made["at"].astype(np.int64).tolist()[: max(end - start, 0)]
                for k, i, v, at in zip(*columns, times, strict=True):
                    rows.append(Arrived(k, i, v, at, watermark))
                    watermark = max(watermark, at - self.bound_ms - 1)
                start += block.rows
        return rows


@dataclass(frozen=True)
class Drawn:
    """All that a seed decides."""

    seed: int
    program: Program
    inputs: tuple[Input, ...]
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

    def run(self, from_savepoint: Taken | None = None) -> Simulated:
        """Runs it, with its faults."""
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
        )

    def check(self, done: Simulated) -> None:
        """Raises AssertionError where the outputs are not the oracle's; nor those of a fork, together
        with what had been published before its savepoint."""
        self._check(done, {})
        # After a drain nothing of the input is left to read, though not all of it was read.
        savepoints = [taken for taken in done.savepoints if not (taken.final and done.drained)]
        if self.forks and savepoints:
            taken = savepoints[self.seed % len(savepoints)]
            fork = self._fork()
            try:
                fork._check(fork.run(taken), taken.rows)
            except Exception as error:
                error.add_note(f"from the savepoint {taken.directory}:\n{fork}")
                raise

    def _check(self, done: Simulated, before: Mapping[str, pa.Table]) -> None:
        rows = [
            row
            for number, of in enumerate(self.inputs, 1)
            for row in of.arrived(
                done.positions[OperatorId(f"source-{number}")] if done.drained else None
            )
        ]
        outputs = {
            name: [*before[name].to_pylist(), *table.to_pylist()] if before else table.to_pylist()
            for name, table in done.rows.items()
        }
        if self.task.guarantee is Guarantee.AT_LEAST_ONCE:
            self.program.check_at_least(rows, outputs)
        elif any(of.idle_after_ms is not None for of in self.inputs):
            assert self.program.check_idle is not None
            self.program.check_idle(rows, outputs)
        else:
            self.program.check(rows, outputs)

    def _fork(self) -> Drawn:
        """The world of the job that is started from a savepoint: other settings, other faults."""
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
        streams = [
            env.from_source(of.source(), watermark=of.watermark(), name=f"rows {number}")
            for number, of in enumerate(self.inputs)
        ]
        first, *others = streams
        return self.program.build(first.union(*others) if others else first)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.program.name}, parallelism {self.parallelisms}"]
        lines += [f"  {of}" for of in self.inputs]
        lines += [f"  {self.task}", f"  {self.checkpoint}", f"  {self.requests}"]
        return "\n".join([*lines, f"  faults: {self.faults or 'none'}"])


def draw_world(seed: int) -> Drawn:
    """What the seed stands for. Small, so that a seed takes a fraction of a second.

    Each part is drawn by itself, so that a change of one leaves the others of a seed as they were.
    """

    def drawing(what: str) -> Random:
        return Random(f"{seed}/{what}")

    program = _draw_program(drawing("program"))
    rng = drawing("inputs")
    rows = rng.randrange(100, 300)
    count = rng.choice([1, 1, 2])
    rescaling = drawing("rescaling")
    return Drawn(
        seed=seed,
        program=program,
        inputs=tuple(
            _draw_input(drawing(f"input {number}"), number, rows // count, program)
            for number in range(count)
        ),
        parallelisms=tuple(rescaling.randrange(1, 5) for _ in range(rescaling.choice([1, 3, 3]))),
        min_parallelism=rescaling.choice([None, 1]),
        checkpoint=_draw_checkpoints(drawing("checkpoints")),
        task=_draw_task(drawing("task"), program),
        faults=Faults.draw(drawing("faults")),
        requests=_draw_requests(drawing("requests")),
        forks=drawing("forks").random() < 0.5,
    )


def _draw_checkpoints(rng: Random) -> CheckpointConfig:
    return replace(
        CHECKPOINTS,
        interval_ms=rng.choice([10, 20, 40, 100]),
        # Sometimes too short: then checkpoints are aborted while subtasks take them.
        timeout_ms=rng.choice([60, 100, 1500, 1500]),
        retain=rng.randrange(1, 4),
        max_concurrent=rng.choice([1, 1, 2, 3]),
    )


def _draw_task(rng: Random, program: Program) -> TaskConfig:
    least = program.has_least and rng.random() < 0.1
    return TaskConfig(
        batch_rows=rng.choice([1, 3, 8, 16, 64]),
        buffer_timeout_us=rng.choice([0, 10_000, None]),
        credits=rng.randrange(1, 5),
        guarantee=Guarantee.AT_LEAST_ONCE if least else Guarantee.EXACTLY_ONCE,
        unaligned_after_us=None if least else rng.choice([None, None, None, 0, 0, 5_000, 30_000]),
    )


def _draw_requests(rng: Random) -> Requests:
    """Few worlds have nothing asked of them, and few have all."""

    def rate(share: float, least: float, most: float) -> float:
        return rng.uniform(least, most) if rng.random() < share else 0.0

    return Requests(
        cancel=rate(0.3, 0.5, 3.0),
        savepoint=rate(0.4, 1.0, 6.0),
        stop=rate(0.4, 0.5, 3.0),
        drain=rate(0.1, 0.5, 2.0),
        resume_from_savepoint=rng.choice([0.0, 0.5, 1.0]),
    )


def _draw_program(rng: Random) -> Program:
    every = rng.choice([20, 50, 100])
    size = every * rng.choice([1, 1, 2, 3])
    windows = programs.windows(size, every, rng.choice([0, 0, 10, 60]))
    return rng.choice(
        [
            programs.STATELESS,
            programs.RUNNING,
            programs.REDUCED,
            programs.COUNTED,
            programs.TWICE_KEYED,
            programs.TWICE_KEYED,
            programs.TWICE_KEYED,
            programs.ORDERED,
            programs.ORDERED,
            windows,
            windows,
            windows,
        ]
    )


def _draw_input(rng: Random, number: int, rows: int, program: Program) -> Input:
    jitter_ms = rng.choice([0, 5, 30, 100])
    keys = rng.choice([1, 3, 20, 80, 80])
    return Input(
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
