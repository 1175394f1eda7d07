"""Sink that collects rows and delivers them to the program, exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.formats.arrow_bytes import table_bytes, table_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import CheckpointId


class CollectedRows(msgspec.Struct, frozen=True):
    """Committable: the rows of one subtask and checkpoint, as an Arrow IPC stream."""

    checkpoint: int
    subtask: int
    attempt: int
    number: int
    data: bytes


@dataclass(frozen=True)
class CollectSink(Sink):
    """Sink that puts its rows into committables; a completed checkpoint delivers them to the driver.

    A subtask holds the rows of a checkpoint in memory, and the driver holds all rows. Use it only for
    results that fit into memory.
    """

    takes_changes = True

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _CollectWriter(ctx)

    def collected(self, committables: Iterable[bytes]) -> pa.Table | None:
        return collected(committables)

    def describe(self) -> str:
        return "collect"


class WholeTableWriter(SinkWriter, ABC):
    """A writer that stages the rows of an epoch as one table, under a number of its own."""

    def __init__(self, ctx: SinkContext) -> None:
        self._ctx = ctx
        self._rows: list[Batch] = []
        self._number = 0

    def write(self, batch: Batch) -> None:
        self._rows.append(batch)

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        if not self._rows:
            return []
        rows = pa.Table.from_batches(self._rows, self._ctx.schema)
        staged = self.stage(checkpoint, self._number, rows)
        self._number += 1
        self._rows = []
        return [msgspec.msgpack.encode(staged)]

    @abstractmethod
    def stage(self, checkpoint: CheckpointId, number: int, rows: pa.Table) -> msgspec.Struct:
        """Stage the rows, and return what the committable contains."""


class _CollectWriter(WholeTableWriter):
    def stage(self, checkpoint: CheckpointId, number: int, rows: pa.Table) -> CollectedRows:
        data = table_bytes(rows.combine_chunks())
        return CollectedRows(checkpoint, self._ctx.subtask, self._ctx.attempt, number, data)


def collected(committables: Iterable[bytes]) -> pa.Table | None:
    """Return the rows of one sink's committables, ordered by checkpoint and subtask. A repeated
    committable counts once. Columns of an earlier program come last, and what a row lacks is null. None
    if there are no committables."""
    decoder = msgspec.msgpack.Decoder(CollectedRows)
    found: dict[tuple[int, int, int, int], bytes] = {}
    for payload in committables:
        rows = decoder.decode(payload)
        found[rows.checkpoint, rows.subtask, rows.attempt, rows.number] = rows.data
    if not found:
        return None
    tables = [table_of(found[key]) for key in sorted(found)]
    # A checkpoint of an earlier program may have rows with fewer columns, or with narrower types.
    newest = tables[-1].schema.names
    whole = pa.concat_tables(tables, promote_options="permissive")
    return whole.select([*newest, *(name for name in whole.schema.names if name not in newest)])


CONNECTOR = ConnectorRegistration(
    name="collect",
    title="rows in memory",
    module=__name__,
    sink="CollectSink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    docs="sql.md",
)
