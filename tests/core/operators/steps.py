"""Input for tests of keyed functions: users' steps as one split of rows, and the output per user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

import rheos as rh
from rheos import testing
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.config import TaskConfig

BOUND_MS = 40


@dataclass
class Step:
    user: int
    at: int


@dataclass
class DecisionLog:
    user: int
    text: str


def keyed_steps(env: rh.Environment, given: list[Step]) -> rh.KeyedStream:
    watermark = rh.Watermark.bounded_out_of_orderness(f"{BOUND_MS}ms", on="at")
    rows = env.from_source(rh.collection(given), watermark=watermark)
    return rows.filter("at >= 0").key_by("user")


def stories(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["user"].to_pylist(), table["text"].to_pylist(), strict=True))


def heard(
    build: Callable[[rh.Environment], rh.DataStream], batch_rows: int, backend: Backend
) -> list[tuple[int, str]]:
    """Return the output per user of a run without failures, with batches of this number of rows."""
    done = testing.simulate(
        build,
        seed=batch_rows,
        faults=testing.Faults(until_us=0),
        parallelism=1,
        task=TaskConfig(batch_rows=batch_rows),
        state=StateConfig(backend),
    )
    return stories(done.out)
