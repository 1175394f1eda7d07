"""Writes a subtask's snapshots beside its processing, and keeps the chain of parts behind each state.

A state's chain is a FULL part and the deltas since (CP11). Every checkpoint refers to the whole chain,
so a part whose write failed spoils all checkpoints until the next FULL part begins a new chain: the
task tells the operator so (`failures`), and the operator's next snapshot is a full one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from rheos.checkpoint.retention import state_path
from rheos.errors import CheckpointError, RheosError
from rheos.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.protocol.ports import Completion, IoExecutor, Store
from rheos.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateHandle, StateKind

Encode: TypeAlias = Callable[[pa.Table, StateKind, PartMode], bytes]
"""`state.format.encode`."""

INLINE_BYTES = 16 * 1024
"""Parts up to this size are kept in the log itself."""


@dataclass(frozen=True, slots=True)
class PartFailure:
    """A part that could not be written."""

    operator: OperatorId
    state: str
    error: RheosError


@dataclass(frozen=True, slots=True)
class _Link:
    operator: OperatorId
    state: str
    completion: Completion[StateHandle]


class PendingSnapshot:
    """A checkpoint's parts on their way. The executor's completions wake the mailbox to look again."""

    def __init__(self, checkpoint: CheckpointId, links: Sequence[_Link]) -> None:
        self.checkpoint = checkpoint
        self._links = links

    def done(self) -> bool:
        """Whether every part, of the chains too, is written or has failed."""
        return all(link.completion.done() for link in self._links)

    def failures(self) -> list[PartFailure]:
        """Once done: what failed. Where there is any, the checkpoint is to be declined."""
        failed = []
        for link in self._links:
            try:
                link.completion.result()
            except RheosError as error:
                failed.append(PartFailure(link.operator, link.state, error))
            except Exception as error:
                message = f"state {link.state!r} could not be written: {type(error).__name__}: {error}"
                wrapped = CheckpointError(message)
                wrapped.__cause__ = error
                failed.append(PartFailure(link.operator, link.state, wrapped))
        return failed

    def handles(self) -> list[StateHandle]:
        """Once done, without failures: the handles of all chains, each in the order it applies."""
        return [link.completion.result() for link in self._links]


class SnapshotWriter:
    """One per subtask and attempt; its chains are empty at first, also after a restore."""

    def __init__(
        self,
        job: JobId,
        attempt: Attempt,
        subtask: int,
        store: Store,
        io: IoExecutor,
        encode: Encode,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._subtask = subtask
        self._store = store
        self._io = io
        self._encode = encode
        self._inline_bytes = inline_bytes
        self._chains: dict[tuple[OperatorId, str], list[_Link]] = {}

    def begin(
        self, checkpoint: CheckpointId, snapshots: Sequence[tuple[OperatorId, Snapshot]]
    ) -> PendingSnapshot:
        """Submits the writes. A snapshot names all the state there is: what it leaves out is gone."""
        chains: dict[tuple[OperatorId, str], list[_Link]] = {}
        for operator, snapshot in snapshots:
            for part in snapshot.parts:
                key = (operator, part.state)
                assert key not in chains, f"a snapshot of {operator} names {part.state!r} twice"
                before = self._chains.get(key, [])
                assert before or part.mode is PartMode.FULL, "CP11: a chain begins with a FULL part"
                link = _Link(operator, part.state, self._submit(checkpoint, operator, part))
                chains[key] = [link] if part.mode is PartMode.FULL else [*before, link]
        self._chains = chains
        return PendingSnapshot(checkpoint, [link for chain in chains.values() for link in chain])

    def _submit(
        self, checkpoint: CheckpointId, operator: OperatorId, part: SnapshotPart
    ) -> Completion[StateHandle]:
        path = state_path(self._job, self._attempt, checkpoint, operator, self._subtask, part.state)

        def write() -> StateHandle:
            table = part.write()
            assert isinstance(table, pa.Table)
            data = self._encode(table, part.kind, part.mode)
            inline = len(data) <= self._inline_bytes
            if not inline:
                self._store.put(path, data)
            return StateHandle(
                operator=operator,
                subtask=self._subtask,
                state=part.state,
                kind=part.kind,
                mode=part.mode,
                size_bytes=len(data),
                rows=table.num_rows,
                checksum=zlib.crc32(data),
                path="" if inline else path,
                inline=data if inline else b"",
            )

        return self._io.submit(write)
