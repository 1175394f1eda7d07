"""The search for the rows of an operator's state whose keys are to be deleted."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.state.keys import Key
from rheos.ops.savepoints.encoding import RAW
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.state_layout import key_prefix


@dataclass(frozen=True)
class DeletedKeys:
    """Keys of an operator, given by all of its key columns or by some."""

    operator: OperatorId
    places: Sequence[int]
    """Positions among the key columns. States of a second stream have other names for them."""
    keys: frozenset[Key]

    def left(self, table: pa.Table, shape: StateShape) -> pa.Table:
        """Return the rows of other keys."""
        if not shape.key or shape.holds == StatePurpose.PROGRESS or not table.num_rows:
            return table
        columns = KeyColumns(shape.key)
        if "namespace" in table.column_names:
            of_rows = self._of_entries(table, columns)
        else:
            shown = pa.Table.from_arrays(
                columns.of_table(table, key_prefix(shape)), schema=columns.shown
            )
            names = [columns.names[place] for place in self.places]
            of_rows = columns.subset(names).of(columns.batch(shown, names))
        gone = self.keys
        left = [key not in gone for key in of_rows]
        return table if all(left) else table.filter(pa.array(left))

    def _of_entries(self, table: pa.Table, columns: KeyColumns) -> list[Key]:
        decode = columns.codec.decode
        keys = [decode(key) for key in table.column("key").to_pylist()]
        if len(columns.names) == 1:
            return keys
        if len(self.places) == 1:
            return [key[self.places[0]] for key in keys]
        return [tuple(key[place] for place in self.places) for key in keys]


@dataclass(frozen=True)
class DeleteRows:
    """The entries of a state without those of deleted keys."""

    shape: StateShape
    deleted: DeletedKeys


def delete_rows(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task: DeleteRows = pickle.loads(payload)
    for batch in batches:
        rows = pa.Table.from_batches([batch]).cast(RAW)
        yield from task.deleted.left(rows, task.shape).combine_chunks().to_batches()
