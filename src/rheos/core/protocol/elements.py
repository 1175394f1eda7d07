"""The elements of a channel: batches of rows, and the marks between them.

A batch is an Arrow record batch. In addition to the user's columns it may have hidden ones:

- ``__ts`` (int64, ms since the epoch, no nulls): the event timestamp, in every batch of a stream
  that has event time;
- ``__wm`` (int64, ms, no nulls): the watermark that the row's own source split had reached just before
  the row, if an operator downstream decides lateness;
- ``__swm`` (int64, ms, no nulls): the watermark that the stream itself had reached just before the row,
  merged over all splits and inputs, if an operator downstream fires timers between its rows;
- ``__split`` (int64, no nulls): the row's split of its source; only within the source's chain, and only
    if an operator there assigns a new event time. All rows of a batch are from one split.

Hidden columns are last, in this order. Elements of one channel are FIFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from rheos.core.protocol.ids import Attempt, ChainId, CheckpointId

Batch: TypeAlias = pa.RecordBatch

TS = "__ts"
WM = "__wm"
SWM = "__swm"
SPLIT = "__split"
HIDDEN_PREFIX = "__"

FEW_ROWS = 16
"""Maximum number of rows for which a loop is cheaper than NumPy's calls for a whole batch (measured: 1
to 2 us per row, compared with 50 to 100 us)."""

MIN_TIMESTAMP_MS = -(2**62)
"""The initial watermark. Every event timestamp is later."""

MAX_TIMESTAMP_MS = 2**62
"""The watermark at the end of bounded input. No event timestamp is later."""


@dataclass(frozen=True, slots=True)
class WatermarkMark:
    """Promises that no more rows with a timestamp at or before `timestamp_ms` follow."""

    timestamp_ms: int


class BarrierKind(Enum):
    CHECKPOINT = "checkpoint"
    """Checkpoint of the job's configured kind: aligned, unaligned, or without blocking."""

    SAVEPOINT = "savepoint"
    """Always aligned; never overtakes rows. Operators return their whole state and the changes."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows of checkpoint `checkpoint` from those of the next."""

    checkpoint: CheckpointId
    attempt: Attempt
    kind: BarrierKind = BarrierKind.CHECKPOINT


@dataclass(frozen=True, slots=True)
class Idle:
    """Announces that the sender has no rows for now. The receiver ignores its watermark until
    `Active`."""


@dataclass(frozen=True, slots=True)
class Active:
    """Announces that the sender is active again, so that its watermark counts."""


@dataclass(frozen=True, slots=True)
class End:
    """The last element of the channel. The receiver also treats it as every later barrier."""


@dataclass(frozen=True, slots=True)
class IterationMark:
    """Passes through a loop whose input has ended, after the rows before it. It detects whether the
    loop still contains rows (docs/protocols/iterations.md)."""

    number: int
    """Number of the mark, counting from 1."""
    quiet: bool
    """Whether no row returned since the previous mark, at any loop head that the mark represents."""


@dataclass(frozen=True, slots=True)
class LatencyMark:
    """Measures latency: it waits in the same queues as rows, and goes to one target of each edge."""

    source: ChainId
    """Chain of the source that sent the mark."""
    born_ms: int
    """Wall-clock time at which the mark was sent, ms since the epoch."""


Mark: TypeAlias = WatermarkMark | Barrier | Idle | Active | End | IterationMark | LatencyMark
Element: TypeAlias = Batch | Mark


def visible(schema: pa.Schema) -> pa.Schema:
    """Return the user's columns of a schema."""
    return pa.schema([field for field in schema if not field.name.startswith(HIDDEN_PREFIX)])


def strip_hidden(batch: Batch) -> Batch:
    """Return the user's columns of a batch; no rows are copied."""
    names = batch.schema.names
    shown = [name for name in names if not name.startswith(HIDDEN_PREFIX)]
    return batch if len(shown) == len(names) else batch.select(shown)
