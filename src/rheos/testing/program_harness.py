"""Runs a program one step at a time: a row, a watermark, a jump of the clock, a restart.

```python
def per_user(clicks):
    return clicks.key_by("user").running(n=rh.agg.count())

with testing.Harness(per_user, {"user": str}) as harness:
    harness.give({"user": "ada"}, {"user": "bob"})
    harness.restart()
    harness.give({"user": "ada"})
    assert [row["n"] for row in harness.take()] == [1, 1, 2]
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.collection import collection, table_of
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import restored_state
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.watermark import Watermark
from rheos.core.known_names import names_hint
from rheos.core.operators.contract import Operator, OutputType
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PlannedOperator
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SPLIT, SWM, TS, WM, Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.site import call_site, located
from rheos.core.state import format as state_format
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.plan_driver import PlanDriver
from rheos.core.task.tree import OperatorTree
from rheos.core.times import epoch_ms
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.fed_source import FedSource
from rheos.runtimes.simulated.io import InstantIo
from rheos.runtimes.simulated.store import MemoryStore
from rheos.runtimes.simulated.waiting import wait_for_calls
from rheos.testing.harness import whole_rows_plan
from rheos.testing.notation import distance_ms
from rheos.testing.outputs import OUT, named_outputs

ProgramOfStreams = Callable[..., DataStream | Mapping[str, DataStream]]
"""The part of a program after its sources: a function of streams, in order, that returns a stream, or
several by name."""

IN = "in"
"""Name of a single input."""
START = datetime(2026, 1, 1, 12, tzinfo=UTC)

_JOB = JobId("harness")
_MAX_PARALLELISM = 16
_BATCH_ROWS = 1000


class Harness:
    """A run of a program in this thread, one subtask of each operator, under a clock that the test
    sets.

    Rows, watermarks and the clock pass through all operators before a call returns; then the test can
    take the output. Rows keep the order in which they are sent between operators; `simulate` tries
    other orders. The harness is a context manager; without `with`, close it.

    ```python
    def counted(clicks):
        return clicks.key_by("user").running(n=rh.agg.count())

    with testing.Harness(counted, {"user": str}) as harness:
        harness.give({"user": "ada"})
        assert harness.take()[0]["n"] == 1
    ```

    Args:
        program: the program under test. It is passed a stream for each input, and returns a stream,
            or several by name.
        inputs: the columns of the stream: a dataclass, a pyarrow Schema, or a dict of names and types
            (`{"user": str, "n": int}`). For several streams: their columns, by name, in the order of
            the program's arguments.
        event_time: the column of event time, of each input that has it; or a column for each input,
            by name; None: no event time. Rows alone raise no watermark.
        start: the initial time of the clock, from which distances ("10s") are counted.
        parameters: the values of `ctx.parameters` in functions.
    """

    def __init__(
        self,
        program: ProgramOfStreams,
        inputs: Any,
        *,
        event_time: str | Mapping[str, str] | None = None,
        start: datetime = START,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        with located(call_site()):
            self.start = start if start.tzinfo is not None else start.replace(tzinfo=UTC)
            self._rows: dict[str, _TakenRows] = {}
            env = Environment(1, max_parallelism=_MAX_PARALLELISM, parameters=parameters)
            columns = {name: resolve(each) for name, each in _named(inputs).items()}
            self._times = _times({name: schema for name, (schema, _) in columns.items()}, event_time)
            streams = [
                _stream(env, name, schema, record, self._times.get(name))
                for name, (schema, record) in columns.items()
            ]
            self._names = list(columns)
            made = program(*streams)
            for name, stream in named_outputs(made).items():
                self._rows[name] = _TakenRows(stream.schema)
                stream.sink_to(_TakingSink(self._rows[name]), name=name)
            self._plan = whole_rows_plan(env, "harness")
        self._heads = {chain.operators[0].name: chain for chain in self._plan.chains if _reads(chain)}
        _refuse_times_behind(self._plan.operators())
        self._clock = SimClock()
        self._clock.jump(round(self.start.timestamp() * 1000) - self._clock.now_ms())
        self._store = MemoryStore()
        self._attempt = 0
        self._checkpoints = 0
        self._watermarks = dict.fromkeys(self._names, MIN_TIMESTAMP_MS)
        self._ended = False
        self._start(None)

    # --- what a test asks -------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Current time of the clock."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    @property
    def inputs(self) -> Mapping[str, pa.Schema]:
        """Columns of each input, by its name; a single input is named "in"."""
        return {name: self._read_by(name).type.schema for name in self._names}

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        """Columns of each output, by its name; a single output is named "out"."""
        return {name: taken.schema for name, taken in self._rows.items()}

    @property
    def times(self) -> Mapping[str, str]:
        """Event-time column of each input that has one."""
        return self._times

    def take(self, output: str = OUT) -> list[dict[str, Any]]:
        """Return the rows that an output has emitted since the last call.

        Args:
            output: Name of the output, if the program has several.

        Returns:
            The rows, in their order.

        Raises:
            ProgramError: The program has no such output.
        """
        if output not in self._rows:
            raise ProgramError(
                f"the program has no output {output!r}",
                hint=names_hint(output, self._rows, "its outputs are"),
            )
        return self._rows[output].take()

    # --- what a test does -------------------------------------------------------------------------

    def give(self, *rows: Any, to: str | None = None) -> None:
        """Send rows to an input, in one batch.

        Args:
            rows: Dataclass instances or dicts.
            to: Name of the input, if the program has several.

        Raises:
            ProgramError: The input does not exist or has ended.
            RheosError: A function raised an error.
        """
        with located(call_site()):
            name = self._input(to)
            if self._ended:
                raise ProgramError("the input has ended", hint="pass rows before end()")
            table, _ = table_of(rows, self._read_by(name).type.schema)
            self._fed[name].rows += [self._stamped(name, batch) for batch in table.to_batches()]
            self._read(name)

    def watermark(self, at: datetime | Duration, of: str | None = None) -> None:
        """Advance event time: no more rows at or before that time are expected.

        Args:
            at: The time, or its distance from the start.
            of: Name of an input; by default all inputs that have event time.

        Raises:
            ProgramError: The input does not exist, or has no event time.
            RheosError: A function raised an error.
        """
        with located(call_site()):
            at_ms = (
                round(at.timestamp() * 1000)
                if isinstance(at, datetime)
                else round(self.start.timestamp() * 1000) + _ms(at)
            )
            names = [self._input(of)] if of else list(self._times)
            if not names or not set(names) <= set(self._times):
                raise ProgramError(
                    "the input has no event time, so it has no watermark",
                    hint='name the event-time column: event_time="at"',
                )
            for name in names:
                self._watermarks[name] = max(at_ms, self._watermarks[name])
            self._announce(names)

    def advance(self, by: Duration) -> None:
        """Advance the clock. Timers of processing time fire, each at its time.

        Args:
            by: The duration.

        Raises:
            ProgramError: The duration is negative.
            RheosError: A function raised an error.
        """
        with located(call_site()):
            by_ms = _ms(by)
            if by_ms < 0:
                raise ProgramError(f"the clock cannot go back: {by!r}")
            until_ms = self._clock.now_ms() + by_ms
            while (due_ms := self._driver.next_timer_ms()) is not None and due_ms <= until_ms:
                self._clock.advance(max(0, due_ms - self._clock.now_ms()) * 1000)
                self._driver.fire_timers()
            self._clock.advance(max(0, until_ms - self._clock.now_ms()) * 1000)

    def restart(self) -> None:
        """Fail the job after a checkpoint, and restore it. Everything that is not state is lost.

        Raises:
            RheosError: A function raised an error, or its state cannot be restored.
        """
        with located(call_site()):
            restored = self._checkpoint()
            self._driver.close()
            self._start(restored)

    def end(self) -> None:
        """End all inputs: event time advances to its end, and windows fire.

        Raises:
            RheosError: A function raised an error.
        """
        with located(call_site()):
            if not self._ended:
                self._ended = True
                for name in self._names:
                    self._watermarks[name] = MAX_TIMESTAMP_MS
                    self._fed[name].has_ended = True
                    self._read(name)

    def close(self) -> None:
        """Close the program's functions."""
        self._driver.close()

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- rows and time ----------------------------------------------------------------------------

    def _input(self, name: str | None) -> str:
        names = self._names
        if name is None and len(names) == 1:
            return names[0]
        if name not in names:
            raise ProgramError(
                "the program has several inputs, so one must be named"
                if name is None
                else f"the program has no input {name!r}",
                hint=names_hint(name or "", names, "its inputs are"),
            )
        return name

    def _read_by(self, name: str) -> OutputType:
        """Return the type of that input."""
        return self._heads[name].operators[0].outputs[MAIN]

    def _stamped(self, name: str, rows: Batch) -> Batch:
        """Return the rows as a source emits them, with their hidden columns."""
        schema = self._read_by(name).schema
        columns = {field: rows.column(field) for field in rows.schema.names}
        on = self._times.get(name)
        if on is not None:
            columns[TS] = pa.array(epoch_ms(rows.column(on)))
        reached = pa.array([self._watermarks[name]] * rows.num_rows, pa.int64())
        columns[WM] = columns[SWM] = reached
        columns[SPLIT] = pa.array([0] * rows.num_rows, pa.int64())
        return pa.RecordBatch.from_arrays([columns[field] for field in schema.names], schema=schema)

    def _announce(self, names: Iterable[str]) -> None:
        """Notify the program of the event time that some inputs have reached."""
        for name in names:
            self._fed[name].watermark_ms = self._watermarks[name]
        for name in names:
            self._read(name)

    def _read(self, name: str) -> None:
        """Let the program process everything that an input has for it."""
        while self._driver.poll(self._heads[name].id):
            pass

    # --- attempts ---------------------------------------------------------------------------------

    def _start(self, restored: CheckpointCompleted | None) -> None:
        self._attempt += 1
        self._writer = SnapshotWriter(
            _JOB, Attempt(self._attempt), 0, self._store, InstantIo(), state_format.encode
        )
        state = {}
        if restored is not None:
            state = restored_state(
                restored, 0, 1, self._store, state_format.decode, self._plan.widths()
            )
        self._contexts = OperatorContexts(
            job=_JOB,
            attempt=Attempt(self._attempt),
            max_parallelism=_MAX_PARALLELISM,
            clock=self._clock,
            io=InstantIo(),
            batch_rows=_BATCH_ROWS,
            program=self._plan.context,
        )
        self._fed: dict[str, FedSource] = {}
        self._driver = PlanDriver(
            self._plan,
            attempt=Attempt(self._attempt),
            clock=self._clock,
            make_tree=lambda chain, outputs: OperatorTree(
                chain, self._operator, outputs, wait_for=partial(wait_for_calls, clock=self._clock)
            ),
            batch_rows=_BATCH_ROWS,
        )
        self._driver.open(state)
        self._announce(self._names)

    def _operator(self, planned: PlannedOperator) -> Operator:
        ctx = self._contexts.of(planned)
        if not isinstance(planned.spec, SourceSpec):
            return planned.spec.operator(ctx)
        fed = self._fed[planned.name] = FedSource(ctx, planned.spec)
        return fed

    def _checkpoint(self) -> CheckpointCompleted:
        self._checkpoints += 1
        checkpoint = CheckpointId(self._checkpoints)
        snapshots = self._driver.snapshot(checkpoint)
        return CheckpointCompleted(
            attempt=Attempt(self._attempt),
            owner="harness",
            reserved_to=checkpoint,
            checkpoint=checkpoint,
            final=False,
            parallelism=1,
            max_parallelism=_MAX_PARALLELISM,
            operators={planned.id: planned.name for planned in self._plan.operators()},
            handles=self._writer.begin(checkpoint, snapshots).handles(),
            committables=[],
        )


def _ms(distance: Duration) -> int:
    return duration_ms(distance) if isinstance(distance, timedelta) else distance_ms(distance)


def _reads(chain: Chain) -> bool:
    return isinstance(chain.operators[0].spec, SourceSpec)


def _refuse_times_behind(operators: Iterable[PlannedOperator]) -> None:
    for planned in operators:
        if planned.ports and planned.spec.stamps is not None and planned.spec.keeps_splits:
            raise ProgramError(
                "the harness controls event time itself",
                site=planned.site,
                operator=planned.name,
                hint="leave out with_event_time(...) in the tested program, and name the column: "
                'event_time="at"',
            )


def _named(inputs: Any) -> dict[str, Any]:
    """Return the columns of the inputs by name. In a dict of columns the values are types; in a dict of
    inputs they are columns."""
    if isinstance(inputs, Mapping) and any(
        isinstance(each, Mapping | pa.Schema) or hasattr(each, "__dataclass_fields__")
        for each in inputs.values()
    ):
        return dict(inputs)
    return {IN: inputs}


def _times(
    inputs: Mapping[str, pa.Schema], event_time: str | Mapping[str, str] | None
) -> Mapping[str, str]:
    """Return the event-time column of each input that has one."""
    if event_time is None:
        return {}
    if isinstance(event_time, str):
        there = [name for schema in inputs.values() for name in schema.names]
        found = {name: event_time for name, schema in inputs.items() if event_time in schema.names}
        if not found:
            raise ProgramError(
                f"event_time= names the column {event_time!r}, which no input has",
                hint=f"the columns are {', '.join(there)}",
            )
        return found
    for name, column in event_time.items():
        if name not in inputs or column not in inputs[name].names:
            raise ProgramError(f"event_time= names {name!r} and {column!r}, but there is no such input")
    return event_time


def _stream(
    env: Environment, name: str, schema: pa.Schema, record: type | None, on: str | None
) -> DataStream:
    watermark = None if on is None else Watermark.monotonic(on=on)
    rows = collection(schema.empty_table(), record)
    return env.from_source(rows, watermark=watermark, name=name)


class _TakenRows:
    """Rows that the program has emitted."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._rows: list[dict[str, Any]] = []

    def add(self, batch: Batch) -> None:
        self._rows += batch.to_pylist()

    def take(self) -> list[dict[str, Any]]:
        rows, self._rows = self._rows, []
        return rows


@dataclass(frozen=True, eq=False)
class _TakingSink(Sink):
    """A sink that passes rows to the test as they arrive."""

    in_process = True
    takes_changes = True
    taken: _TakenRows

    def open(self, ctx: SinkContext) -> SinkWriter:
        self.taken.schema = ctx.schema
        return _TakingWriter(self.taken)

    def committer(self) -> Committer | None:
        return None

    def describe(self) -> str:
        return "the test"


@dataclass(frozen=True)
class _TakingWriter(SinkWriter):
    taken: _TakenRows

    def write(self, batch: Batch) -> None:
        self.taken.add(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []
