"""The outlets of a task: one for each layout that the next step of Spark's plan may read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from rheos.connectors.spark.spark_types import to_spark
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import Batch, strip_hidden
from rheos.core.protocol.state_config import MIB
from rheos.core.task.custom_partition import CustomPartitioner
from rheos.runtimes.batch import task_notes
from rheos.runtimes.batch.keyed_input import BatchBuffer
from rheos.runtimes.batch.layout import FIRST_RESULT_PORT, LANE_BITS, NOTE_PORT, packed_row
from rheos.runtimes.batch.results import too_large
from rheos.runtimes.batch.tasks import PackedOutput

_PIECE_BYTES = 2 * MIB

Rows: TypeAlias = Iterator[pa.RecordBatch]
"""Record batches in one of the layouts of `layout.py`."""


class Outlet(ABC):
    """The output of one task."""

    @abstractmethod
    def rows(self, edge: int, batch: Batch) -> Rows:
        """Yield the output rows for a batch that is not empty."""

    @abstractmethod
    def note(self, note: bytes) -> Rows:
        """Yield the output rows that carry a note."""

    def finish(self) -> Rows:
        """Yield the remaining output rows. Called after the last row."""
        return iter(())


class PackedOutlet(Outlet):
    """An outlet that packs batches. Those that the driver collects are packed into larger pieces."""

    def __init__(self, output: PackedOutput) -> None:
        self._results = {
            port: _CollectedRows(sink, output.most_bytes) for port, sink in output.results.items()
        }
        self._partitioners = {edge: CustomPartitioner(*by) for edge, by in output.custom.items()}

    def rows(self, edge: int, batch: Batch) -> Rows:
        if edge in self._partitioners:
            for lane, piece in enumerate(self._partitioners[edge].split(batch)):
                if piece is not None:
                    yield packed_row(edge + (lane << LANE_BITS), table_bytes(piece))
            return
        if edge > FIRST_RESULT_PORT:
            yield packed_row(edge, table_bytes(batch))
            return
        collected = self._results[edge]
        if collected.gathered.add(strip_hidden(batch)):
            yield packed_row(edge, collected.piece())

    def note(self, note: bytes) -> Rows:
        yield packed_row(NOTE_PORT, note)

    def finish(self) -> Rows:
        for port, collected in self._results.items():
            if collected.gathered:
                yield packed_row(port, collected.piece())
            if collected.handed.pieces:
                yield from self.note(task_notes.encode(collected.handed))


class _CollectedRows:
    """The rows that one sink collects in this task."""

    def __init__(self, sink: PlannedOperator, most_bytes: int) -> None:
        self._sink = sink
        self._most_bytes = most_bytes
        self.gathered = BatchBuffer(bytes_at_once=_PIECE_BYTES)
        self.handed = task_notes.Handed(operator=sink.id, pieces=0, rows=0, size_bytes=0)

    def piece(self) -> bytes:
        """Return the rows so far. Raise ConfigurationError if this task alone has too many."""
        table = pa.Table.from_batches(self.gathered.take()).combine_chunks()
        piece = table_bytes(table)
        self.handed = self.handed.plus(
            task_notes.Handed(
                operator=self._sink.id, pieces=1, rows=table.num_rows, size_bytes=len(piece)
            )
        )
        if self.handed.size_bytes > self._most_bytes:
            error = too_large(self.handed.size_bytes, self._most_bytes)
            raise error.located(site=self._sink.site, operator=self._sink.name)
        return piece


class FrameOutlet(Outlet):
    """An outlet of rows in the form of the user's DataFrame. It drops notes: nobody would read them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def rows(self, edge: int, batch: Batch) -> Rows:
        yield to_spark(strip_hidden(batch), self._schema)

    def note(self, note: bytes) -> Rows:
        return iter(())
