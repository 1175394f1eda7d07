"""The Spark tasks that write columnar state: rows become tables, which are divided by ranges of key
groups, sorted, and written.

    rows ─ encoder ─ (target, state, table) ─ repartition_by_id of targets ─ sorted by key group ─ files

Between the two stages a table is one value, so its columns may have types that Spark lacks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.spark.spark_types import to_arrow
from rheos.core.errors import InputError
from rheos.core.formats.arrow_bytes import table_bytes, table_of
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.key_groups import owner_of
from rheos.core.protocol.snapshots import StateHandle, StateKind
from rheos.core.state.key_groups import subtask_of
from rheos.core.state.parts import GROUP
from rheos.ops.savepoints.writing_tasks import PIECE_ROWS, handle_rows, put_part
from rheos.runtimes.host.stores import open_store

PACKED = pa.schema([("target", pa.int32()), ("state", pa.string()), ("rows", pa.binary())])


class ColumnEncoder(Protocol):
    """Conversion of rows to the tables of columnar states. Spark ships it to the tasks."""

    @property
    def unique(self) -> Mapping[str, tuple[str, ...]]:
        """Return, for each state, the columns that identify a row; the keys are among them. Empty if
        equal rows may occur."""
        ...

    def tables(self, rows: pa.RecordBatch) -> Mapping[str, pa.Table]:
        """Return the tables of some rows, by state. The first column of each is the key group, as
        uint16.

        Raise InputError if a row does not match the state.
        """
        ...


@dataclass(frozen=True)
class PackColumns:
    """Rows of a DataFrame, as tables by target and state."""

    encoder: ColumnEncoder
    given: pa.Schema
    targets: int
    max_parallelism: int


@dataclass(frozen=True)
class WriteColumns:
    """Tables of an operator's states. One task has all rows of a target."""

    directory: str
    operator: OperatorId
    unique: Mapping[str, tuple[str, ...]]
    """Columns that identify a row, by state."""
    parallelism: int
    targets: int
    max_parallelism: int
    token: str


def pack_columns(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task: PackColumns = pickle.loads(payload)
    for batch in batches:
        made = []
        for state, table in task.encoder.tables(to_arrow(batch, task.given)).items():
            targets = subtask_of(table.column(GROUP).to_numpy(), task.targets, task.max_parallelism)
            for target in np.unique(targets):
                rows = table_bytes(table.filter(pa.array(targets == target)))
                made.append({"target": int(target), "state": state, "rows": rows})
        yield pa.RecordBatch.from_pylist(made, PACKED)


def write_columns(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return handle_rows(_columns_written(pickle.loads(payload), batches))


def _columns_written(task: WriteColumns, batches: Iterable[pa.RecordBatch]) -> Iterator[StateHandle]:
    store = open_store(task.directory)
    by_file: dict[tuple[int, str], list[pa.Table]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            by_file.setdefault((row["target"], row["state"]), []).append(table_of(row["rows"]))
    for (target, state), tables in sorted(by_file.items()):
        table = pa.concat_tables(tables)
        order = [(name, "ascending") for name in (GROUP, *task.unique[state])]
        table = table.take(pc.sort_indices(table, order)).combine_chunks()
        _check_unique(task, state, table)
        subtask = owner_of(target, task.parallelism, task.targets)
        for number, begin in enumerate(range(0, table.num_rows, PIECE_ROWS)):
            name = f"{task.token}-{target:05d}-{number:05d}.arrow"
            yield put_part(
                store,
                table.slice(begin, PIECE_ROWS),
                operator=task.operator,
                state=state,
                subtask=subtask,
                kind=StateKind.KEYED,
                name=name,
            )


def _check_unique(task: WriteColumns, state: str, table: pa.Table) -> None:
    """Raise InputError if two rows have equal identifying columns. The rows are sorted by these."""
    if table.num_rows < 2 or not task.unique[state]:
        return
    same = pa.repeat(pa.scalar(True), table.num_rows - 1)
    for name in task.unique[state]:
        column = table.column(name).combine_chunks()
        same = pc.and_(same, pc.equal(column.slice(1), column.slice(0, table.num_rows - 1)))
    if pc.any(same).as_py():
        at = pc.index(same, True).as_py()
        key = {name: table.column(name)[at].as_py() for name in task.unique[state]}
        raise InputError(
            f"state {state!r} of operator {task.operator!r} has the same row twice",
            key=repr(key),
            hint="pass one row for each key and pane",
        )
