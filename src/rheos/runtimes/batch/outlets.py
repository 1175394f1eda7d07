"""How rows leave a task, by the layout that the next step of Spark's plan reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from rheos.connectors.spark.types import to_spark
from rheos.protocol.elements import Batch, strip_hidden
from rheos.runtimes.batch.layout import NOTE_PORT, pack, packed_row

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


class FrameOutlet(Outlet):
    """Rows as the user's DataFrame has them. Nobody is there to read notes."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def rows(self, edge: int, batch: Batch) -> Rows:
        yield to_spark(strip_hidden(batch), self._schema)

    def note(self, note: bytes) -> Rows:
        return iter(())
