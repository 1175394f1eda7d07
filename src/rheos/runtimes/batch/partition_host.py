"""Runs a chain over one Spark partition: the operators of the other runtimes, fed from Spark's rows.

Everything arrives, the watermark goes to the end, and what the operators leave behind (staged rows,
counts) travels to the driver as notes. This module runs on the workers and knows Spark by its task's
number alone.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.contract import Pending
from rheos.errors import RheosError, UserFunctionError
from rheos.graph.nodes import SourceSpec
from rheos.operators.build import build
from rheos.operators.contract import CommittingOperator, Operator, OperatorContext, Out
from rheos.operators.source import EndOfInput, SourceOperator
from rheos.plan.physical import Chain, Edge, PlannedOperator, ToOperator
from rheos.protocol.elements import MAX_TIMESTAMP_MS, TS, Batch
from rheos.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.batch import notes
from rheos.runtimes.batch.inline_io import InlineIo
from rheos.runtimes.batch.layout import NOTE_PORT, RowLayout, pack, packed_row, packed_rows, unpack
from rheos.runtimes.batch.source_input import SourceInput, SplitInput, source_operator
from rheos.runtimes.io import SystemClock
from rheos.state.key_groups import NullKeyError, key_groups, subtask_of

Rows: TypeAlias = Iterator[pa.RecordBatch]
"""Record batches in one of the layouts of `layout.py`."""

_CHECKPOINT = CheckpointId(1)
"""A batch job has one epoch, which its end closes."""


@dataclass(frozen=True)
class PackedInput:
    """Packed batches, by port."""


@dataclass(frozen=True)
class RowsInput:
    """Shuffled rows."""

    schema: pa.Schema
    by_event_time: bool
    """They are sorted by event time, so the watermark follows them and state is let go early.
    Otherwise they come in the order of arrival."""


@dataclass(frozen=True)
class PackedOutput:
    """Packed batches; the port says by which edge they leave."""


@dataclass(frozen=True)
class RowsOutput:
    """Rows for a shuffle, by the one edge there is."""

    edge: Edge
    schema: pa.Schema


@dataclass(frozen=True)
class Placement:
    """Where the subtasks of the job stand."""

    parallelism: int
    max_parallelism: int


@dataclass(frozen=True)
class ChainTask:
    """What the driver ships for a chain."""

    job: JobId
    first_attempt: int
    """Added to Spark's number of the task attempt, it gives an attempt that was never used before."""
    chain: Chain
    placement: Placement
    batch_rows: int
    input: SourceInput | PackedInput | RowsInput
    output: PackedOutput | RowsOutput


@dataclass(frozen=True)
class UnpackTask:
    """What the driver ships to turn one edge's packed batches into rows for a shuffle."""

    sender: PlannedOperator
    placement: Placement
    output: RowsOutput


def run_chain(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Entry point of `arrow_task` for a ChainTask."""
    host = _PartitionHost(pickle.loads(payload))
    return host.run(iter(inbox))


def run_unpack(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Entry point of `arrow_task` for an UnpackTask."""
    task: UnpackTask = pickle.loads(payload)
    out = _RowsOutlet(task.output, task.placement, _partition())
    try:
        for rows in inbox:
            for _, payload in packed_rows(rows):
                yield out.rows(unpack(payload))
    except RheosError as error:
        raise error.located(site=task.sender.site, operator=task.sender.name) from None


class _PackedOutlet:
    def rows(self, edge: int, batch: Batch) -> pa.RecordBatch:
        return packed_row(edge, pack(batch))

    def note(self, note: bytes) -> pa.RecordBatch:
        return packed_row(NOTE_PORT, note)


class _RowsOutlet:
    """Routes rows by key group, and numbers them."""

    def __init__(self, output: RowsOutput, placement: Placement, partition: int) -> None:
        self._edge = output.edge
        self._placement = placement
        self._layout = RowLayout(output.schema)
        self._partition = partition
        self._position = 0

    def rows(self, batch: Batch) -> pa.RecordBatch:
        place = self._placement
        try:
            groups = key_groups(batch, self._edge.keys, place.max_parallelism)
        except NullKeyError as error:
            raise error.located_in(batch, self._edge.keys) from None
        targets = subtask_of(groups, place.parallelism, place.max_parallelism).astype(np.int32)
        position = self._position
        self._position += batch.num_rows
        return self._layout.rows(batch, targets, self._edge.target_port, self._partition, position)

    def note(self, note: bytes) -> pa.RecordBatch:
        return self._layout.note(note)


class _PartitionHost:
    """One subtask of one chain, from its first row to its notes."""

    def __init__(self, task: ChainTask) -> None:
        self._task = task
        self._chain = task.chain
        self._partition = _partition()
        self._operators: list[Operator] = []
        self._contexts: list[OperatorContext] = []
        self._in_operator = 0
        self._records_in = [0] * len(task.chain.operators)
        self._records_out = [0] * len(task.chain.operators)
        self._packed = _PackedOutlet()
        self._rows = (
            _RowsOutlet(task.output, task.placement, self._partition)
            if isinstance(task.output, RowsOutput)
            else None
        )

    def run(self, inbox: Rows) -> Rows:
        feed = self._task.input
        try:
            yield from self._located(self._open(inbox))
            if isinstance(feed, SplitInput):
                yield from self._located(self._read_source())
            elif isinstance(feed, PackedInput):
                yield from self._take_packed(inbox)
            else:
                yield from self._take_rows(inbox, feed)
            yield from self._located(self._finish())
            yield from self._located(self._notes())
        finally:
            self._close()

    # --- input ------------------------------------------------------------------------------------

    def _open(self, inbox: Rows) -> Rows:
        feed = self._task.input
        for index, planned in enumerate(self._chain.operators):
            self._in_operator = index
            ctx = self._context(planned)
            if isinstance(planned.spec, SourceSpec):
                assert isinstance(feed, SplitInput)
                operator: Operator = source_operator(ctx, planned.spec, feed, inbox)
            else:
                operator = build(ctx, planned.spec)
            self._contexts.append(ctx)
            self._operators.append(operator)
            operator.open({})
        yield from ()

    def _context(self, planned: PlannedOperator) -> OperatorContext:
        place = self._task.placement
        source = isinstance(planned.spec, SourceSpec)
        return OperatorContext(
            job=self._task.job,
            attempt=Attempt(self._task.first_attempt + _task_attempt()),
            operator=planned.id,
            name=planned.name,
            site=planned.site,
            subtask=0 if source else self._partition,
            # A source stands alone before its split; else there may be more partitions than subtasks.
            parallelism=1 if source else max(place.parallelism, self._partition + 1),
            max_parallelism=place.max_parallelism,
            ports=planned.ports,
            outputs=planned.outputs,
            clock=SystemClock(),
            io=InlineIo(),
            batch_rows=self._task.batch_rows,
        )

    def _read_source(self) -> Rows:
        source = self._operators[0]
        assert isinstance(source, SourceOperator)
        while True:
            self._in_operator = 0
            polled = source.poll(self._task.batch_rows)
            if isinstance(polled, EndOfInput):
                return
            if isinstance(polled, Pending):
                wake_after_us = polled.wake_after_us
                time.sleep((1000 if wake_after_us is None else wake_after_us) / 1e6)
                continue
            for out in polled:
                yield from self._route(0, out)

    def _take_packed(self, inbox: Rows) -> Rows:
        for rows in inbox:
            for port, payload in packed_rows(rows):
                if port == NOTE_PORT:
                    yield self._note(payload.to_pybytes())
                else:
                    yield from self._located(self._push(0, port, unpack(payload)))

    def _take_rows(self, inbox: Rows, feed: RowsInput) -> Rows:
        layout = RowLayout(feed.schema)
        for rows in inbox:
            noted = pc.is_valid(rows.column("note"))
            if noted.true_count:
                for note in pc.drop_null(rows.column("note")).to_pylist():
                    yield self._note(note)
                rows = rows.filter(pc.invert(noted))
            if not rows.num_rows:
                continue
            ports = rows.column("port").unique().to_pylist()
            for port in ports:
                of_port = rows if len(ports) == 1 else rows.filter(pc.equal(rows.column("port"), port))
                yield from self._located(self._push(0, port, layout.batch(of_port)))
            if feed.by_event_time:
                last = rows.column(layout.columns[feed.schema.get_field_index(TS)])[-1].as_py()
                yield from self._located(self._watermark(last - 1))

    # --- rows through the tree --------------------------------------------------------------------

    def _push(self, index: int, port: int, batch: Batch) -> Rows:
        if not batch.num_rows:
            return
        self._in_operator = index
        self._records_in[index] += batch.num_rows
        for out in self._operators[index].on_batch(port, batch):
            yield from self._route(index, out)
            self._in_operator = index

    def _route(self, index: int, out: Out) -> Rows:
        self._records_out[index] += out.batch.num_rows
        for route in self._chain.operators[index].routes.get(out.tag, ()):
            if isinstance(route, ToOperator):
                yield from self._push(route.index, 0, out.batch)
            elif not out.batch.num_rows:
                continue
            elif self._rows is not None:
                yield self._rows.rows(out.batch)
            else:
                yield self._packed.rows(route.edge, out.batch)

    def _watermark(self, timestamp_ms: int) -> Rows:
        for index, operator in enumerate(self._operators):
            self._in_operator = index
            for out in operator.on_watermark(timestamp_ms):
                yield from self._route(index, out)
                self._in_operator = index

    def _finish(self) -> Rows:
        yield from self._watermark(MAX_TIMESTAMP_MS)
        for index, operator in enumerate(self._operators):
            self._in_operator = index
            for out in operator.on_end():
                yield from self._route(index, out)
                self._in_operator = index

    # --- notes, errors, the end -------------------------------------------------------------------

    def _notes(self) -> Rows:
        for index, planned in enumerate(self._chain.operators):
            self._in_operator = index
            operator = self._operators[index]
            if isinstance(operator, CommittingOperator):
                for committable in operator.snapshot(_CHECKPOINT).committables:
                    staged = notes.Staged(operator=planned.id, committable=committable)
                    yield self._note(notes.encode(staged))
            counted = notes.Counted(
                operator=planned.id,
                records_in=self._records_in[index],
                records_out=self._records_out[index],
                counters=self._contexts[index].counters,
            )
            yield self._note(notes.encode(counted))

    def _note(self, note: bytes) -> pa.RecordBatch:
        return self._packed.note(note) if self._rows is None else self._rows.note(note)

    def _located(self, work: Rows) -> Rows:
        """Gives every error of the operators its place in the user's code."""
        planned = self._chain.operators
        try:
            yield from work
        except RheosError as error:
            at = planned[self._in_operator]
            raise error.located(site=at.site, operator=at.name) from None
        except Exception as error:
            at = planned[self._in_operator]
            raise UserFunctionError(
                f"{type(error).__name__}: {error}",
                site=at.site,
                operator=at.name,
                detail="".join(traceback.format_exception(error)),
            ) from None

    def _close(self) -> None:
        for operator in self._operators:
            operator.close()


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0


def _task_attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.taskAttemptId()) if context is not None else 0
