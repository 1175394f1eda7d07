"""Writes a changed savepoint: each state through Spark, and the manifest last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rheos.connectors.spark import versions
from rheos.connectors.spark.collecting import collected, collected_table
from rheos.connectors.urls import absolute
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import STATE, Savepoint, write_savepoint
from rheos.core.errors import CheckpointError
from rheos.core.protocol import error_data
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Store
from rheos.core.protocol.shapes import StatePurpose, StateShape
from rheos.core.protocol.snapshots import StateHandle, StateKind
from rheos.core.state.key_groups import subtask_of
from rheos.core.state.parts import GROUP
from rheos.core.version import VERSION
from rheos.ops.savepoints.column_writing import PACKED, PackColumns, WriteColumns
from rheos.ops.savepoints.deleting import DeletedKeys, DeleteRows
from rheos.ops.savepoints.encoding import RAW, EncodeState
from rheos.ops.savepoints.savepoint_edits import Base, Change, Delete, Drop, Put, PutColumns, PutTable
from rheos.ops.savepoints.task_frames import numbered, over_rows, quoted, reads
from rheos.ops.savepoints.writing_tasks import WRITTEN, CopyFiles, WriteState, handle_decoder, put_part
from rheos.runtimes.host.stores import check_lasting, open_store
from rheos.runtimes.spark.shipping import worker_error
from rheos.runtimes.state_tables.key_columns import KeyColumns

StateId = tuple[OperatorId, str]


def write_changed(spark: SparkSession | None, base: Base, changes: Sequence[Change], path: str) -> str:
    """Write the savepoint. See `SavepointEdit.write`. A session is needed for state in DataFrames or in
    another savepoint."""
    directory = absolute(path)
    check_lasting(directory)
    store = open_store(directory)
    _check_empty(store, path)
    token = uuid4().hex[:12]
    try:
        handles = _Writing(spark, base, directory, store, token).handles(changes)
        write_savepoint(store, _savepoint(base, changes, handles, directory, token))
    except BaseException as error:
        _discard(store, token)
        if isinstance(error, Exception):
            raise worker_error(error) from None
        raise
    return directory


def _check_empty(store: Store, path: str) -> None:
    try:
        there = store.list("")
    except OSError as error:
        raise CheckpointError(f"the folder {path!r} could not be read: {error}") from error
    if there:
        raise CheckpointError(
            f"the folder {path!r} is not empty: it contains {there[0]}",
            hint="savepoints are never overwritten; write to a new folder",
        )


def _discard(store: Store, token: str) -> None:
    """Delete the files written under the token, and incomplete ones if nobody else writes there."""
    with contextlib.suppress(OSError):
        there = store.list("")
        ours = [file for file in there if f"-{token}-" in file]
        unfinished = store.unfinished(STATE) if len(ours) == len(there) else []
        for file in [*ours, *unfinished]:
            store.delete(file)


def _savepoint(
    base: Base, changes: Sequence[Change], handles: list[StateHandle], directory: str, token: str
) -> Savepoint:
    now_ms = time.time_ns() // 1_000_000
    old, entry = base.savepoint, base.savepoint.entry
    dropped = {change.operator for change in changes if isinstance(change, Drop)}
    made: CheckpointCompleted = msgspec.structs.replace(
        entry,
        operators={id: name for id, name in entry.operators.items() if id not in dropped},
        states={id: states for id, states in entry.states.items() if id not in dropped},
        handles=handles,
        savepoint=directory,
        completed_ms=now_ms,
    )
    return Savepoint(
        id=f"{old.job}-{entry.checkpoint}-{token}",
        job=old.job,
        name=old.name,
        version=VERSION,
        taken_ms=now_ms,
        entry=made,
    )


@dataclass(frozen=True)
class _Writing:
    session: SparkSession | None
    base: Base
    directory: str
    store: Store
    token: str

    def handles(self, changes: Sequence[Change]) -> list[StateHandle]:
        """Write all files. The order of the handles is that in which the files of a state apply."""
        put = {(change.operator, change.state) for change in changes if isinstance(change, Put)}
        dropped = {change.operator for change in changes if isinstance(change, Drop)}
        deleted = {at: self._deleted(c) for at, c in enumerate(changes) if isinstance(c, Delete)}
        found = self._copied(put, dropped, list(deleted.values()))
        for operator, state in sorted(put):
            if operator not in dropped:
                found += self._write_state(operator, state, changes, deleted)
        for at, change in enumerate(changes):
            if isinstance(change, PutColumns):
                found += self._write_columns(change)
            elif isinstance(change, PutTable):
                found += self._write_table(change, f"{self.token}-{at:05d}.arrow")
        return sorted(found, key=lambda h: (h.operator, h.state, h.subtask, h.path))

    @property
    def spark(self) -> SparkSession:
        assert self.session is not None, "state in DataFrames needs a session"
        return self.session

    @property
    def _entry(self) -> CheckpointCompleted:
        return self.base.savepoint.entry

    def _deleted(self, change: Delete) -> DeletedKeys:
        """Return the keys to delete. They are collected on the driver; the tasks search the state."""
        shape = next(s for s in self._entry.states[change.operator].values() if s.key)
        columns = KeyColumns(shape.key)
        rows = collected_table(change.keys.select(*map(quoted, change.names)).distinct())
        batch = columns.batch(rows, change.names)
        places = [columns.names.index(name) for name in change.names]
        keys = frozenset(columns.subset(change.names).of(batch))
        return DeletedKeys(change.operator, places, keys)

    def _copied(
        self, put: set[StateId], dropped: set[OperatorId], deleted: Sequence[DeletedKeys]
    ) -> list[StateHandle]:
        handles = [
            handle
            for handle in self._entry.handles
            if handle.operator not in dropped and (handle.operator, handle.state) not in put
        ]
        states: Mapping[OperatorId, Mapping[str, StateShape]] = self._entry.states
        task = CopyFiles(self.base.directory, self.directory, handles, states, deleted, self.token)
        if not handles:
            return []
        return _collected(numbered(self.spark, len(handles), "writing_tasks:copy_files", task, WRITTEN))

    def _write_state(
        self,
        operator: OperatorId,
        state: str,
        changes: Sequence[Change],
        deleted: Mapping[int, DeletedKeys],
    ) -> list[StateHandle]:
        shapes = self._entry.states[operator]
        shape = shapes[state]
        rows: DataFrame | None = None
        task = reads(self.base.directory, self.base.savepoint, operator, state)
        if task.shares:
            rows = numbered(self.spark, len(task.shares), "encoding:raw_state", task, RAW)
        for at, change in enumerate(changes):
            if change.operator != operator:
                continue
            if isinstance(change, Put) and change.state == state:
                made = self._encoded(change, at + 1)
                rows = made if rows is None or change.whole else rows.unionAll(made)
            elif isinstance(change, Delete) and rows is not None:
                without = DeleteRows(shape, deleted[at])
                rows = over_rows(rows, "deleting:delete_rows", without, RAW)
        assert rows is not None
        return _collected(self._sorted(rows, operator, state, shape))

    def _write_table(self, change: PutTable, name: str) -> Iterator[StateHandle]:
        """Write a table, and yield a handle for each subtask with rows of it."""
        parts = {0: change.table}
        if change.kind is StateKind.KEYED:
            parallelism, most = self._entry.width(change.operator), self._entry.max_parallelism
            owners = subtask_of(change.table.column(GROUP).to_numpy(), parallelism, most)
            parts = {int(of): change.table.filter(pa.array(owners == of)) for of in np.unique(owners)}
        for subtask, table in parts.items():
            yield put_part(
                self.store,
                table,
                operator=change.operator,
                state=change.state,
                subtask=subtask,
                kind=change.kind,
                name=name,
            )

    def _write_columns(self, change: PutColumns) -> list[StateHandle]:
        parallelism, most = self._entry.width(change.operator), self._entry.max_parallelism
        targets = self._targets(parallelism)
        pack = PackColumns(change.encoder, change.given, targets, most)
        packed = over_rows(change.rows, "column_writing:pack_columns", pack, PACKED)
        grouped = versions.repartition_by_id(packed, targets, f.col("target"))
        task = WriteColumns(
            self.directory,
            change.operator,
            change.encoder.unique,
            parallelism,
            targets,
            most,
            self.token,
        )
        return _collected(over_rows(grouped, "column_writing:write_columns", task, WRITTEN))

    def _targets(self, parallelism: int) -> int:
        """Return the number of ranges of key groups, each of which one task writes. A file belongs to
        one subtask, so the ranges are divided where those of subtasks are."""
        slots: int = max(self.spark.sparkContext.defaultParallelism, 1)
        most = self._entry.max_parallelism
        return parallelism * max(1, min(-(-slots // parallelism), most // parallelism))

    def _encoded(self, change: Put, priority: int) -> DataFrame:
        declared = self.base.declared or {}
        task = EncodeState(
            change.state,
            self._entry.states[change.operator],
            change.given,
            self._entry.max_parallelism,
            priority,
            declared.get((change.operator, change.state), ()),
        )
        return over_rows(change.rows, "encoding:encode_state", task, RAW)

    def _sorted(
        self, rows: DataFrame, operator: OperatorId, state: str, shape: StateShape
    ) -> DataFrame:
        parallelism, most = self._entry.width(operator), self._entry.max_parallelism
        targets = self._targets(parallelism)
        lists = shape.holds == StatePurpose.LIST
        last = [f.col("priority").desc(), f.col("namespace")]
        order = [f.col("key"), *(last if lists else reversed(last))]
        target = f.expr(f"cast(cast(key_group as bigint) * {targets} div {most} as int)")
        grouped = versions.repartition_by_id(rows, targets, target)
        task = WriteState(
            self.directory, operator, state, shape, lists, parallelism, most, targets, self.token
        )
        in_order = grouped.sortWithinPartitions(f.col("key_group"), *order)
        return over_rows(in_order, "writing_tasks:write_state", task, WRITTEN)


def _collected(written: DataFrame) -> list[StateHandle]:
    rows = collected(written).rows
    for row in rows:
        if row.error is not None:
            raise error_data.decoder.decode(row.error).error()
    return [handle_decoder.decode(row.handle) for row in rows]
