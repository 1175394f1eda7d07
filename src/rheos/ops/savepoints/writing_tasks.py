"""The Spark tasks that write state: entries sorted by key group, or files copied unchanged.

Each task yields a handle for every file that it has written. If Spark repeats a task, its files have
the same names and bytes as before. A task that fails yields its error and ends normally. So Spark lets
the other tasks finish, and none of them still writes when the driver cleans up.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.checkpoint.restored_state import read_part
from rheos.core.checkpoint.savepoint import part_path
from rheos.core.errors import CheckpointError, InputError, RheosError
from rheos.core.protocol import error_data
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.key_groups import owner_of
from rheos.core.protocol.ports import Content, Store
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.core.state import format as state_format
from rheos.core.state.parts import PLACE, ROWS
from rheos.core.state.stamps import stamp_of, stamped_list, value_of
from rheos.ops.savepoints.deleting import DeletedKeys
from rheos.ops.savepoints.encoding import RAW
from rheos.ops.savepoints.reading_tasks import decoded, numbered
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.values import array_header

WRITTEN = pa.schema([pa.field("handle", pa.binary()), pa.field("error", pa.binary())])
"""Schema of the tasks' rows. One of the two columns is not null."""

handle_decoder = msgspec.msgpack.Decoder(StateHandle)

PIECE_ROWS = 1 << 17
PIECE_BYTES = 64 << 20
"""Approximate maximum size of a file in bytes. Files are read into memory whole."""


@dataclass(frozen=True)
class WriteState:
    """Entries of one state, sorted by key group, key and precedence. One task has all entries of a
    target."""

    directory: str
    operator: OperatorId
    state: str
    shape: StateShape
    lists: bool
    parallelism: int
    max_parallelism: int
    targets: int
    """Number of ranges of key groups; a multiple of the parallelism."""
    token: str
    """Token in the names of all files of this savepoint, and of no other."""


def write_state(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return handle_rows(_state_written(pickle.loads(payload), batches))


def handle_rows(handles: Iterable[StateHandle]) -> Iterator[pa.RecordBatch]:
    """Yield a row for each handle. An error ends the rows, and becomes the last one."""
    try:
        for handle in handles:
            yield _row(handle=msgspec.msgpack.encode(handle))
    except RheosError as error:
        yield _row(error=error_data.encode(ErrorData.of(error)))


def _row(handle: bytes | None = None, error: bytes | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"handle": handle, "error": error}], WRITTEN)


def _state_written(task: WriteState, batches: Iterable[pa.RecordBatch]) -> Iterator[StateHandle]:
    store = open_store(task.directory)
    kept = _Entries(task)
    rows = kept.lists(batches) if task.lists else kept.newest(batches)
    for number, table in enumerate(_pieces(rows)):
        group = table.column("key_group")[0].as_py()
        target = owner_of(group, task.targets, task.max_parallelism)
        subtask = owner_of(group, task.parallelism, task.max_parallelism)
        name = f"{task.token}-{target:05d}-{number:05d}.arrow"
        yield put_part(
            store,
            table,
            operator=task.operator,
            state=task.state,
            subtask=subtask,
            kind=StateKind.KEYED,
            name=name,
        )


def put_part(
    store: Store,
    table: pa.Table,
    *,
    operator: OperatorId,
    state: str,
    subtask: int,
    kind: StateKind,
    name: str,
) -> StateHandle:
    """Write a table of state to a file with this name, and return its handle. The rows of keyed
    state must be sorted by key group. Raise CheckpointError if the file cannot be written."""
    data = state_format.encode(table, kind, PartMode.FULL)
    handle = StateHandle.of(
        data,
        operator=operator,
        subtask=subtask,
        state=state,
        kind=kind,
        mode=PartMode.FULL,
        rows=table.num_rows,
        path=part_path(operator, subtask, state, name),
    )
    _put(store, handle, data)
    return handle


def _put(store: Store, handle: StateHandle, data: Content) -> None:
    try:
        store.put(handle.path, data)
    except OSError as error:
        raise CheckpointError(f"{handle.path} could not be written: {error}") from error


def _pieces(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    pending: list[pa.Table] = []
    for table in tables:
        if table.num_rows:
            pending.append(table)
        if (
            sum(part.num_rows for part in pending) >= PIECE_ROWS
            or sum(part.nbytes for part in pending) >= PIECE_BYTES
        ):
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


class _Entries:
    """The selection of the row with the highest priority for each entry."""

    def __init__(self, task: WriteState) -> None:
        self._task = task

    def newest(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the first row of each entry. Input is sorted by key, namespace and falling priority."""
        before = pa.RecordBatch.from_pylist([], RAW)
        for batch in batches:
            rows = pa.Table.from_batches([before, batch.cast(RAW)]).combine_chunks()
            again = _equal(rows, "key", "namespace")
            twice = pc.and_(again, _equal(rows, "priority"))
            if pc.any(twice).as_py():
                self._fail_duplicate(rows, pc.index(twice, True).as_py() + 1)
            first = pc.invert(again)
            if not before.num_rows and rows.num_rows:
                first = pa.concat_arrays([pa.array([True]), first])
            yield _as_part(rows.slice(before.num_rows).filter(first))
            before = rows.slice(max(rows.num_rows - 1, 0)).to_batches()[0] if rows.num_rows else before

    def lists(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield each key's rows with the priority of its first one. The input is sorted by key, falling
        priority and position. Stored rows are segments, newer ones single elements."""
        rows = (
            row
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        made: list[tuple[int, bytes, bytes, bytes]] = []
        for (group, key), of_key in groupby(rows, key=lambda row: row[:2]):
            entries = list(of_key)
            newest = [row for row in entries if row[4] == entries[0][4]]
            if newest[0][4] == 0:
                made += [row[:4] for row in newest]
            else:
                for row, after in pairwise(newest):
                    if row[2] == after[2]:
                        self._fail(key, f"position {PLACE.unpack(row[2])[0]}")
                made.append((group, key, PLACE.pack(0), self._segment([row[3] for row in newest])))
            if len(made) >= 1 << 14:
                yield _table(made)
                made = []
        yield _table(made)

    def _segment(self, elements: Sequence[bytes]) -> bytes:
        if self._task.shape.ttl is None:
            return array_header(len(elements)) + b"".join(elements)
        inside = array_header(len(elements)) + b"".join(map(value_of, elements))
        return stamped_list([*map(stamp_of, elements)], inside)

    def _fail_duplicate(self, rows: pa.Table, at: int) -> None:
        self._fail(rows.column("key")[at].as_py(), "row")

    def _fail(self, key: bytes, what: str) -> None:
        shown = KeyColumns(self._task.shape.key).codec.decode(key)
        raise InputError(
            f"the DataFrame for state {self._task.state!r} of operator {self._task.operator!r} "
            f"has the same {what} twice",
            key=repr(shown),
            hint="pass one row for each key (and map key, position or timer), for example with "
            "dropDuplicates",
        )


def _equal(rows: pa.Table, *names: str) -> pa.Array:
    """Return, for each row from the second on, whether it equals the previous row in these columns."""
    same = pa.repeat(pa.scalar(True), max(rows.num_rows - 1, 0))
    for name in names:
        column = rows.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        same = pc.and_(same, pc.equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))))
    return same


def _as_part(rows: pa.Table) -> pa.Table:
    columns = [rows.column(name) for name in ROWS.names]
    columns[0] = columns[0].cast(pa.uint16())
    return pa.table(columns, schema=ROWS)


def _table(rows: Sequence[tuple[int, bytes, bytes, bytes]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


# --- unchanged files ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CopyFiles:
    """Task that copies files: task i copies that of handle i, without the deleted keys."""

    source: str
    directory: str
    handles: Sequence[StateHandle]
    shapes: Mapping[OperatorId, Mapping[str, StateShape]]
    deleted: Sequence[DeletedKeys]
    token: str


def copy_files(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return handle_rows(_files_copied(pickle.loads(payload), batches))


def _files_copied(task: CopyFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[StateHandle]:
    places = {handle.path: at for at, handle in enumerate(task.handles)}
    source, target = open_store(task.source, make=False), open_store(task.directory)
    for handle in numbered(task.handles, batches):
        data, rows = _copied(source, handle, task)
        if not rows and handle.rows:
            continue
        name = f"{task.token}-{places[handle.path]:05d}.arrow"
        made = StateHandle.of(
            data,
            operator=handle.operator,
            subtask=handle.subtask,
            state=handle.state,
            kind=handle.kind,
            mode=handle.mode,
            rows=rows,
            path=part_path(handle.operator, handle.subtask, handle.state, name),
        )
        _put(target, made, data)
        yield made


def _copied(source: Store, handle: StateHandle, task: CopyFiles) -> tuple[Content, int]:
    data = read_part(source, handle)
    deleted = [keys for keys in task.deleted if keys.operator == handle.operator]
    if not deleted:
        return data, handle.rows
    table = left = decoded(data, handle)
    for keys in deleted:
        left = keys.left(left, task.shapes[handle.operator][handle.state])
    if left.num_rows == table.num_rows:
        return data, handle.rows
    return state_format.encode(left, handle.kind, handle.mode), left.num_rows
