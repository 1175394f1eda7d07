"""Writes a subtask's share of a savepoint, below the savepoint's own folder.

    state/<operator>/<subtask>-<state>-<piece>.arrow

A savepoint is self-contained: every part is FULL, every piece is a file, nothing is stored inline, and
nothing is shared with checkpoints. A failure of the write does not fail the checkpoint: the error is
returned as a string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rheos.core.checkpoint.savepoint import part_path
from rheos.core.checkpoint.snapshot_writer import Encode
from rheos.core.errors import RheosError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Completion, IoExecutor, Store
from rheos.core.protocol.snapshots import PartMode, SnapshotPart, StateHandle
from rheos.core.safe_strings import named_error


@dataclass(frozen=True, slots=True)
class _WrittenParts:
    handles: list[StateHandle] = field(default_factory=list)
    error: str = ""


class PendingSavepoint:
    """The parts of a savepoint that are being written."""

    def __init__(self, completion: Completion[_WrittenParts]) -> None:
        self._completion = completion

    def done(self) -> bool:
        return self._completion.done()

    def error(self) -> str:
        """Return the error of the finished write; empty if it succeeded."""
        return self._completion.result().error

    def handles(self) -> list[StateHandle]:
        """Return the handles of a successful write, in the order in which a state's pieces apply."""
        return self._completion.result().handles


class SavepointWriter:
    """Writes one savepoint of a subtask. `open_store` opens its folder, and may take long."""

    def __init__(
        self, open_store: Callable[[], Store], subtask: int, io: IoExecutor, encode: Encode
    ) -> None:
        self._open_store = open_store
        self._subtask = subtask
        self._io = io
        self._encode = encode

    def begin(self, parts: Sequence[tuple[OperatorId, Sequence[SnapshotPart]]]) -> PendingSavepoint:
        """Submit the writes as one piece of work. It makes and writes one table after another: only one
        is in memory at a time, and other threads remain free for checkpoints."""
        return PendingSavepoint(self._io.submit(lambda: self._write(parts)))

    def _write(self, parts: Sequence[tuple[OperatorId, Sequence[SnapshotPart]]]) -> _WrittenParts:
        what = "the folder"
        try:
            store = self._open_store()
            handles: list[StateHandle] = []
            for operator, given in parts:
                for part in given:
                    what = f"state {part.state!r} of operator {operator!r}"
                    handles += self._pieces(store, operator, part)
        except RheosError as error:
            return _WrittenParts(error=f"{what} could not be written: {error.what}")
        except Exception as error:
            return _WrittenParts(error=f"{what} could not be written: {named_error(error)}")
        return _WrittenParts(handles)

    def _pieces(self, store: Store, operator: OperatorId, part: SnapshotPart) -> list[StateHandle]:
        assert part.mode is PartMode.FULL, "a savepoint is complete"
        made = part.write()
        tables: Iterable[pa.Table] = [made] if isinstance(made, pa.Table) else made
        handles = []
        for piece, table in enumerate(tables):
            data = self._encode(table, part.kind, part.mode)
            path = part_path(operator, self._subtask, part.state, f"{piece}.arrow")
            store.put(path, data)
            handles.append(
                StateHandle.of(
                    data,
                    operator=operator,
                    subtask=self._subtask,
                    state=part.state,
                    kind=part.kind,
                    mode=part.mode,
                    rows=table.num_rows,
                    path=path,
                )
            )
        return handles
