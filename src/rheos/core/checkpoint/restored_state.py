"""Reads the state of a restored subtask from a store."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.resumed_chains import Chains, length_of
from rheos.core.checkpoint.state_assignment import HandleShare, shares
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.ports import Store
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import (
    RECEIVER,
    PartMode,
    RestoredFiles,
    RestoredState,
    StateHandle,
    StateKind,
)

Decode: TypeAlias = Callable[[bytes, range | None], pa.Table]
"""Type of `state.format.decode`: it returns the rows of a written part, limited to a range of key
groups if one is passed."""

ReadAhead: TypeAlias = dict[HandleShare, pa.Table]
"""Tables that were read before the restore. The restore removes each one that it uses."""

RestoredByOperator: TypeAlias = dict[OperatorId, dict[str, RestoredState]]


def restored_state(
    entry: CheckpointCompleted,
    subtask: int,
    parallelism: int,
    store: Store,
    decode: Decode,
    widths: Mapping[OperatorId, int] = MappingProxyType({}),
    chains: Chains = MappingProxyType({}),
    applied: Mapping[tuple[OperatorId, str], int] = MappingProxyType({}),
    read_ahead: ReadAhead | None = None,
    declared: Mapping[OperatorId, Mapping[str, StateShape]] = MappingProxyType({}),
) -> RestoredByOperator:
    """Return the state of every operator for one subtask, by operator and name. Nothing is read yet.
    `chains` are those that the subtask may continue. `applied` is the number of shares of a state that
    were restored ahead, which are left out. `read_ahead` has tables that need not be read again.
    `declared` has the shapes of the program's states.

    Every subtask gets every state of the checkpoint, possibly without rows. So an operator can
    distinguish a restored subtask from a fresh one. Later iteration raises CheckpointError, with the
    file's name, if a part is missing or damaged.
    """
    first: dict[tuple[OperatorId, str], StateHandle] = {}
    for handle in entry.handles:
        first.setdefault((handle.operator, handle.state), handle)
    taken: dict[tuple[OperatorId, str], list[HandleShare]] = {key: [] for key in first}
    for share in shares(entry, subtask, parallelism, widths):
        taken[share.handle.operator, share.handle.state].append(share)
    result: RestoredByOperator = {}
    for (operator, state), some in first.items():
        of_state = taken[operator, state]
        done = applied.get((operator, state))
        restored = (
            _FileState(some, _file_sets(of_state, entry, store))
            if some.mode is PartMode.FILE
            else _TableState(
                some,
                of_state[done:],
                store,
                decode,
                {} if read_ahead is None else read_ahead,
                is_rest=done is not None,
            )
        )
        if (chain := chains.get((operator, state))) is not None:
            restored.chain = length_of(chain)
        stored = entry.states.get(operator, {}).get(state)
        restored.as_declared = stored is not None and stored == declared.get(operator, {}).get(state)
        result.setdefault(operator, {})[state] = restored
    return result


class _TableState(RestoredState):
    def __init__(
        self,
        some: StateHandle,
        taken: Sequence[HandleShare],
        store: Store,
        decode: Decode,
        read_ahead: ReadAhead,
        *,
        is_rest: bool = False,
    ) -> None:
        self._some = some
        """Part of any subtask's state. It determines the columns if this subtask has no part."""
        self.kind = some.kind
        self._taken = taken
        self._store = store
        self._decode = decode
        self._read_ahead = read_ahead
        self._is_rest = is_rest
        """Whether earlier tables were restored ahead. Then the columns are known."""

    def __iter__(self) -> Iterator[pa.Table]:
        for share in self._taken:
            table = self._read_ahead.pop(share, None)
            yield read_share(share, self._store, self._decode) if table is None else table
        if not self._taken and not self._is_rest:
            nothing = range(0, 0) if self._some.kind is StateKind.KEYED else None
            yield _decoded(self._some, nothing, self._store, self._decode).slice(0, 0)


class _FileState(RestoredState):
    def __init__(self, some: StateHandle, files: Sequence[RestoredFiles]) -> None:
        self._some = some
        self.files = files

    def __iter__(self) -> Iterator[pa.Table]:
        raise UnrestorableError(
            f"the state {self._some.state!r} of operator {self._some.operator!r} was stored by "
            "another state backend",
            hint="resume with the state backend that the job had, or change it through a savepoint, "
            "which every backend can read",
        )


def _file_sets(
    taken: Sequence[HandleShare], entry: CheckpointCompleted, store: Store
) -> list[RestoredFiles]:
    sets = []
    for subtask, of_subtask in groupby(taken, key=lambda share: share.handle.subtask):
        files = list(of_subtask)
        groups = files[0].groups
        width = entry.width(files[0].handle.operator)
        sets.append(
            RestoredFiles(
                groups=group_range(subtask, width, entry.max_parallelism) if groups is None else groups,
                whole=groups is None,
                files={file.handle.file: partial(read_part, store, file.handle) for file in files},
            )
        )
    return sets


def read_share(share: HandleShare, store: Store, decode: Decode) -> pa.Table:
    """Return the rows of a share. Raise CheckpointError, with the file's name, if its part is missing
    or damaged."""
    table = _decoded(share.handle, share.groups, store, decode)
    if share.every > 1:
        rows = pa.array(range(share.offset, table.num_rows, share.every), pa.int64())
        table = table.take(rows)
    if share.receiver is not None:
        table = table.filter(pc.field(RECEIVER) == share.receiver)
    return table


def _decoded(handle: StateHandle, groups: range | None, store: Store, decode: Decode) -> pa.Table:
    data = read_part(store, handle)
    try:
        return decode(data, groups)
    except (CheckpointError, pa.ArrowException, ValueError) as error:
        what = error.what if isinstance(error, CheckpointError) else str(error)
        hint = error.hint if isinstance(error, CheckpointError) else None
        message = f"the state {_named(handle)} could not be read: {what}"
        raise UnrestorableError(message, hint=hint) from error


def read_part(store: Store, handle: StateHandle) -> bytes:
    """Return the checked bytes of a written part. Raise CheckpointError with the file's name."""
    try:
        data = store.get(handle.path) if handle.path else handle.inline
    except FileNotFoundError as error:
        raise UnrestorableError(
            f"the state {_named(handle)} does not exist",
            hint="a checkpoint needs all of its files; never delete them by hand",
        ) from error
    except OSError as error:
        raise CheckpointError(f"the state {_named(handle)} could not be read: {error}") from error
    wrong = "its checksum does not match" if zlib.crc32(data) != handle.checksum else ""
    if len(data) != handle.size_bytes:
        wrong = f"it has {len(data)} bytes, but {handle.size_bytes} were written"
    if wrong:
        raise UnrestorableError(
            f"the state {_named(handle)} is damaged: {wrong}",
            hint="restore the file from a copy, or start over in another checkpoint directory",
        )
    return data


def _named(handle: StateHandle) -> str:
    place = f"in {handle.path}" if handle.path else "in the log"
    return f"{handle.state!r} of operator {handle.operator!r}, subtask {handle.subtask}, {place}"
