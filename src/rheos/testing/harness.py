"""Replay of an operator's example in every way that must not change its result.

The output of an operator must not depend on the division of its rows into batches, on the times at
which its output is read, or on checkpoints, restores and parallelism. So one script is replayed in many
ways, and each replay must emit the rows of the first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.collection import collection
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import restored_state
from rheos.core.checkpoint.savepoint_writer import SavepointWriter
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.errors import ProgramError
from rheos.core.graph.changelog import Changes
from rheos.core.graph.validate import check_graph
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import AsyncOperator, Operator, OperatorContext, Out
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator, ToOperator
from rheos.core.plan.planner import make_plan
from rheos.core.protocol.elements import (
    HIDDEN_PREFIX,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SPLIT,
    SWM,
    TS,
    WM,
    WatermarkMark,
    visible,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.snapshots import Snapshot, StateHandle
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.state import format as state_format
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.partition import Partitioner
from rheos.core.times import epoch_ms
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import InstantIo
from rheos.runtimes.simulated.store import MemoryStore
from rheos.testing.memory import MemorySink

Transform = Callable[..., DataStream | Mapping[str, DataStream]]


@dataclass(frozen=True)
class Right:
    """A row of the second stream."""

    row: Mapping[str, Any]


Step = Mapping[str, Any] | Right | WatermarkMark
Rows = dict[str, list[dict[str, Any]]]
_JOB = JobId("example")
_MAX_PARALLELISM = 16


@dataclass(frozen=True)
class OperatorExample:
    """One operator, and its input.

    `transform` receives a stream, and applies a single operator to it. The output is the stream that it
    returns, or several by name. A step of `script` is a row, or `WatermarkMark(ms)`: the rows after the
    mark arrive with that watermark. At the end the watermark rises to the end of time.

    With `right`, `transform` receives two streams, and the rows of the second are steps `Right({...})`.

    ```python
    def counted(stream):
        return stream.key_by("user").running(n=rh.agg.count())

    schema = pa.schema([("user", pa.string())])
    testing.check_example(testing.OperatorExample(counted, schema, [{"user": "ada"}]))
    ```
    """

    transform: Transform
    schema: pa.Schema
    script: Sequence[Step]
    on: str | None = None
    """Event-time column, if there is one."""
    right: pa.Schema | None = None
    """Columns of the second stream; None if there is only one."""
    right_on: str | None = None
    """Event-time column of the second stream, if there is one."""
    last_by: tuple[str, ...] = ()
    """For results that replace each other, such as those of windows with allowed lateness: only the
    last one of each combination of these columns counts."""
    upserts_by: tuple[str, ...] = ()
    """Key of a table whose upserts the rows are; their column `op` has the kind of change."""
    right_upserts_by: tuple[str, ...] = ()
    """Key of the second stream, if its rows are upserts."""


@dataclass(frozen=True)
class ReplayMode:
    """A way to replay a script."""

    name: str
    together: bool = False
    """Whether rows between watermarks arrive in one batch instead of one by one."""
    batch_rows: int = 1000
    parallelisms: Sequence[int] = (1,)
    """Parallelism at the start, and after each restore in turn."""
    checkpoint_every: int = 0
    """Number of steps between checkpoints; 0 for none."""
    restore_every: int = 0
    """Number of checkpoints between restores; 0 for none."""
    lose_every: int = 0
    """Number of checkpoints between those that are lost; the operator is notified. 0 loses none."""
    from_savepoints: bool = False
    """Whether a restore uses a savepoint that was taken with the checkpoint."""
    on_disk: bool = False
    """Whether state is on local disk, with almost no memory: the backend is rocksdb."""


REPLAYS = (
    ReplayMode("whole", together=True),
    ReplayMode("row by row", batch_rows=1),
    ReplayMode("in parallel", together=True, parallelisms=(3,)),
    ReplayMode("row by row, in parallel", batch_rows=1, parallelisms=(4,)),
    ReplayMode("checkpoints only", checkpoint_every=1),
    ReplayMode("restored at every pause", parallelisms=(2,), checkpoint_every=1, restore_every=1),
    ReplayMode(
        "rescaled at every pause",
        batch_rows=1,
        parallelisms=(1, 3, 2, 4),
        checkpoint_every=1,
        restore_every=1,
    ),
    ReplayMode("restored from chains", parallelisms=(2, 3), checkpoint_every=1, restore_every=4),
    ReplayMode(
        "with lost checkpoints",
        parallelisms=(2, 1),
        checkpoint_every=1,
        restore_every=5,
        lose_every=2,
    ),
    ReplayMode(
        "from savepoints",
        parallelisms=(2, 3),
        checkpoint_every=1,
        restore_every=3,
        from_savepoints=True,
    ),
    ReplayMode("on disk", together=True, on_disk=True),
    ReplayMode(
        "on disk, rescaled at every other pause",
        parallelisms=(1, 3, 2),
        checkpoint_every=1,
        restore_every=2,
        on_disk=True,
    ),
    ReplayMode(
        "from savepoints, on disk",
        parallelisms=(2, 3),
        checkpoint_every=1,
        restore_every=3,
        from_savepoints=True,
        on_disk=True,
    ),
)


def replay(example: OperatorExample, way: ReplayMode = REPLAYS[0]) -> Rows:
    """Replay an example once.

    ```python
    assert testing.replay(example)["out"]
    ```

    Args:
        example: The operator and its input.
        way: How to replay it: the batches, and where it is restored.

    Returns:
        The rows of each output, in the order in which they were emitted.
    """
    return _Run(example, way).run()


def check_example(
    example: OperatorExample, golden: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
) -> Rows:
    """Replay an example in all ways, and check that the rows are the same each time, in any order.

    ```python
    testing.check_example(example, golden={"out": [{"user": "ada", "n": 1}]})
    ```

    Args:
        example: The operator and its input.
        golden: The expected rows of each output, without hidden columns; by default those of the first
            replay.

    Returns:
        The rows of each output. AssertionError is raised if a replay has other rows.
    """
    first = replay(example)
    if golden is not None:
        _same("whole", golden, _visible_rows(first), example.last_by)
    for way in REPLAYS[1:]:
        _same(way.name, first, replay(example, way), example.last_by)
    return first


def _visible_rows(rows: Rows) -> Rows:
    """Return rows without the hidden columns."""
    return {
        output: [
            {name: value for name, value in row.items() if not name.startswith(HIDDEN_PREFIX)}
            for row in of_output
        ]
        for output, of_output in rows.items()
    }


def _same(
    name: str,
    wanted: Mapping[str, Sequence[Mapping[str, Any]]],
    got: Mapping[str, Sequence[Mapping[str, Any]]],
    last_by: tuple[str, ...],
) -> None:
    for output in {**wanted, **got}:
        counted = Counter(_settled(got.get(output, ()), last_by))
        expected = Counter(_settled(wanted.get(output, ()), last_by))
        assert counted == expected, (
            f"{name}: output {output!r} lacks {list((expected - counted).elements())} and has "
            f"the extra rows {list((counted - expected).elements())}"
        )


def _settled(rows: Sequence[Mapping[str, Any]], last_by: tuple[str, ...]) -> list[str]:
    if last_by and all(name in row for row in rows for name in last_by):
        rows = list({tuple(row[name] for name in last_by): row for row in rows}.values())
    return [repr(sorted(row.items())) for row in rows]


# --- the replay -----------------------------------------------------------------------------------


@dataclass
class _Run:
    """A run of all subtasks of the operator through one script."""

    example: OperatorExample
    way: ReplayMode
    rows: Rows = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._planned, self._names = _planned(self.example)
        self._store = MemoryStore()
        self._clock = SimClock()
        self._parallelisms = cycle(self.way.parallelisms)
        self._attempt = 0
        self._checkpoint = 0
        self._watermark = MIN_TIMESTAMP_MS
        self.rows.update({name: [] for name in self._names.values()})
        self._disk = TemporaryDirectory() if self.way.on_disk else None
        self._start(None)

    def run(self) -> Rows:
        for number, step in enumerate(self._steps(), 1):
            if isinstance(step, WatermarkMark):
                self._watermark = step.timestamp_ms
                self._drive([op.on_watermark(step.timestamp_ms) for op in self._subtasks])
            else:
                self._feed(*step)
            if self.way.checkpoint_every and number % self.way.checkpoint_every == 0:
                self._take_checkpoint()
        self._drive([op.on_watermark(MAX_TIMESTAMP_MS) for op in self._subtasks])
        self._drive([op.on_end() for op in self._subtasks])
        self._close()
        if self._disk is not None:
            self._disk.cleanup()
        return self.rows

    def _steps(self) -> Iterator[tuple[int, list[Mapping[str, Any]]] | WatermarkMark]:
        """Yield batches of rows with their port, and watermarks."""
        gathered: dict[int, list[Mapping[str, Any]]] = {}
        for step in self.example.script:
            if isinstance(step, WatermarkMark):
                yield from gathered.items()
                gathered = {}
                yield step
                continue
            port, row = (1, step.row) if isinstance(step, Right) else (0, step)
            if self.way.together:
                gathered.setdefault(port, []).append(row)
            else:
                yield port, [row]
        yield from gathered.items()

    def _feed(self, port: int, rows: list[Mapping[str, Any]]) -> None:
        of_port = self._planned.ports[port]
        shown = pa.RecordBatch.from_pylist(rows, visible(of_port.schema))
        columns = {name: shown.column(name) for name in shown.schema.names}
        on = (self.example.on, self.example.right_on)[port]
        if on is not None:
            columns[TS] = pa.array(epoch_ms(shown.column(on)))
        columns[WM] = columns[SWM] = pa.array([self._watermark] * shown.num_rows, pa.int64())
        columns[SPLIT] = pa.array([0] * shown.num_rows, pa.int64())
        schema = of_port.schema
        batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        parts: Sequence[pa.RecordBatch | None] = [batch]
        if of_port.keys:
            cut = Partitioner(of_port.keys, len(self._subtasks), _MAX_PARALLELISM)
            parts = cut.split(batch)
        elif of_port.broadcast:
            parts = [batch] * len(self._subtasks)
        pairs = zip(self._subtasks, parts, strict=False)
        self._drive([self._process_batch(op, port, part) for op, part in pairs if part is not None])

    def _process_batch(self, op: Operator, port: int, batch: pa.RecordBatch) -> Iterator[Out]:
        if not isinstance(op, AsyncOperator):
            return op.on_batch(port, batch)
        begun = op.begin(port, batch)
        assert begun.ready(), "the I/O of an example completes immediately"
        return begun.finish(batch)

    def _drive(self, calls: list[Iterator[Out]]) -> None:
        """Take one batch from each call in turn, while the other calls are suspended."""
        while calls:
            left = []
            for call in calls:
                out = next(call, None)
                if out is not None:
                    self._take(out)
                    left.append(call)
            calls = left

    def _take(self, out: Out) -> None:
        declared = self._planned.outputs.get(out.tag)
        assert declared is not None, f"rows for {out.tag!r}, which no operator reads"
        assert out.batch.schema == declared.schema, f"{out.batch.schema} is not {declared.schema}"
        self.rows[self._names[out.tag]] += out.batch.to_pylist()

    # --- checkpoints ------------------------------------------------------------------------------

    def _take_checkpoint(self) -> None:
        self._checkpoint += 1
        checkpoint = CheckpointId(self._checkpoint)
        snapshots = [op.snapshot(checkpoint) for op in self._subtasks]
        if self.way.lose_every and self._checkpoint % self.way.lose_every == 0:
            for op in self._subtasks:
                op.snapshot_failed(checkpoint)
            return
        restores = self.way.restore_every and self._checkpoint % self.way.restore_every == 0
        savepoint = self._savepoint(snapshots) if restores and self.way.from_savepoints else None
        handles = []
        for writer, snapshot in zip(self._writers, snapshots, strict=True):
            handles += writer.begin(checkpoint, [(self._planned.id, snapshot)]).handles()
        if restores:
            self._close()
            self._start(
                CheckpointCompleted(
                    attempt=Attempt(self._attempt),
                    owner="harness",
                    reserved_to=checkpoint,
                    checkpoint=checkpoint,
                    final=False,
                    parallelism=len(self._subtasks),
                    max_parallelism=_MAX_PARALLELISM,
                    operators={self._planned.id: self._planned.name},
                    handles=handles if savepoint is None else savepoint,
                    committables=[],
                )
            )

    def _savepoint(self, snapshots: Sequence[Snapshot]) -> list[StateHandle]:
        """Write the parts that the operator returns for a savepoint with these snapshots."""
        handles = []
        for subtask, (op, snapshot) in enumerate(zip(self._subtasks, snapshots, strict=True)):
            writer = SavepointWriter(lambda: self._store, subtask, InlineIo(), state_format.encode)
            written = writer.begin([(self._planned.id, op.savepoint(snapshot))])
            assert not written.error(), written.error()
            handles += written.handles()
        return handles

    def _start(self, restore: CheckpointCompleted | None) -> None:
        self._attempt += 1
        parallelism = next(self._parallelisms)
        self._subtasks: list[Operator] = []
        self._writers: list[SnapshotWriter] = []
        for subtask in range(parallelism):
            restored = (
                restored_state(restore, subtask, parallelism, self._store, state_format.decode)
                if restore is not None
                else {}
            )
            operator = self._planned.spec.operator(self._context(subtask, parallelism))
            operator.open(restored.get(self._planned.id, {}))
            self._subtasks.append(operator)
            self._writers.append(
                SnapshotWriter(
                    _JOB,
                    Attempt(self._attempt),
                    subtask,
                    self._store,
                    InlineIo(),
                    state_format.encode,
                )
            )

    def _context(self, subtask: int, parallelism: int) -> OperatorContext:
        contexts = OperatorContexts(
            job=_JOB,
            attempt=Attempt(self._attempt),
            max_parallelism=_MAX_PARALLELISM,
            clock=self._clock,
            io=InstantIo(),
            batch_rows=self.way.batch_rows,
            subtask=subtask,
            state=StateConfig(Backend.ROCKSDB if self._disk else Backend.MEMORY),
            state_bytes=0 if self._disk else StateConfig.memory_bytes,
            scratch=f"{self._disk.name}/{self._attempt}-{subtask}" if self._disk else None,
        )
        return contexts.of(self._planned, parallelism)

    def _close(self) -> None:
        for operator in self._subtasks:
            operator.close()


def _planned(example: OperatorExample) -> tuple[PlannedOperator, dict[str, str]]:
    """Return the example's operator, and the name of the output of each tag."""
    env = Environment(1, max_parallelism=_MAX_PARALLELISM)
    given = [_source(env, example.schema, example.on, example.upserts_by)]
    if example.right is not None:
        given.append(_source(env, example.right, example.right_on, example.right_upserts_by))
    made = example.transform(*given)
    for name, stream in (made if isinstance(made, Mapping) else {"out": made}).items():
        stream.sink_to(MemorySink(), name=name)
    found = [
        (chain, operator)
        for chain in whole_rows_plan(env, "example").chains
        for operator in chain.operators
        if operator.spec.reads_from is None and operator.spec.writes_to is None
    ]
    if len(found) != 1:
        raise ProgramError(
            f"an example must have one operator, but this has "
            f"{[operator.name for _, operator in found]}",
            hint="return stream.key_by(...).process(...), without further operators",
        )
    ((chain, operator),) = found
    names = {
        tag: chain.operators[route.index].name
        for tag, routes in operator.routes.items()
        for route in routes
        if isinstance(route, ToOperator)
    }
    return operator, names


def whole_rows_plan(env: Environment, name: str) -> PhysicalPlan:
    """Return the plan of the environment's program in which sources emit all of their columns, because
    a test sends rows with all columns."""
    graph = env._program.graph()
    check_graph(graph)
    return make_plan(
        graph,
        name=name,
        parallelism=env._parallelism,
        max_parallelism=env._max_parallelism,
        context=env.plan(name).context,
        prunes=False,
    )


def _source(
    env: Environment, schema: pa.Schema, on: str | None, upserts_by: tuple[str, ...]
) -> DataStream:
    strategy = None if on is None else Watermark.monotonic(on=on)
    rows = env.from_source(collection(schema.empty_table()), watermark=strategy)
    if upserts_by:
        rows.transformation.with_changes(Changes(upserts_by, retracts=False))
    return rows
