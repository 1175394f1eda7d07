"""The operator contract: the methods that the task calls, when, and in which order.

The task calls, from one thread:

    open(restored)              once, first
    on_in_flight(port, batch)   for rows that were in flight when the restored checkpoint was taken;
                                before every other call with input
    on_batch(port, batch)       for every batch of an input
    on_watermark(timestamp_ms)  when the merged watermark of all inputs rose
    on_processing_time(now_ms)  when the time from `next_processing_time_ms` is reached
    snapshot(checkpoint)        at a barrier, between calls; synchronous and quick
    savepoint(snapshot)         right after `snapshot`, if the barrier is that of a savepoint
    snapshot_failed(checkpoint) when the result of a snapshot was not stored
    completed(checkpoint)       when the checkpoint is in the log; in rising order; if several
                                complete at once, perhaps only for the newest
    next_keys()                 only in the batch runtime, after the last watermark: all keys so far
                                have ended, and the watermark starts over
    on_end()                    once, when all inputs have ended, after the last watermark
    close()                     once, last, also after an error

An operator has a port for each input of its node. Batches of different ports arrive in any order.
Batches from one sender to one port arrive in the order of sending. In the batch runtime the rows of
each key arrive by event time, across all keyed ports. The rows of a broadcast port arrive before all
others, and `next_keys` keeps the state that they created. Rows of a broadcast port arrive at every
subtask and change no keyed state. Otherwise, after a rescale, they would have changed some keys twice
and others not at all (EX17).

Methods that emit are generators of `Out`. The task may suspend a generator when credit ends; it is
always driven to its end before the next call. An operator forwards neither watermarks nor barriers: the
task does, after the generator has ended. `snapshot` never emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import RheosError, Site
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.nodes import MAIN, Spec, StreamType
from rheos.core.operators.form_costs import OwnTime
from rheos.core.operators.origins import OneRow, Origin, RowsOfKey
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.ports import Clock, TaskIo
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.state_config import MIB, StateConfig
from rheos.core.state.key_limit import KeyContents, KeyLimit


class Out(NamedTuple):
    """An emitted batch, hidden columns included, with the tag of its output."""

    batch: Batch
    tag: str = MAIN


@dataclass(frozen=True)
class PortType:
    """Input port of an operator: type and schema of the rows that arrive, and their distribution."""

    type: StreamType
    keys: tuple[str, ...]
    schema: pa.Schema
    """Schema of the batches, hidden columns included."""
    keyed_at: Site | None = None
    """Line of the `key_by` call; the error for a null key names it."""
    broadcast: bool = False
    """Whether every subtask receives every row."""

    @property
    def in_flight(self) -> StateKind:
        """Return how rows in flight to the port are redistributed after a rescale (EX13)."""
        if self.keys:
            return StateKind.KEYED
        return StateKind.BROADCAST if self.broadcast else StateKind.LIST


@dataclass(frozen=True)
class OutputType:
    """Type of the rows that an operator emits to the output with one tag."""

    type: StreamType
    schema: pa.Schema
    """Schema of the batches, hidden columns included."""


class AccumulatorReport(Protocol):
    """A user's accumulator, as the operator's progress reports it."""

    @property
    def value(self) -> Accumulated: ...


@dataclass
class OperatorContext:
    """Context of an operator on the worker: its job, position, configuration and services."""

    job: JobId
    attempt: Attempt
    operator: OperatorId
    name: str
    site: Site
    subtask: int
    parallelism: int
    """Number of subtasks in which the operator has rows. Further subtasks own no key groups and receive
    no rows."""
    max_parallelism: int
    ports: tuple[PortType, ...]
    outputs: Mapping[str, OutputType]
    """Outputs by tag, only those that some operator reads. Rows for other tags need not be made."""
    clock: Clock
    io: TaskIo
    batch_rows: int
    """Maximum number of rows of an emitted batch, approximately."""
    state: StateConfig = field(default_factory=StateConfig)
    state_bytes: int = 256 * MIB
    """Bytes of state that this operator may keep in memory: its share of the limit."""
    scratch: str | None = None
    """Local folder of this operator alone. It is created at first use and deleted with the task. None
    if the machine has no disk."""
    counters: dict[str, int] = field(default_factory=dict)
    """Counts of the operator by name, such as `late`. The task reports them with the operator's
    progress."""
    accumulators: dict[str, AccumulatorReport] = field(default_factory=dict)
    """Accumulators of the operator's function, reported with its progress."""
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Gauges of the operator's function, read when its progress is reported."""
    program: JobContext = field(default_factory=JobContext)
    """Context passed to all functions of the job."""
    leads: bool = True
    """Whether this is the first subtask. It emits rows that every subtask has, but the output only
    once, such as late rows of a broadcast port."""
    processor_ns: Callable[[], int] | None = None
    """Reads the processor time of the calling thread in ns. None if the host does not measure it."""
    own_time: OwnTime | None = None
    """Processor time of the operator's calls. The host measures it if the operator sets this."""
    compiled_errors: list[RheosError] = field(default_factory=list)
    """Errors of compiled calls that Python repeated; at most one for each function of the operator."""
    limits: list[KeyLimit] = field(default_factory=list)
    """Limits on the state of a single key, one for each kind of state that the operator keeps."""
    prepared: PreparedState | None = None
    """State that was restored ahead. `open` receives only the tables that follow."""

    def key_limit(self, kept: KeyContents) -> KeyLimit:
        """Return a new limit on the state of a single key, and add it to `limits`."""
        limit = KeyLimit.of(self.state, kept, site=self.site, operator=self.name)
        self.limits.append(limit)
        return limit

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    @property
    def key_groups(self) -> range:
        """Return the key groups of this subtask: those for which group * P // max is its number."""
        return group_range(self.subtask, self.parallelism, self.max_parallelism)


Restored = Mapping[str, Iterable[pa.Table]]
"""State by name. The tables of one state are in the order in which they apply: a full one, then its
deltas. They are read and decoded during the iteration. Tables of KEYED state have only rows of the
subtask's key groups; LIST rows are those assigned to this subtask. State that was stored as files is a
`protocol.snapshots.RestoredState`, whose `files` has them."""


class Operator(ABC):
    """Base class of all operators. The defaults suit a stateless operator."""

    watermark_delay_ms: int = 0
    """Time in ms by which the watermark of its output lags that of its input. Only the head of a chain
    may have one (`Spec.begins_chain`)."""

    def __init__(self, ctx: OperatorContext) -> None:
        self.ctx = ctx

    def open(self, restored: Restored) -> None:
        """Prepare to run. If `restored` is not empty, continue from that state."""

    def prepared_state(self) -> PreparedState | None:
        """Return an empty state for another operator with the same context, which is restored ahead.

        Called instead of `open`, if the spec `prepares_state`. None: restore the state later.
        """
        return None

    def away_ms(self) -> float:
        """Return the time in ms for which the called server has not answered; 0 if it answers, or if
        the operator calls none. The value is a metric, read about once a second."""
        return 0.0

    def keys_held(self) -> int | None:
        """Return the number of keys with state in memory.

        Returns None if the operator would have to count them, or has no keys. The value is a metric,
        read about once a second.
        """
        return None

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        raise NotImplementedError

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        """Process a batch that another attempt sent and no operator has processed. The state is the
        restored one. The key groups of this subtask may have reached different watermarks."""
        return self.on_batch(port, batch)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        return iter(())

    def next_processing_time_ms(self) -> int | None:
        """Return the next time at which `on_processing_time` is due. Called after every other call."""
        return None

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot()

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        """Return the whole state as FULL parts, which every state backend reads. If the checkpoint is a
        savepoint, the task calls this right after `snapshot`, with its result. The call changes
        nothing: it does not affect the next snapshot."""
        assert not snapshot.files
        assert all(part.mode is PartMode.FULL for part in snapshot.parts), (
            "an operator that stores deltas defines its own savepoints"
        )
        return snapshot.parts

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        """Handle a snapshot whose result was not stored: the next one must hold the whole state."""

    def completed(self, checkpoint: CheckpointId) -> None:
        """Note that the checkpoint is in the log. The task may call this at any time, also while a
        generator is suspended. It is quick and emits nothing."""

    def next_keys(self) -> None:
        """Forget all keys and start over: all of them have ended and received the last watermark. The
        batch runtime calls this for keyed operators, whose state is in memory there."""
        raise NotImplementedError

    def on_end(self) -> Iterator[Out]:
        return iter(())

    def close_function(self) -> None:
        """Close the user's function, if it is open.

        The task calls this when the input has ended and all output is emitted, before the job has
        finished. An error raised here fails the job. Only snapshots and `close` follow. If an attempt
        is cancelled or fails, the task calls only `close`.
        """

    def close(self) -> None:
        """Close the function, if it is still open, and release the operator's resources."""


class RowOrder(Enum):
    """The order of input rows that an operator's output depends on."""

    NONE = "none"
    """The output depends on no order: each row is processed independently."""
    OF_SPLIT = "of split"
    """The output depends on the order within a split. Across splits, event time decides the order, or
    rows are independent."""
    OF_ARRIVAL = "of arrival"
    """The output depends on the order in which the rows of all splits and ports arrive."""


ASKS_OUTSIDE = "it queries an external system, whose answers change over time"
"""Reason for `OperatorSpec.differs_elsewhere` if the operator calls other systems."""


class Phases(NamedTuple):
    """Two operators that replace one: the first runs upstream of an exchange, the second downstream."""

    first: OperatorSpec
    partials: pa.Schema
    """Columns that the first operator sends to the second."""
    second: OperatorSpec


Needed: TypeAlias = Mapping[str, frozenset[str]]
"""By output tag, the columns that downstream operators need."""


class OperatorSpec(Spec):
    """A kind of operator in one file: this description, which programs create, and the logic that the
    worker builds from it. A spec is a frozen dataclass, and picklable.

    `Program.add` stores it with its inputs, which specify how their rows are distributed. The planner,
    the runtimes, `explain`, `why` and `fork` get everything that they need from the methods below. The
    defaults are safe for any operator: it reads all columns, and depends on any order.
    """

    is_pure: ClassVar[bool] = False
    """Whether the operator calls no code of the user. Then it need not process an input row whose
    output is dropped."""

    prepares_state: ClassVar[bool] = False
    """Whether the operator's state may be restored before the attempt begins (`prepared_state`)."""

    @abstractmethod
    def operator(self, ctx: OperatorContext) -> Operator:
        """Build the operator, without opening it. Called on the worker, once in every subtask."""

    def in_batch(self, ctx: OperatorContext) -> Operator:
        """Build the operator for the batch runtime, which delivers the rows of a key only when all of
        them have arrived, and takes no checkpoints. Called like `operator`."""
        return self.operator(ctx)

    def combines_in_batch(self, read: Collection[str]) -> bool:
        """Return whether a batch job may shuffle the state of such operators instead of their rows. If
        so, `operator` builds a `WindowAggregateOperator`. `read` has the tags of the outputs that are
        read."""
        return False

    def phases(self, rows: PortType, read: Collection[str]) -> Phases | str:
        """Return the two operators that replace this one downstream of an unkeyed stream
        (`plan.two_phases`), or the reason why this operator needs every row."""
        return "the trigger or an aggregate of the windows reads every column"

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        """Return the shapes of the operator's state by the names of snapshot parts. State without a
        shape is not restored. Raise SchemaError if something cannot be stored."""
        return {}

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        """Return the Python types of declared state, by its name: the type of its values or, for a map,
        of its keys and values. DataFrames that become state are checked against them."""
        return {}

    @property
    def aligns(self) -> bool:
        """Whether barriers may overtake no rows to this operator. True if its subtasks must have the
        same event-time progress in a checkpoint."""
        return False

    @property
    def emits_without_rows(self) -> bool:
        """Whether the operator emits a row if none arrives. All rows of such an operator have one key.
        A batch job runs it in one task, which Spark starts even if no row arrives."""
        return False

    @property
    def loop_capacity(self) -> int | None:
        """Return the number of rows that may wait for the next iteration, for the head of a loop."""
        return None

    @property
    def acts_outside(self) -> bool:
        """Return whether the operator changes other systems, apart from sinks. `fork` and `plan` refuse
        programs with such operators, because they must change nothing."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether the state holds whole input rows, including columns that the operator does not read
        today. A changed program may read them, so a runtime with stored state does not prune the
        inputs."""
        return False

    @property
    def window_lifetime_ms(self) -> int | None:
        """Return the time from the start of a window until its state is deleted. None without windows
        of a fixed size."""
        return None

    @property
    def window_pane_ms(self) -> int | None:
        """Return the time in which all rows of a key share one row of the windows' state. None if each
        input row has its own, or without windows of a fixed size."""
        return None

    # --- columns ------------------------------------------------------------------------------------

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        """Return which of the visible `columns` of an input the operator needs, in addition to its key:
        those that it reads, and those that it passes on and that are `needed` downstream. None means
        all."""
        return None

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        """Return the columns of an output if its input lacks the columns `gone`, which the operator
        does not read."""
        return columns

    def keeps_columns(self, columns: Collection[str]) -> bool:
        """Return whether each output row is one input row with these columns unchanged, and depends on
        no other rows. `debug` drops rows of other keys before such operators."""
        return False

    def predicates(self) -> Sequence[pl.Expr]:
        """Return the conditions of an operator that only drops rows; the batch runtime pushes them into
        sources. Empty for every other operator."""
        return ()

    # --- descriptions -------------------------------------------------------------------------------

    def row_order(self) -> RowOrder:
        """Return the order of input rows that the output depends on."""
        return RowOrder.OF_ARRIVAL

    def origin(self) -> Origin:
        """Return which input rows contribute to an output row, for `why`."""
        return RowsOfKey()

    def with_function(self, fn: Any) -> OperatorSpec:
        """Return the same operator with another function: `why` and `debug` observe calls by it."""
        own: Any = self
        made: OperatorSpec = replace(own, fn=fn)
        return made

    def interpreted(self) -> OperatorSpec:
        """Return the same operator with its function interpreted, so that a debugger can step into
        it."""
        return self

    def function_forms(self) -> Mapping[str, str]:
        """Return the form of each Python function that could be compiled, by its name: "compiled", or
        "interpreted: " and the reason."""
        return {}

    def lookup_keys(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns by which `looks_up` is queried, for a stream of that schema. Called only
        if `looks_up` returns an external system."""
        raise NotImplementedError

    def with_lookup(self, lookup: Lookup) -> OperatorSpec:
        """Return the same operator with another external system, which has the same columns. Called
        as `lookup_keys`."""
        raise NotImplementedError

    def differs_elsewhere(self) -> Sequence[str]:
        """Return the reasons why a fork, which runs later and elsewhere, may produce other output.
        Parts of the function are left out, because `fork` inspects them itself."""
        return ()


class RowSpec(OperatorSpec):
    """An operator that computes its output from each input row independently."""

    def row_order(self) -> RowOrder:
        return RowOrder.NONE

    def origin(self) -> Origin:
        return OneRow()


class SplitSpec(RowSpec):
    """An operator that computes its output from each input row independently, or from rows that it
    sorts by event time. Only the order within a split affects the output."""

    def row_order(self) -> RowOrder:
        return RowOrder.OF_SPLIT


class KeySpec(OperatorSpec):
    """An operator that computes its output from all rows of a key, or of an unkeyed stream, as they
    arrive."""

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL

    def origin(self) -> Origin:
        return RowsOfKey()


class SplitBatch(NamedTuple):
    """A batch that was split in two: rows that are finished now, and rows that stay at the input."""

    begun: StartedWork
    """The work that finishes the rows of `leaves`."""
    leaves: Batch
    stays: Batch


class StartedWork(ABC):
    """Work on one batch that an operator has started outside the mailbox, which calls the methods."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether `finish` may be called. The task reads it often, so it is fast. Reading it also
        collects answers that have arrived and retries failed calls. It raises an error to end the
        attempt."""

    def wake_after_us(self) -> int | None:
        """Return the time in µs after which to read `ready` again, while it is False. None: a
        completion on the I/O executor wakes the task."""
        return None

    def part(self, batch: Batch) -> SplitBatch | None:
        """Return the rows that may be emitted ahead of the others, while `ready` is False. They may
        also overtake earlier batches, up to the last mark. None: no row may overtake, or the search for
        such rows is not due. The other rows stay at the input, and their work has already begun."""
        return None

    def joined(self, other: StartedWork) -> StartedWork | None:
        """Return work that finishes both as one batch, with the rows of `other` after its own.

        Return None if they may not share a batch. Rows that are joined are no longer bounded by
        credits, so the operator bounds them.
        """
        return None

    @abstractmethod
    def finish(self, batch: Batch) -> Iterator[Out]:
        """Yield the output of the batch. Called once.

        `batch` is the batch that was begun, except that `__swm` holds the stream's current watermark.
        """


class AsyncOperator(Operator):
    """An operator that works on several batches at a time, outside the mailbox.

    It is the head of a chain; in batch it may be anywhere. The task calls `begin` when a batch waits at
    the input, in the order of each channel. It calls `finish` of the result when it is the batch's
    turn. So watermarks and barriers keep their position. The batches in progress are still at the
    input: the channels' credits bound them, and they are not operator state. A batch may be begun and
    never finished.
    """

    @abstractmethod
    def begin(self, port: int, batch: Batch) -> StartedWork:
        """Begin to work on a batch, and return quickly. Submit work that waits to the I/O executor one
        piece at a time, so that the operator occupies at most one of its threads."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        raise AssertionError("an asynchronous operator receives its batches through `begin`")


class CommittingOperator(Operator):
    """An operator with a second phase. For each checkpoint in the log, the task calls `commit` on the
    I/O executor with the checkpoint's committables. A second commit of the same committables has no
    effect."""

    @property
    def published_by_driver(self) -> bool:
        """Whether the driver publishes the staged rows. If so, the task calls `commit` after that."""
        return False

    def commit(self, committables: list[bytes]) -> None:
        raise NotImplementedError

    def has_room(self) -> bool:
        """Return whether the operator can accept more rows now. The task calls this before the chain
        takes an element. While the answer is False the chain takes none, and senders wait
        (backpressure). Only a commit in progress or about to be retried may make it False: the task
        calls again when that commit has ended."""
        return True


class HoldingOperator(Operator):
    """An operator whose rows wait in its state until an outside system has answered. It is the head of
    a chain.

    The chain takes no more rows while `capacity_rows` wait, unless a barrier follows them. If the input
    has ended, the chain ends once no row waits. Until then it takes its snapshots when the master
    triggers them.
    """

    @property
    @abstractmethod
    def capacity_rows(self) -> int:
        """Return the number of waiting rows at which the operator takes no more."""

    @abstractmethod
    def waiting_rows(self) -> int:
        """Return the number of rows that wait."""
