"""The Spark tasks that read state. Each task reads one file."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from rheos.connectors.spark.spark_types import to_spark
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.errors import CheckpointError, RheosError, UnrestorableError
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.state import format as state_format
from rheos.ops.savepoints.layouts import layout_of
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.state_tables.entry_layouts import EntryLayout

BATCH_ROWS = 1 << 14

T = TypeVar("T")


@dataclass(frozen=True)
class ReadState:
    """The rows of one state. Task i reads the files of share i."""

    directory: str
    state: str
    shares: Sequence[Sequence[StateHandle]]
    shapes: Mapping[str, StateShape]
    """Shapes of all states of the operator."""
    trusted: bool = False
    """Whether pickled rows may run code when they are read."""


def read_state(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task: ReadState = pickle.loads(payload)
    layout = layout_of(task.state, task.shapes, trusted=task.trusted)
    for table in tables(task, batches):
        # Shown rows take more memory than stored ones.
        at_once = BATCH_ROWS if isinstance(layout, EntryLayout) else max(table.num_rows, 1)
        for start in range(0, table.num_rows, at_once):
            try:
                rows = layout.rows(table.slice(start, at_once)).combine_chunks()
            except RheosError as error:
                raise error.located(site=None, operator=task.shares[0][0].operator) from None
            yield from to_spark(rows, layout.schema).to_batches(max_chunksize=BATCH_ROWS)


def tables(task: ReadState, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the tables of the shares whose numbers are in `batches`. Raise CheckpointError, with the
    file's name, if a file cannot be read."""
    store = open_store(task.directory, make=False)
    for share in numbered(task.shares, batches):
        for handle in share:
            yield decoded(read_part(store, handle), handle)


def numbered(items: Sequence[T], batches: Iterable[pa.RecordBatch]) -> Iterator[T]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield items[number]


def decoded(data: bytes, handle: StateHandle) -> pa.Table:
    try:
        return state_format.decode(data, None)
    except CheckpointError as error:
        raise UnrestorableError(
            f"the state {handle.state!r} of operator {handle.operator!r} in {handle.path} could not be "
            f"read: {error.what}",
            hint=error.hint,
        ) from error
