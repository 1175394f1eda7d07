"""The rows of an operator's keyed ports, sorted together and separated again.

    port 0   hash | columns ─┐                                                     ┌─ batches of port 0
                             ├─ hash | time | port | columns of 0 | columns of 1 ──┤
    port 2   hash | columns ─┘        sorted, in generations                       └─ batches of port 2

Rows of a key are in the order of event time, then of the port; rows without event time are first. Each
batch for the operator has rows of one port. So a generation is delivered in *turns*, unless its
operator accepts any order (`Spec.any_order`). The first turn has each key's rows up to where the port
changes, the next one its rows up to the next change.

    hash   1 1 1 2 2 3        turn 0, port 0: 1 1 3      turn 1, port 0: 2
    port   0 0 2 2 0 0        turn 0, port 2: 2          turn 1, port 2: 1
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.runtimes.batch.buckets import converted, hashed_schema, without_hashes
from rheos.runtimes.batch.layout import HASH
from rheos.runtimes.batch.sorted_runs import Order

_PORT = "__port"


class KeyedRows(ABC):
    """The form in which a task holds shuffled rows until it delivers them. Each batch has the column
    HASH, and TS if rows have event time."""

    order: Order
    timed: bool
    """Whether any rows have event time."""
    ports: int
    """Number of ports. A batch is at most this many times as large as its payload."""

    @abstractmethod
    def read(self, port: int, payload: pa.Buffer) -> pa.RecordBatch:
        """Return the packed rows of a port."""

    @abstractmethod
    def delivered(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Batch]]:
        """Yield batches of sorted rows for the operator's ports, in the order of each key."""


def keyed_rows_of(schemas: Mapping[int, pa.Schema], *, in_turns: bool = True) -> KeyedRows:
    """Return the rows' form, from the schemas of the keyed ports. Unless `in_turns`, a generation's
    rows are delivered port by port."""
    if len(schemas) == 1:
        [(port, schema)] = schemas.items()
        return OnePort(port, schema)
    return SeveralPorts(schemas, in_turns=in_turns)


class OnePort(KeyedRows):
    """The rows of one port, unchanged."""

    def __init__(self, port: int, schema: pa.Schema) -> None:
        self._port = port
        self._schema = schema
        self._hashed = hashed_schema(schema)
        self.timed = TS in schema.names
        self.ports = 1
        self.order = Order((HASH, TS) if self.timed else (HASH,))

    def read(self, port: int, payload: pa.Buffer) -> pa.RecordBatch:
        return pa.ipc.read_record_batch(payload, self._hashed)

    def delivered(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Batch]]:
        for batch in without_hashes(rows, self._schema):
            yield self._port, batch


class SeveralPorts(KeyedRows):
    """Rows of several ports. A row has its columns in one struct, and nulls in those of other ports."""

    def __init__(self, schemas: Mapping[int, pa.Schema], *, in_turns: bool = True) -> None:
        self._in_turns = in_turns
        self._schemas = schemas
        self._hashed = {port: hashed_schema(schema) for port, schema in schemas.items()}
        self._structs = {
            # The first column is the hash.
            port: pa.struct(list(schema)[1:])
            for port, schema in self._hashed.items()
        }
        self._schema = pa.schema(
            [
                pa.field(HASH, pa.int64(), False),
                pa.field(TS, pa.int64(), False),
                pa.field(_PORT, pa.int32(), False),
                *(pa.field(str(port), struct) for port, struct in self._structs.items()),
            ]
        )
        self.timed = any(TS in schema.names for schema in schemas.values())
        self.ports = len(schemas)
        self.order = Order((HASH, TS, _PORT))

    def read(self, port: int, payload: pa.Buffer) -> pa.RecordBatch:
        rows = pa.ipc.read_record_batch(payload, self._hashed[port])
        count = rows.num_rows
        if TS in rows.schema.names:
            times = rows.column(TS)
        else:
            times = pa.array(np.full(count, MIN_TIMESTAMP_MS, np.int64))
        columns = [
            pa.StructArray.from_arrays(rows.columns[1:], fields=list(struct))
            if number == port
            else pa.nulls(count, struct)
            for number, struct in self._structs.items()
        ]
        ports = pa.array(np.full(count, port, np.int32))
        return pa.RecordBatch.from_arrays([rows.column(0), times, ports, *columns], schema=self._schema)

    def delivered(self, rows: pa.RecordBatch) -> Iterator[tuple[int, Batch]]:
        if not rows.num_rows:
            return
        hashes, ports = (rows.column(name).to_numpy() for name in (HASH, _PORT))
        turns = _turns(hashes, ports) if self._in_turns else np.zeros_like(hashes)
        order = np.lexsort((ports, turns))
        rows = rows.take(pa.array(order))
        turns, ports = turns[order], ports[order]
        changes = (turns[1:] != turns[:-1]) | (ports[1:] != ports[:-1])
        begins = [0, *(np.flatnonzero(changes) + 1).tolist(), len(turns)]
        for begin, end in pairwise(begins):
            port = int(ports[begin])
            struct = rows.column(str(port)).slice(begin, end - begin)
            for batch in converted(pa.RecordBatch.from_struct_array(struct), self._schemas[port]):
                yield port, batch


def _turns(hashes: npt.NDArray[np.int64], ports: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return, for each row, how often the port changed in the earlier rows of its key."""
    new_key = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    runs = np.cumsum(new_key | np.concatenate([[True], ports[1:] != ports[:-1]]))
    return runs - np.maximum.accumulate(np.where(new_key, runs, 0))
