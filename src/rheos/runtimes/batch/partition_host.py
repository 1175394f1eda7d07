"""Runs a chain over one Spark partition: the operators of the other runtimes, fed from Spark's rows.

Everything arrives, the watermark goes to the end, and what the operators leave behind (staged rows,
counts) travels to the driver as notes. This module runs on the workers and knows Spark by its task's
number alone.
"""

from __future__ import annotations

import contextlib
import pickle
import time
import traceback
from collections.abc import Iterable

import pyarrow as pa

from rheos.connectors.contract import Pending
from rheos.errors import RheosError, UserFunctionError
from rheos.graph.nodes import ProcessSpec, SourceSpec
from rheos.host.garbage import collecting_seldom
from rheos.host.scratch import scratch_folder
from rheos.operators.build import build
from rheos.operators.contract import CommittingOperator, Operator, OperatorContext, Out
from rheos.operators.ordered import OrderedProcessOperator
from rheos.operators.source import EndOfInput, SourceOperator
from rheos.operators.window.operator import WindowAggregateOperator
from rheos.operators.window.windowed import WindowOperator
from rheos.plan.physical import PlannedOperator, ToOperator
from rheos.protocol.elements import MAX_TIMESTAMP_MS, TS, Batch
from rheos.protocol.ids import CheckpointId
from rheos.runtimes.batch import notes
from rheos.runtimes.batch.buckets import BucketOutlet, SortedBuckets, without_hashes
from rheos.runtimes.batch.combining import CombinedState, CombiningOutlet
from rheos.runtimes.batch.contexts import context_of, partition_number
from rheos.runtimes.batch.keyed_input import BATCHES, Feed, Generations
from rheos.runtimes.batch.layout import NOTE_BUCKET, NOTE_PORT, payloads, unpack
from rheos.runtimes.batch.outlets import FrameOutlet, Outlet, PackedOutlet, Rows
from rheos.runtimes.batch.source_input import SparkRows, SplitInput, source_operator
from rheos.runtimes.batch.tasks import (
    ChainTask,
    CombinedInput,
    CombinedOutput,
    FrameOutput,
    KeyedInput,
    PackedInput,
    RowsOutput,
    Task,
    UnpackTask,
)

_CHECKPOINT = CheckpointId(1)
"""A batch job has one epoch, which its end closes."""


def run_chain(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Entry point of `arrow_task` for a ChainTask."""
    task: ChainTask = pickle.loads(payload)
    with scratch_folder(None) as scratch, collecting_seldom():
        yield from _PartitionHost(task, scratch).run(iter(inbox))


def run_unpack(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Entry point of `arrow_task` for an UnpackTask."""
    task: UnpackTask = pickle.loads(payload)
    out = _outlet(task, partition_number())
    try:
        for rows in inbox:
            for edge, batch in payloads(rows, "port"):
                yield from out.rows(edge, unpack(batch))
        yield from out.finish()
    except RheosError as error:
        raise error.located(site=task.sender.site, operator=task.sender.name) from None


def _outlet(task: Task, partition: int) -> Outlet:
    output = task.output
    if isinstance(output, RowsOutput):
        return BucketOutlet(output, partition)
    if isinstance(output, FrameOutput):
        return FrameOutlet(output.schema)
    if isinstance(output, CombinedOutput):
        windows = output.windows
        ctx = context_of(task, windows, partition, keyed=True, scratch=None)

        def make() -> WindowAggregateOperator:
            operator = build(ctx, windows.spec)
            assert isinstance(operator, WindowAggregateOperator)
            return operator

        return CombiningOutlet(make, ctx)
    return PackedOutlet()


def _operator(ctx: OperatorContext, planned: PlannedOperator) -> Operator:
    spec = planned.spec
    if isinstance(spec, ProcessSpec) and spec.order == "arrival" and TS in ctx.ports[0].schema.names:
        # Of a key's rows the order of arrival is lost in a shuffle. That of event time is the best
        # that can be: each row finds the timers before it fired.
        return OrderedProcessOperator(ctx, spec, keeps_late=True)
    return build(ctx, spec)


class _PartitionHost:
    """One chain over one partition, from its first row to its notes."""

    def __init__(self, task: ChainTask, scratch: str) -> None:
        self._task = task
        self._chain = task.chain
        self._scratch = scratch
        self._partition = partition_number()
        self._operators: list[Operator] = []
        self._contexts: list[OperatorContext] = []
        self._in_operator = 0
        self._records_in = [0] * len(task.chain.operators)
        self._records_out = [0] * len(task.chain.operators)
        self._out = _outlet(task, self._partition)

    def run(self, inbox: Rows) -> Rows:
        feed = self._task.input
        try:
            if isinstance(feed, CombinedInput):
                yield from self._located(self._build(inbox))
                yield from self._take_combined(inbox)
            else:
                yield from self._located(self._open(inbox))
                if isinstance(feed, PackedInput):
                    yield from self._take_packed(inbox)
                elif isinstance(feed, KeyedInput):
                    yield from self._take_keyed(inbox, feed)
                else:
                    yield from self._located(self._read_source())
            yield from self._located(self._finish())
            yield from self._located(self._notes())
        finally:
            self._close()

    # --- input ------------------------------------------------------------------------------------

    def _open(self, inbox: Rows) -> Rows:
        yield from self._build(inbox)
        for index, operator in enumerate(self._operators):
            self._in_operator = index
            operator.open({})

    def _build(self, inbox: Rows) -> Rows:
        feed = self._task.input
        keyed = isinstance(feed, KeyedInput | CombinedInput)
        for index, planned in enumerate(self._chain.operators):
            self._in_operator = index
            ctx = context_of(
                self._task,
                planned,
                self._partition,
                keyed=keyed and index == 0,
                scratch=f"{self._scratch}/{index}",
            )
            if isinstance(planned.spec, SourceSpec):
                assert isinstance(feed, SplitInput | SparkRows)
                operator: Operator = source_operator(ctx, planned.spec, feed, inbox)
            else:
                operator = _operator(ctx, planned)
            self._contexts.append(ctx)
            self._operators.append(operator)
        yield from ()

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
            for port, payload in payloads(rows, "port"):
                if port == NOTE_PORT:
                    yield from self._out.note(payload.to_pybytes())
                else:
                    yield from self._located(self._push(0, port, unpack(payload)))

    def _take_keyed(self, inbox: Rows, feed: KeyedInput) -> Rows:
        buckets = SortedBuckets(feed.schema, f"{self._scratch}/shuffled")
        self._in_operator = 0
        generations = Generations(TS in feed.schema.names, BATCHES * self._task.batch_rows)
        for rows in inbox:
            for bucket, payload in payloads(rows, "bucket"):
                if bucket == NOTE_BUCKET:
                    yield from self._out.note(payload.to_pybytes())
                else:
                    ordered = buckets.take(bucket, payload)
                    yield from self._located(self._feed(ordered, generations, feed.schema))
        yield from self._located(self._feed(buckets.end(), generations, feed.schema))
        yield from self._located(self._deliver(generations.end(), feed.schema))

    def _feed(
        self, ordered: Iterable[pa.RecordBatch], generations: Generations, schema: pa.Schema
    ) -> Rows:
        for rows in ordered:
            yield from self._deliver(generations.take(rows), schema)

    def _deliver(self, feeds: Iterable[Feed], schema: pa.Schema) -> Rows:
        for fed in feeds:
            for batch in without_hashes(fed.rows, schema):
                yield from self._push(0, 0, batch)
            if fed.ends:
                yield from self._rise(0, MAX_TIMESTAMP_MS)
                self._operators[0].next_keys()
            elif fed.until_ms is not None:
                yield from self._rise(0, fed.until_ms)

    def _take_combined(self, inbox: Rows) -> Rows:
        windows = self._operators[0]
        assert isinstance(windows, WindowOperator)
        state = CombinedState(windows, inbox)
        for note in state.notes():
            yield from self._out.note(note)
        yield from self._located(self._restore(state))

    def _restore(self, state: CombinedState) -> Rows:
        for index, operator in enumerate(self._operators):
            self._in_operator = index
            operator.open({} if index else state)
        state.check_read()
        yield from ()

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
            else:
                yield from self._out.rows(route.edge, out.batch)

    def _rise(self, index: int, timestamp_ms: int) -> Rows:
        """Raises the watermark of one operator."""
        self._in_operator = index
        for out in self._operators[index].on_watermark(timestamp_ms):
            yield from self._route(index, out)
            self._in_operator = index

    def _finish(self) -> Rows:
        for index, operator in enumerate(self._operators):
            # A keyed operator has met the end of its last keys.
            if index or not isinstance(self._task.input, KeyedInput):
                yield from self._rise(index, MAX_TIMESTAMP_MS)
            self._in_operator = index
            for out in operator.on_end():
                yield from self._route(index, out)
                self._in_operator = index
        yield from self._out.finish()

    # --- notes, errors, the end -------------------------------------------------------------------

    def _notes(self) -> Rows:
        for index, planned in enumerate(self._chain.operators):
            self._in_operator = index
            operator = self._operators[index]
            if isinstance(operator, CommittingOperator):
                for committable in operator.snapshot(_CHECKPOINT).committables:
                    staged = notes.Staged(operator=planned.id, committable=committable)
                    yield from self._out.note(notes.encode(staged))
            counted = notes.Counted(
                operator=planned.id,
                records_in=self._records_in[index],
                records_out=self._records_out[index],
                counters=self._contexts[index].counters,
            )
            yield from self._out.note(notes.encode(counted))

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
        with contextlib.ExitStack() as closing:
            for operator in self._operators:
                closing.callback(operator.close)
