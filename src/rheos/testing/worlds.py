"""Worlds drawn from a seed: a program, its input, its settings, its faults; and their check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.checkpoint.config import CheckpointConfig
from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.graph.windows import Watermark
from rheos.protocol.elements import MIN_TIMESTAMP_MS
from rheos.runtimes.simulated.faults import Faults
from rheos.task.config import TaskConfig
from rheos.testing import programs
from rheos.testing.programs import Arrived, Program
from rheos.testing.simulation import CHECKPOINTS, Simulated, simulate

_START_MS = 1_700_000_000_000


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

    def source(self) -> GeneratorSource:
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

    def arrived(self) -> list[Arrived]:
        """The rows, each with the watermark of its split before it."""
        source, rows = self.source(), []
        for split in range(self.splits):
            start, watermark = 0, MIN_TIMESTAMP_MS
            while (block := source.block(split, start)).rows:
                made = self.make(block)
                columns = [made[name].tolist() for name in ("k", "i", "v")]
                times = made["at"].astype(np.int64).tolist()
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
    checkpoint: CheckpointConfig
    task: TaskConfig
    faults: Faults

    def run(self) -> Simulated:
        """Runs it, with its faults."""
        return simulate(
            self._build,
            seed=self.seed,
            faults=self.faults,
            parallelism=self.parallelisms[0],
            parallelisms=self.parallelisms,
            checkpoint=self.checkpoint,
            task=self.task,
        )

    def check(self, done: Simulated) -> None:
        """Raises AssertionError where the outputs are not the oracle's."""
        rows = [row for of in self.inputs for row in of.arrived()]
        self.program.check(rows, {name: table.to_pylist() for name, table in done.rows.items()})

    def _build(self, env: Environment) -> Mapping[str, DataStream]:
        streams = [
            env.from_source(
                of.source(),
                watermark=Watermark.bounded_out_of_orderness(f"{of.bound_ms}ms", on="at"),
                name=f"rows {number}",
            )
            for number, of in enumerate(self.inputs)
        ]
        first, *others = streams
        return self.program.build(first.union(*others) if others else first)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.program.name}, parallelism {self.parallelisms}"]
        lines += [f"  {of}" for of in self.inputs]
        lines += [f"  {self.task}", f"  {self.checkpoint}", f"  faults: {self.faults or 'none'}"]
        return "\n".join(lines)


def draw_world(seed: int) -> Drawn:
    """What the seed stands for. Small, so that a seed takes a fraction of a second."""
    rng = Random(seed)
    program = _draw_program(rng)
    rows = rng.randrange(80, 300)
    count = rng.choice([1, 1, 2])
    inputs = tuple(_draw_input(rng, number, rows // count) for number in range(count))
    return Drawn(
        seed=seed,
        program=program,
        inputs=inputs,
        parallelisms=tuple(rng.randrange(1, 5) for _ in range(rng.choice([1, 3]))),
        checkpoint=replace(
            CHECKPOINTS,
            interval_ms=rng.choice([15, 30, 70, 200]),
            # Sometimes too short: then checkpoints are aborted while subtasks take them.
            timeout_ms=rng.choice([100, 1500, 1500]),
            retain=rng.randrange(1, 4),
        ),
        task=TaskConfig(
            batch_rows=rng.choice([1, 3, 8, 16, 64]),
            buffer_timeout_us=rng.choice([0, 10_000, None]),
            credits=rng.randrange(1, 5),
        ),
        faults=Faults.draw(rng),
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
            programs.ORDERED,
            programs.ORDERED,
            windows,
            windows,
            windows,
        ]
    )


def _draw_input(rng: Random, number: int, rows: int) -> Input:
    jitter_ms = rng.choice([0, 5, 30, 100])
    keys = rng.choice([1, 3, 20, 80])
    return Input(
        splits=rng.randrange(1, 6),
        rows=max(rows, 1),
        rate_per_s=rng.choice([200.0, 400.0, 800.0]),
        block_rows=rng.choice([7, 50, 1000]),
        keys=keys,
        hot_keys=rng.randrange(1, min(keys, 4) + 1),
        jitter_ms=jitter_ms,
        bound_ms=rng.choice([0, jitter_ms // 2, jitter_ms]),
        first=number * 10_000,
        seed=rng.randrange(1_000_000),
    )
