"""The operator contract: the methods that the task calls, when, and in which order.

The task calls, from one thread:

    open(restored)                         once, first
    on_in_flight(port, batch)              for rows that were in flight when the restored checkpoint
                                           was taken; before every other call with input
    on_batch(port, batch)                  for every batch of an input on_watermark(timestamp_ms)
    when the merged watermark of all inputs rose on_processing_time(now_ms)             when the time
    from `next_processing_time_ms` is reached snapshot(checkpoint)                   at a barrier,
    between calls; synchronous and quick savepoint(snapshot)                    right after `snapshot`,
    if the barrier is that of a savepoint snapshot_failed(checkpoint)            when the result of a
    snapshot was not stored completed(checkpoint)                  when the checkpoint is in the log; in
    rising order; if several
                                           complete at once, perhaps only for the newest
    next_keys()                            only in the batch runtime, after the last watermark: all keys
                                           so far have ended, and the watermark starts over
    on_end()                               once, when all inputs have ended, after the last watermark
    close()                                once, last, also after an error

An operator has a port for each input of its node. Batches of different ports arrive in any order.
Batches from one sender to one port arrive in the order of sending. In the batch runtime the rows of
each key arrive by event time, across all keyed ports. The rows of a broadcast port arrive before all
others, and `next_keys` keeps the state that they created. Rows of a broadcast port arrive at every
subtask and change no keyed state. Otherwise, after a rescale, they would have changed some keys twice
and others not at all (EX17).

Methods that emit are generators of `Out`. The task may suspend a generator when credit ends; it is
always driven to its end before the next call. An operator forwards neither watermarks nor barriers:
the task does, after the generator has ended. `snapshot` never emits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

import polars as pl
import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.graph.job_context import JobContext
from rheos.core.graph.nodes import MAIN, Spec, StreamType
from rheos.core.operators.origins import OneRow, Origin, RowsOfKey
from rheos.core.protocol.accumulated import Accumulated
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.ports import Clock, TaskIo
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.core.protocol.state_config import MIB, StateConfig
from rheos.core.state.key_limit import KeyContents, KeyLimit


class Out(NamedTuple):
    """A batch on its way out, hidden columns included, with the tag of its output."""

    batch: Batch
    tag: str = MAIN


@dataclass(frozen=True)
class PortType:
    """Input port: the rows that arrive."""

    type: StreamType
    keys: tuple[str, ...]
    schema: pa.Schema
    """With the hidden columns."""
    keyed_at: Site | None = None
    """The line of the `key_by`, which a null key is blamed on."""
    broadcast: bool = False
    """Whether every subtask gets every row."""

    @property
    def in_flight(self) -> StateKind:
        """The kind of state as which rows in flight to the port are redistributed (EX13)."""
        if self.keys:
            return StateKind.KEYED
        return StateKind.BROADCAST if self.broadcast else StateKind.LIST


@dataclass(frozen=True)
class OutputType:
    """Type of the rows that leave by a tag."""

    type: StreamType
    schema: pa.Schema
    """With the hidden columns."""


class Adds(Protocol):
    """Something of the user's that adds up."""

    @property
    def value(self) -> Accumulated: ...


@dataclass
class OperatorContext:
    """Context of an operator on the worker."""

    job: JobId
    attempt: Attempt
    operator: OperatorId
    name: str
    site: Site
    subtask: int
    parallelism: int
    """Number of subtasks in which the operator has rows. Further subtasks have no rows and own
    nothing."""
    max_parallelism: int
    ports: tuple[PortType, ...]
    outputs: Mapping[str, OutputType]
    """Only the tags that someone reads; rows for others need not be made."""
    clock: Clock
    io: TaskIo
    batch_rows: int
    """Emit batches of about this many rows at the most."""
    state: StateConfig = field(default_factory=StateConfig)
    state_bytes: int = 256 * MIB
    """The operator's own share of the memory for state."""
    scratch: str | None = None
    """A local folder of this operator alone, made when first used and gone with the task. None where
    there is no disk."""
    counters: dict[str, int] = field(default_factory=dict)
    """The operator's counts, such as `late`; reported with its progress."""
    accumulators: dict[str, Adds] = field(default_factory=dict)
    """Accumulators of its function; reported likewise."""
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Gauges of its function; read when its progress is reported."""
    program: JobContext = field(default_factory=JobContext)
    """The context passed to all functions of the job."""
    limits: list[KeyLimit] = field(default_factory=list)
    """Limits of what one key may keep in the operator, one for each kind of state."""

    def key_limit(self, kept: KeyContents) -> KeyLimit:
        """Returns a new limit of what one key may keep."""
        limit = KeyLimit.of(self.state, kept, site=self.site, operator=self.name)
        self.limits.append(limit)
        return limit

    def count(self, name: str, by: int = 1) -> None:
        self.counters[name] = self.counters.get(name, 0) + by

    @property
    def key_groups(self) -> range:
        """The key groups this subtask owns: those whose subtask is group * P // max."""
        return group_range(self.subtask, self.parallelism, self.max_parallelism)


Restored = Mapping[str, Iterable[pa.Table]]
"""State by name: the tables of one state, in the order in which they apply (a full one, then its
deltas), read and decoded as they are iterated over. Of KEYED state only rows of the subtask's key
groups are in it; LIST rows are those dealt to this subtask. What was kept as files is a
`protocol.snapshots.RestoredState` that has them in `files`."""


class Operator(ABC):
    """The base of all operators. The defaults suit a stateless one."""

    def __init__(self, ctx: OperatorContext) -> None:
        self.ctx = ctx

    def open(self, restored: Restored) -> None:
        """Prepares to run, from restored state where the mapping is not empty."""

    def away_ms(self) -> float:
        """Return how long the server that it calls has not answered, 0 if it does or it calls none. A
        metric: called about once a second."""
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
        """A batch that another attempt had sent, and none has processed. The state is the one that was
        restored; of the key groups of one subtask, some may have seen a later watermark than others."""
        return self.on_batch(port, batch)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        return iter(())

    def next_processing_time_ms(self) -> int | None:
        """Return the next time at which `on_processing_time` is due. The task asks after every call."""
        return None

    def on_processing_time(self, now_ms: int) -> Iterator[Out]:
        return iter(())

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot()

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        """The whole state, as FULL parts that any backend reads. Called right after `snapshot`, with
        what that gave, where the checkpoint is a savepoint, too. Changes nothing: the next snapshot
        is what it would have been without."""
        assert not snapshot.files
        assert all(part.mode is PartMode.FULL for part in snapshot.parts), (
            "an operator that stores deltas defines its own savepoints"
        )
        return snapshot.parts

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        """Handle a snapshot whose result was not stored: the next one must hold the whole state."""

    def completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is in the log. Called at any time, also while a generator is suspended; quick,
        and emits nothing."""

    def next_keys(self) -> None:
        """All keys so far have ended, and have had the last watermark: forgets them, and starts over.
        Called of keyed operators in the batch runtime, which have their state in memory."""
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
    """It processes each row by itself."""
    OF_SPLIT = "of split"
    """The order within a split. Across splits event time decides, or rows are independent."""
    OF_ARRIVAL = "of arrival"
    """The order in which rows of all splits and ports arrive."""


ASKS_OUTSIDE = "it queries an external system, whose answers change over time"
"""Reason of an operator that calls other systems (`OperatorSpec.differs_elsewhere`)."""


class Phases(NamedTuple):
    """Two operators that do the work of one: before and after an exchange."""

    first: OperatorSpec
    partials: pa.Schema
    """The columns that the first sends to the second."""
    second: OperatorSpec


Needed: TypeAlias = Mapping[str, frozenset[str]]
"""Per output tag: the columns that operators downstream need."""


class OperatorSpec(Spec):
    """A kind of operator in one file: its description, of which programs are made, next to its logic,
    which is built from it on the worker. It is a frozen dataclass, and picklable.

    `Program.add` writes it with its inputs, which specify how their rows are distributed. Everything
    that the planner, the runtimes, `explain`, `why` and `fork` need to know is a method here. The
    defaults are safe for any operator: all columns are read, and any order may count.
    """

    @abstractmethod
    def operator(self, ctx: OperatorContext) -> Operator:
        """Build the operator, not open yet. Called on the worker, once in every subtask."""

    def in_batch(self, ctx: OperatorContext) -> Operator:
        """Build the operator for the batch runtime, which delivers no row of a key before all of them
        are there, and takes no checkpoints. Called as `operator`."""
        return self.operator(ctx)

    def combines_in_batch(self, read: Collection[str]) -> bool:
        """Return whether a batch job may shuffle the state of such operators instead of their rows.
        Then `operator` makes a `WindowAggregateOperator`. `read` has the tags of outputs that are read.
        """
        return False

    def phases(self, rows: PortType, read: Collection[str]) -> Phases | str:
        """Return the two operators that replace this one after a whole stream (`plan.two_phases`), or
        the reason why it needs every row."""
        return "the trigger or an aggregate of the windows reads every column"

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        """Return what its snapshots hold, by the names of their parts: a state that is not described is
        not restored. Raises SchemaError if something cannot be stored."""
        return {}

    def stored_types(self) -> Mapping[str, Sequence[Any]]:
        """Return the Python types of declared state, by its name: of the values; of a map, of its keys
        and values. DataFrames that become state are checked by them."""
        return {}

    @property
    def loop_capacity(self) -> int | None:
        """The number of rows that may wait to go round again, if it is the head of a loop."""
        return None

    @property
    def keeps_rows(self) -> bool:
        """Whether its state holds whole input rows, also columns that it does not read today. A changed
        program may read them, so a runtime that stores state does not prune its inputs."""
        return False

    # --- columns ------------------------------------------------------------------------------------

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        """Return which of the visible `columns` of an input it needs, its key aside: those that it
        reads, and those that it passes on and that are `needed` downstream. None: all."""
        return None

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        """Return the columns of an output when the input lost the columns `gone`, which
        `columns_read` did not name."""
        return columns

    def keeps_columns(self, columns: Collection[str]) -> bool:
        """Return whether each output row is one input row with these columns unchanged, made without
        other rows. `debug` drops rows of other keys before such operators."""
        return False

    def predicates(self) -> Sequence[pl.Expr]:
        """Return the conditions of an operator that only drops rows; the batch runtime pushes them into
        sources. Empty if it does anything else."""
        return ()

    # --- descriptions -------------------------------------------------------------------------------

    def row_order(self) -> RowOrder:
        """Return which order of its input rows its output depends on."""
        return RowOrder.OF_ARRIVAL

    def origin(self) -> Origin:
        """Return which input rows an output row is made of, for `why`."""
        return RowsOfKey()

    def with_function(self, fn: Any) -> OperatorSpec:
        """Return the same operator with another function, which `why` and `debug` watch."""
        own: Any = self
        made: OperatorSpec = replace(own, fn=fn)
        return made

    def interpreted(self) -> OperatorSpec:
        """Return the same operator with its function as it is written: a debugger cannot see into
        compiled code."""
        return self

    def differs_elsewhere(self) -> Sequence[str]:
        """Return why a fork, which runs later and elsewhere, may get another output; the parts of
        its function aside, which `fork` inspects itself."""
        return ()


class RowSpec(OperatorSpec):
    """An operator that makes its output of each input row by itself."""

    def row_order(self) -> RowOrder:
        return RowOrder.NONE

    def origin(self) -> Origin:
        return OneRow()


class SplitSpec(RowSpec):
    """An operator that makes its output of each input row by itself, or of rows that it orders by event
    time. Only the order within a split affects the output."""

    def row_order(self) -> RowOrder:
        return RowOrder.OF_SPLIT


class KeySpec(OperatorSpec):
    """An operator that makes its output of all rows of a key, or of a stream without keys, in the order
    of their arrival."""

    def row_order(self) -> RowOrder:
        return RowOrder.OF_ARRIVAL

    def origin(self) -> Origin:
        return RowsOfKey()


class Parted(NamedTuple):
    """A batch in two."""

    begun: Begun
    """The work that finishes the rows that leave."""
    leaves: Batch
    stays: Batch


class Begun(ABC):
    """Work on one batch that an operator has started outside the mailbox. Called in the mailbox."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether `finish` may be called. Asked often, and quick: here it takes what has come in, and
        tries again what has failed. Raises what ends the attempt."""

    def wake_after_us(self) -> int | None:
        """While it is not ready: when to ask again. None: a completion of the I/O executor wakes."""
        return None

    def part(self, batch: Batch) -> Parted | None:
        """While it is not ready: the rows of the batch that may leave before the others, and before
        those of batches ahead of it, up to the last mark. None: no row may, or none is looked for yet.
        What is not among them stays at the input, and is begun already."""
        return None

    def joined(self, other: Begun) -> Begun | None:
        """Return work that finishes both as one batch, with the rows of `other` after its own.

        Returns None if they may not share a batch. If they do, the operator, and not credits, bounds
        the rows that have stayed.
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
    def begin(self, port: int, batch: Batch) -> Begun:
        """Begins to work on a batch. Quick: what waits is submitted to the I/O executor, one piece of
        work at a time, so that it takes one thread from the others at the most."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        raise AssertionError("an asynchronous operator receives its batches through `begin`")


class CommittingOperator(Operator):
    """An operator with a second phase. The task calls `commit` on the I/O executor, for what a
    checkpoint in the log has staged; committing the same again does nothing."""

    @property
    def published_by_driver(self) -> bool:
        """Whether the driver publishes what is staged. The task calls `commit` after that."""
        return False

    def commit(self, committables: list[bytes]) -> None:
        raise NotImplementedError

    def has_room(self) -> bool:
        """Return whether it can take more rows now. The task asks before the chain takes an element;
        while the answer is False the chain takes none, so senders wait (back-pressure). Only a commit
        that is under way, or is retried, may make it False: the task asks again when that has ended."""
        return True
