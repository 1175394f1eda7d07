"""What flows on a channel: batches of rows, and the marks between them.

A batch is an Arrow record batch. Beside the user's columns it may carry hidden ones:

- ``__ts`` (int64, ms since the epoch, no nulls): the event timestamp, in every batch of a stream
  that has event time;
- ``__wm`` (int64, ms, no nulls): the watermark that the row's own source split had reached just
  before the row, where an operator downstream decides lateness;
- ``__swm`` (int64, ms, no nulls): the watermark that the stream itself had reached just before the
  row, all splits and inputs merged, where an operator downstream fires timers among its rows;
- ``__split`` (int64, no nulls): which split of its source the row is of, within the source's chain,
  where an operator there gives a new event time. A batch is of one split.

Hidden columns stand last, in this order. Elements of one channel are FIFO.
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
"""Up to so many rows a loop over them costs less than the calls of numpy that do it for a whole batch
(measured: 1 to 2 us a row, against 50 to 100)."""

MIN_TIMESTAMP_MS = -(2**62)
"""The watermark before anything is known. No event timestamp lies at or before it."""

MAX_TIMESTAMP_MS = 2**62
"""The watermark at the end of bounded input. No event timestamp lies after it."""


@dataclass(frozen=True, slots=True)
class WatermarkMark:
    """Promises that no more rows with a timestamp at or before `timestamp_ms` follow."""

    timestamp_ms: int


class BarrierKind(Enum):
    CHECKPOINT = "checkpoint"
    """Taken as the job is configured: aligned, unaligned, or without blocking."""

    SAVEPOINT = "savepoint"
    """Always aligned, and never overtakes rows; operators give their whole state beside the changes."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows of checkpoint `checkpoint` from those of the next."""

    checkpoint: CheckpointId
    attempt: Attempt
    kind: BarrierKind = BarrierKind.CHECKPOINT


@dataclass(frozen=True, slots=True)
class Idle:
    """The sender has nothing for now: its watermark steps aside until `Active`."""


@dataclass(frozen=True, slots=True)
class Active:
    """The sender is back; its watermark counts again."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows on this channel. Counts as every later barrier on it."""


@dataclass(frozen=True, slots=True)
class IterationMark:
    """Goes round a loop whose input has ended, behind the rows before it, to find out whether it has
    fallen silent (docs/protocols/iterations.md)."""

    number: int
    """From 1."""
    quiet: bool
    """Whether no row came round between the lap before and this one, where all that it stands for
    began."""


@dataclass(frozen=True, slots=True)
class LatencyMark:
    """Says how long rows take: it waits where rows wait, and goes to one target of each edge."""

    source: ChainId
    """Of whose source it is."""
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
