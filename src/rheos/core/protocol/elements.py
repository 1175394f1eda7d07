"""The elements of a channel: batches of rows, and the marks between them.

A batch is an Arrow record batch. In addition to the user's columns it may have hidden ones:

- ``__ts`` (int64, ms since the epoch, no nulls): the event timestamp, in every batch of a stream
  that has event time;
- ``__wm`` (int64, ms, no nulls): the watermark that the row's own source split had reached just
  before the row, where an operator downstream decides lateness;
- ``__swm`` (int64, ms, no nulls): the watermark that the stream itself had reached just before the
  row, all splits and inputs merged, where an operator downstream fires timers among its rows;
- ``__split`` (int64, no nulls): the row's split of its source, within the source's chain, if an
  operator there assigns a new event time. All rows of a batch are of one split.

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
"""Maximum number of rows for which a loop costs less than numpy's calls for a whole batch (measured: 1
to 2 us for each row, compared with 50 to 100 us)."""

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
    """Taken as the job is configured: aligned, unaligned, or without blocking."""

    SAVEPOINT = "savepoint"
    """Always aligned, and never overtakes rows. Operators return their whole state and the changes."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows of checkpoint `checkpoint` from those of the next."""

    checkpoint: CheckpointId
    attempt: Attempt
    kind: BarrierKind = BarrierKind.CHECKPOINT


@dataclass(frozen=True, slots=True)
class Idle:
    """The sender has no rows for now. Its watermark is ignored until `Active`."""


@dataclass(frozen=True, slots=True)
class Active:
    """The sender is back; its watermark counts again."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows on this channel. Counts as every later barrier on it."""


@dataclass(frozen=True, slots=True)
class IterationMark:
    """Passes through a loop whose input has ended, after the rows before it, to find out whether rows
    are left in the loop (docs/protocols/iterations.md)."""

    number: int
    """From 1."""
    quiet: bool
    """Whether no row returned between the previous mark and this one, at any head that the mark
    represents."""


@dataclass(frozen=True, slots=True)
class LatencyMark:
    """Says how long rows take: it waits where rows wait, and goes to one target of each edge."""

    source: ChainId
    """The chain whose source sent the mark."""
    born_ms: int
    """By the wall clock, ms since the epoch."""


Mark: TypeAlias = WatermarkMark | Barrier | Idle | Active | End | IterationMark | LatencyMark
Element: TypeAlias = Batch | Mark


def visible(schema: pa.Schema) -> pa.Schema:
    """The user's part of a schema."""
    return pa.schema([field for field in schema if not field.name.startswith(HIDDEN_PREFIX)])


def strip_hidden(batch: Batch) -> Batch:
    """The user's part of a batch; no rows are copied."""
    names = batch.schema.names
    shown = [name for name in names if not name.startswith(HIDDEN_PREFIX)]
    return batch if len(shown) == len(names) else batch.select(shown)
