"""Runs programs of snapshots in simulated worlds, up to some moment and from stored files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.state_config import Backend, NewAggregates, StateConfig
from rheos.core.task.config import TaskConfig
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.world import World
from tests.compat.programs import Outputs

JOB = JobId("kept")
Rows = list[dict[str, Any]]


class Published(msgspec.Struct, frozen=True):
    """Committable: rows with a name that is unique."""

    name: str
    rows: bytes


@dataclass(frozen=True, eq=False)
class CarryingSink(Sink):
    """Sink whose committables contain the rows: they are published from any checkpoint, in any
    process."""

    published: dict[str, Rows] = field(default_factory=dict)

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _Writer(ctx)

    def committer(self) -> Committer:
        return _Committer(self.published)

    def __deepcopy__(self, memo: dict[int, Any]) -> CarryingSink:
        return self

    @property
    def rows(self) -> Rows:
        return [row for rows in self.published.values() for row in rows]


class _Writer(SinkWriter):
    def __init__(self, ctx: SinkContext) -> None:
        self._ctx = ctx
        self._batches: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self._batches.append(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        batches, self._batches = self._batches, []
        if not batches:
            return []
        rows = [jsonable(row) for row in pa.Table.from_batches(batches).to_pylist()]
        name = f"{self._ctx.attempt}/{self._ctx.subtask}/{checkpoint}"
        return [msgspec.msgpack.encode(Published(name, msgspec.json.encode(rows)))]


@dataclass(frozen=True)
class _Committer(Committer):
    published: dict[str, Rows]

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in committables:
            found = msgspec.msgpack.decode(committable, type=Published)
            self.published[found.name] = msgspec.json.decode(found.rows)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        pass


def jsonable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.timestamp() if hasattr(value, "timestamp") else value for name, value in row.items()
    }


@dataclass
class Kept:
    """Program in a world."""

    world: World
    sinks: Mapping[str, CarryingSink]

    def rows(self) -> dict[str, Rows]:
        """Return the published rows by output."""
        return {name: sink.rows for name, sink in self.sinks.items()}

    def job(self) -> SimulatedJob:
        return SimulatedJob(self.world)


def begin(
    build: Callable[[rh.Environment], Outputs],
    *,
    parallelism: int = 2,
    interval_ms: int | None = None,
    files: Mapping[str, bytes] | None = None,
    from_savepoint: str | None = None,
    allow_dropped: bool = False,
    new_aggregates: NewAggregates | None = None,
    renamed: Mapping[str, str] | None = None,
    published: Mapping[str, Mapping[str, Rows]] | None = None,
    backend: Backend = Backend.MEMORY,
    seed: int = 7,
) -> Kept:
    """Build the program; time passes when its world is run. `published` has the rows that sinks
    published before."""
    env = rh.Environment(parallelism, max_parallelism=16, runtime="simulated")
    sinks = {}
    for name, stream in build(env).items():
        sinks[name] = CarryingSink(dict((published or {}).get(name, {})))
        stream.sink_to(sinks[name], name=name, uid=f"sink of {name}")
    plan: PhysicalPlan = env.plan("kept")
    config = JobConfig(
        JOB,
        checkpoint=CheckpointConfig(interval_ms=interval_ms, retain=1),
        task=TaskConfig(batch_rows=16),
        from_savepoint=from_savepoint,
        allow_dropped=allow_dropped,
        state=StateConfig(backend, new_aggregates=new_aggregates),
        renamed=renamed or {},
    )
    stored = files or {}
    log = {path for path in stored if path.startswith(f"{JOB}/log/")}
    others = {path: data for path, data in stored.items() if path not in log}
    world = World(plan, config, seed=seed, files=others)
    for path in sorted(log):
        # Who watches the world must know what the job has done before.
        world.watch.written(path, stored[path])
        world.store.files[path] = stored[path]
    return Kept(world, sinks)
