"""The execution of a chain over one Spark partition: operators as in other runtimes, fed by Spark.

All rows arrive, the watermark advances to the end, and the operators' results (staged rows, counts)
travel to the driver as notes. This module runs on the workers. Of Spark, it knows only its task number.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable
from functools import partial
from typing import TypeAlias, assert_never

import pyarrow as pa

from rheos.core.connectors.contract import Pending
from rheos.core.errors import RheosError
from rheos.core.operators.contract import Operator, OperatorContext
from rheos.core.operators.source import EndOfInput, SourceSpec
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.tree import OperatorTree
from rheos.runtimes.batch import task_notes
from rheos.runtimes.batch.buckets import BucketOutlet, SortedBuckets
from rheos.runtimes.batch.combining import CombinedState, CombiningOutlet
from rheos.runtimes.batch.keyed_input import BATCHES, Feed, Generations
from rheos.runtimes.batch.keyed_ports import KeyedRows, keyed_rows_of
from rheos.runtimes.batch.layout import (
    NOTE_BUCKET,
    NOTE_PORT,
    SEED_BUCKET,
    of_one_share,
    payloads,
    port_payloads,
    share_of,
    unpack,
)
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
from rheos.runtimes.host.awaited_calls import wait_for
from rheos.runtimes.host.closing import close_logged
from rheos.runtimes.host.io import InlineIo, SystemClock
from rheos.runtimes.host.memory_tuning import collecting_seldom
from rheos.runtimes.host.scratch import scratch_folder
from rheos.runtimes.spark import job_files


def partition_number() -> int:
    """Return the number of the stage's partition that this task computes."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId()) if context is not None else 0


def context_of(
    task: Task,
    planned: PlannedOperator,
    partition: int,
    *,
    keyed: bool,
    scratch: str | None,
    number: int | None = None,
) -> OperatorContext:
    """Return the context of one operator. A keyed operator receives all rows of its keys in whichever
    partition, so it owns all key groups as if it were the only subtask. A source is also the only
    reader of its split."""
    alone = keyed or isinstance(planned.spec, SourceSpec)
    contexts = OperatorContexts(
        job=task.job,
        attempt=Attempt(task.first_attempt + _task_attempt()),
        max_parallelism=task.max_parallelism,
        clock=SystemClock(),
        io=InlineIo(),
        batch_rows=task.batch_rows,
        subtask=0 if alone else partition,
        number=partition if number is None else number,
        state=task.limits,
        scratch=scratch,
        program=job_files.local(task.context),
        processor_ns=time.thread_time_ns,
    )
    return contexts.of(planned, 1 if alone else max(task.parallelism, partition + 1))


def _task_attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.taskAttemptId()) if context is not None else 0


Tree: TypeAlias = OperatorTree[pa.RecordBatch]

_CHECKPOINT = CheckpointId(1)
"""The only epoch of a batch job, which its end closes."""


def run_chain(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Run a ChainTask. Entry point for `worker_task`."""
    task: ChainTask = pickle.loads(payload)
    with scratch_folder(None) as scratch, collecting_seldom():
        yield from _PartitionHost(task, scratch).run(iter(inbox))


def run_unpack(payload: bytes, inbox: Iterable[pa.RecordBatch]) -> Rows:
    """Run an UnpackTask. Entry point for `worker_task`."""
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
            operator = windows.spec.operator(ctx)
            assert isinstance(operator, WindowAggregateOperator)
            return operator

        return CombiningOutlet(make, ctx)
    return PackedOutlet(output)


def _wait(wake_after_us: int | None) -> None:
    time.sleep((1000 if wake_after_us is None else wake_after_us) / 1e6)


class _PartitionHost:
    """One chain over one partition, from its first row to its notes."""

    def __init__(self, task: ChainTask, scratch: str) -> None:
        self._task = task
        self._scratch = scratch
        self._partition = partition_number()
        self._number = self._partition
        """Number of the task among those of its operators."""
        self._out = _outlet(task, self._partition)

    def run(self, inbox: Rows) -> Rows:
        if isinstance(self._task.input, PackedInput | KeyedInput):
            # In a stage of several frames, the numbers of a frame's partitions do not begin at 0.
            share, inbox = share_of(iter(inbox))
            self._number = self._partition if share is None else share
        tree = OperatorTree(
            self._task.chain, partial(self._operator, inbox), self._out, wait_for=wait_for
        )
        try:
            yield from self._drive(tree, inbox)
        except Exception as error:
            raise tree.located(error) from None
        finally:
            close_logged(tree.close)

    def _operator(self, inbox: Rows, planned: PlannedOperator) -> Operator:
        task = self._task
        feed = task.input
        is_head = planned is task.chain.operators[0]
        ctx = context_of(
            task,
            planned,
            self._partition,
            number=self._number,
            keyed=is_head and isinstance(feed, KeyedInput | CombinedInput),
            scratch=self._scratch,
        )
        if isinstance(planned.spec, SourceSpec):
            assert isinstance(feed, SplitInput | SparkRows)
            return source_operator(ctx, planned.spec, feed, inbox)
        return planned.spec.in_batch(ctx)

    def _drive(self, tree: Tree, inbox: Rows) -> Rows:
        feed = self._task.input
        inbox = of_one_share(inbox)
        match feed:
            case CombinedInput():
                yield from self._take_combined(tree, inbox)
            case KeyedInput():
                tree.open({})
                yield from self._take_keyed(tree, inbox, feed)
            case PackedInput():
                tree.open({})
                yield from self._take_packed(tree, inbox)
            case SplitInput() | SparkRows():
                tree.open({})
                yield from self._read_source(tree)
            case _:
                assert_never(feed)
        # A keyed operator has already received the end of its last keys.
        keyed = isinstance(feed, KeyedInput)
        yield from (tree.watermark_behind_head if keyed else tree.watermark)(MAX_TIMESTAMP_MS)
        yield from tree.end()
        tree.close_functions()
        yield from self._out.finish()
        yield from self._notes(tree)

    # --- input ------------------------------------------------------------------------------------

    def _read_source(self, tree: Tree) -> Rows:
        while True:
            polled = tree.poll(self._task.batch_rows)
            if isinstance(polled, EndOfInput):
                return
            if isinstance(polled, Pending):
                _wait(polled.wake_after_us)
                continue
            yield from tree.polled(polled)

    def _take_packed(self, tree: Tree, inbox: Rows) -> Rows:
        for rows in inbox:
            for port, payload in payloads(rows, "port"):
                if port == NOTE_PORT:
                    yield from self._out.note(payload.to_pybytes())
                else:
                    yield from tree.batch(port, unpack(payload))

    def _take_keyed(self, tree: Tree, inbox: Rows, feed: KeyedInput) -> Rows:
        keyed = keyed_rows_of(feed.schemas, in_turns=feed.in_turns)
        buckets = SortedBuckets(keyed.order, f"{self._scratch}/shuffled")
        generations = Generations(keyed.timed, BATCHES * self._task.batch_rows)
        for rows in inbox:
            for bucket, port, payload in port_payloads(rows):
                if bucket == NOTE_BUCKET:
                    yield from self._out.note(payload.to_pybytes())
                elif bucket == SEED_BUCKET:
                    continue
                elif bucket < NOTE_BUCKET:
                    yield from tree.batch(port, unpack(payload))
                else:
                    batch = keyed.read(port, payload)
                    ordered = buckets.take(bucket, batch, payload.size * keyed.ports)
                    yield from self._feed(tree, ordered, generations, keyed)
        yield from self._feed(tree, buckets.end(), generations, keyed)
        yield from self._deliver(tree, generations.end(), keyed)

    def _feed(
        self,
        tree: Tree,
        ordered: Iterable[pa.RecordBatch],
        generations: Generations,
        keyed: KeyedRows,
    ) -> Rows:
        for rows in ordered:
            yield from self._deliver(tree, generations.take(rows), keyed)

    def _deliver(self, tree: Tree, feeds: Iterable[Feed], keyed: KeyedRows) -> Rows:
        for fed in feeds:
            for port, batch in keyed.delivered(fed.rows):
                if batch.num_rows:
                    yield from tree.batch(port, batch)
            if fed.ends:
                yield from tree.watermark_of_head(MAX_TIMESTAMP_MS)
                tree.next_keys()
            elif fed.until_ms is not None:
                yield from tree.watermark_of_head(fed.until_ms)

    def _take_combined(self, tree: Tree, inbox: Rows) -> Rows:
        head = self._task.chain.operators[0].id
        windows = tree.operators[head]
        assert isinstance(windows, WindowOperator)
        state = CombinedState(windows, inbox)
        for note in state.notes():
            yield from self._out.note(note)
        tree.open({head: state})
        state.check_read()

    # --- notes ------------------------------------------------------------------------------------

    def _notes(self, tree: Tree) -> Rows:
        for operator, committable in tree.committables(_CHECKPOINT):
            staged = task_notes.Staged(operator=operator, committable=committable)
            yield from self._out.note(task_notes.encode(staged))
        for counted in tree.counted():
            note = task_notes.Counted(
                operator=counted.operator,
                records_in=counted.records_in,
                records_out=counted.records_out,
                counters=dict(counted.counters),
                accumulated=dict(counted.accumulated),
            )
            yield from self._out.note(task_notes.encode(note))
        head = self._task.chain.operators[0].id
        yield from self._out.note(task_notes.encode(task_notes.Ended(operator=head)))
