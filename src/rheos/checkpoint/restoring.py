"""Reads what a restored subtask begins with, through the store it is handed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from rheos.checkpoint.log import CheckpointCompleted
from rheos.checkpoint.recovery import shares
from rheos.errors import CheckpointError
from rheos.protocol.ids import OperatorId
from rheos.protocol.ports import Store
from rheos.protocol.snapshots import StateHandle, StateKind

Decode: TypeAlias = Callable[[bytes, range | None], pa.Table]
"""`state.format.decode`: the rows of a written part, of these key groups where a range is given."""

RestoredByOperator: TypeAlias = dict[OperatorId, dict[str, list[pa.Table]]]


def restored_state(
    entry: CheckpointCompleted, subtask: int, parallelism: int, store: Store, decode: Decode
) -> RestoredByOperator:
    """The state of every operator for one subtask: by operator and state, the tables that apply.

    Every state of the checkpoint is there for every subtask, with no rows where none fell to it: so an
    operator can tell a restored subtask from a fresh one. Raises CheckpointError, naming the file,
    where a part is missing or damaged.
    """
    result: RestoredByOperator = {}
    first: dict[tuple[OperatorId, str], StateHandle] = {}
    for handle in entry.handles:
        result.setdefault(handle.operator, {}).setdefault(handle.state, [])
        first.setdefault((handle.operator, handle.state), handle)
    for share in shares(entry, subtask, parallelism):
        handle = share.handle
        table = _decoded(store, handle, share.groups, decode)
        if share.every > 1:
            table = table.take(pa.array(range(share.offset, table.num_rows, share.every), pa.int64()))
        result[handle.operator][handle.state].append(table)
    for (operator, state), handle in first.items():
        if not result[operator][state]:
            nothing = range(0, 0) if handle.kind is StateKind.KEYED else None
            result[operator][state].append(_decoded(store, handle, nothing, decode).slice(0, 0))
    return result


def _decoded(store: Store, handle: StateHandle, groups: range | None, decode: Decode) -> pa.Table:
    data = read_part(store, handle)
    try:
        return decode(data, groups)
    except (CheckpointError, pa.ArrowException, ValueError) as error:
        what = error.what if isinstance(error, CheckpointError) else str(error)
        hint = error.hint if isinstance(error, CheckpointError) else None
        message = f"the state {_named(handle)} could not be read: {what}"
        raise CheckpointError(message, hint=hint) from error


def read_part(store: Store, handle: StateHandle) -> bytes:
    """The bytes of a written part, checked. Raises CheckpointError, naming the file."""
    try:
        data = store.get(handle.path) if handle.path else handle.inline
    except OSError as error:
        raise CheckpointError(
            f"the state {_named(handle)} could not be read: {error}",
            hint="a checkpoint needs all its files; none are to be deleted by hand",
        ) from error
    if zlib.crc32(data) != handle.checksum:
        raise CheckpointError(
            f"the state {_named(handle)} is damaged: its checksum does not match",
            hint="restore the file from a copy, or start anew in another checkpoint directory",
        )
    return data


def _named(handle: StateHandle) -> str:
    place = f"in {handle.path}" if handle.path else "in the log"
    return f"{handle.state!r} of operator {handle.operator!r}, subtask {handle.subtask}, {place}"
