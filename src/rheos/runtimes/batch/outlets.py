"""How rows leave a task, by the layout that the next step of Spark's plan reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from rheos.connectors.spark.types import to_spark
from rheos.protocol.elements import Batch, strip_hidden
from rheos.runtimes.batch.layout import NOTE_PORT, RowLayout, pack, packed_row
from rheos.runtimes.batch.tasks import RowsOutput
from rheos.state.key_groups import NullKeyError, hash_keys

Rows: TypeAlias = Iterator[pa.RecordBatch]
"""Record batches in one of the layouts of `layout.py`."""


class Outlet(ABC):
    """Where the rows of one task leave."""

    @abstractmethod
    def rows(self, edge: int, batch: Batch) -> Rows:
        """What a batch becomes that is not empty."""

    @abstractmethod
    def note(self, note: bytes) -> Rows:
        """What carries a note."""

    def finish(self) -> Rows:
        """What is left when all rows have come."""
        return iter(())


class PackedOutlet(Outlet):
    """Packs batches."""

    def rows(self, edge: int, batch: Batch) -> Rows:
        yield packed_row(edge, pack(batch))

    def note(self, note: bytes) -> Rows:
        yield packed_row(NOTE_PORT, note)


class HashOutlet(Outlet):
    """Hashes the keys of rows, and numbers them."""

    def __init__(self, output: RowsOutput, partition: int) -> None:
        self._keys = output.edge.keys
        self._layout = RowLayout(output.schema)
        self._partition = partition
        self._position = 0

    def rows(self, edge: int, batch: Batch) -> Rows:
        try:
            hashes = hash_keys([batch.column(key) for key in self._keys])
        except NullKeyError as error:
            raise error.located_in(batch, self._keys) from None
        position = self._position
        self._position += batch.num_rows
        yield self._layout.rows(batch, hashes, self._partition, position)

    def note(self, note: bytes) -> Rows:
        yield self._layout.note(note)


class FrameOutlet(Outlet):
    """Rows as the user's DataFrame has them. Nobody is there to read notes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def rows(self, edge: int, batch: Batch) -> Rows:
        yield to_spark(strip_hidden(batch), self._schema)

    def note(self, note: bytes) -> Rows:
        return iter(())
