"""Keyed state of a whole job without operators: subtasks that are checkpointed, moved and restored. A
checkpoint passes through the snapshot writer, a store and the file format, as in a real job."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import restored_state
from rheos.core.checkpoint.savepoint_writer import SavepointWriter
from rheos.core.checkpoint.snapshot_writer import PendingSnapshot, SnapshotWriter
from rheos.core.graph.state import StateDeclaration
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.state import format as state_format
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.key_groups import subtask_of
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TimerService
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.store import MemoryStore

GROUPS = 16
USERS = KeyCodec(pa.schema([("user", pa.string())]), ("user",))
OPERATOR = OperatorId("count")

MEMORY, ROCKSDB = "memory", "rocksdb"


def declared(**states: StateDeclaration) -> dict[str, StateDeclaration]:
    for name, state in states.items():
        state.name = name
    return states


class CallScope(KeyScope):
    """Scope of calls at an event time that the test sets."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.clock)
        self._job = job

    def event_time(self) -> int:
        return self._job.now_ms


class Subtask:
    """Backend with its handles."""

    def __init__(self, backend: KeyedStateBackend, states: dict[str, StateDeclaration]) -> None:
        self.backend = backend
        self.timers: TimerService = backend.timers(event_time=True)
        self.handles = {name: handle_of(copy.copy(state), backend) for name, state in states.items()}

    def __getitem__(self, key: Any) -> Any:
        """Return the handles, set to the key."""
        self.backend.prepare([key])
        self.backend.scope.key = key
        return type("Handles", (), {**self.handles, "timers": self.timers})


@dataclass
class Written:
    """A checkpoint or a savepoint."""

    entry: CheckpointCompleted
    store: MemoryStore
    written_bytes: int


@dataclass
class Job:
    """All subtasks of one operator with keyed state."""

    folder: Path
    states: dict[str, StateDeclaration]
    backend: str = MEMORY
    parallelism: int = 1
    memory_bytes: int = 1 << 20
    keys: KeyCodec = USERS
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: SimClock = field(default_factory=SimClock)
    now_ms: int = 0
    """The event time of calls."""
    passed_ms: int = MIN_TIMESTAMP_MS
    """No call from here on is at an earlier one."""
    attempt: int = 0
    checkpoints: int = 0
    subtasks: list[Subtask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self, origin: Written | None = None) -> None:
        """Start an attempt from a checkpoint or a savepoint."""
        self.close()
        self.attempt += 1
        self.subtasks, self.writers = [], []
        for subtask in range(self.parallelism):
            task = Subtask(self._backend(subtask), self.states)
            io = InlineIo()
            writer = SnapshotWriter(
                JobId("job"), Attempt(self.attempt), subtask, self.store, io, state_format.encode, 1024
            )
            restored: Any = {}
            if origin is not None:
                restored = restored_state(
                    origin.entry, subtask, self.parallelism, origin.store, state_format.decode
                ).get(OPERATOR, {})
                if origin.store is self.store:
                    writer.adopt(origin.entry.handles)
            task.backend.restore(restored)
            self.subtasks.append(task)
            self.writers.append(writer)

    def _backend(self, subtask: int) -> KeyedStateBackend:
        folder = str(self.folder / f"{self.attempt}-{subtask}")
        if self.backend == MEMORY:
            return MemoryBackend(self.keys, GROUPS, CallScope(self), scratch=folder)
        return RocksDbBackend(
            self.keys,
            GROUPS,
            group_range(subtask, self.parallelism, GROUPS),
            CallScope(self),
            folder=folder,
            writer=f"{self.attempt}-{subtask}",
            memory_bytes=self.memory_bytes,
        )

    def __getitem__(self, key: Any) -> Any:
        """Return the handles of the subtask that owns the key, set to the key."""
        owner = subtask_of(self.keys.groups([key], GROUPS), self.parallelism, GROUPS)[0]
        self._pass_time()
        return self.subtasks[owner][key]

    def _pass_time(self) -> None:
        for task in self.subtasks:
            task.backend.scope.passed_ms = self.passed_ms

    def checkpoint(self) -> Written:
        self.checkpoints += 1
        number = CheckpointId(self.checkpoints)
        self._pass_time()
        pending = [
            writer.begin(number, [(OPERATOR, task.backend.snapshot())])
            for writer, task in zip(self.writers, self.subtasks, strict=True)
        ]
        return self._written(pending, self.store)

    def savepoint(self) -> Written:
        self._pass_time()
        store = MemoryStore()
        handles = []
        for subtask, task in enumerate(self.subtasks):
            writer = SavepointWriter(lambda: store, subtask, InlineIo(), state_format.encode)
            pending = writer.begin([(OPERATOR, task.backend.savepoint())])
            assert pending.error() == ""
            handles += pending.handles()
        return Written(self._entry(handles), store, sum(handle.size_bytes for handle in handles))

    def _written(self, pending: Sequence[PendingSnapshot], store: MemoryStore) -> Written:
        for written in pending:
            for failure in written.failures():
                raise failure.error
        handles = [handle for written in pending for handle in written.handles()]
        return Written(self._entry(handles), store, sum(written.written_bytes() for written in pending))

    def _entry(self, handles: list[StateHandle]) -> CheckpointCompleted:
        return CheckpointCompleted(
            attempt=Attempt(self.attempt),
            owner="test",
            reserved_to=CheckpointId(self.checkpoints),
            checkpoint=CheckpointId(self.checkpoints),
            final=False,
            parallelism=self.parallelism,
            max_parallelism=GROUPS,
            operators={OPERATOR: "count"},
            handles=handles,
            committables=[],
        )

    def move(self, parallelism: int, backend: str, *, by_savepoint: bool = False) -> None:
        """Stop the job and start it again from its checkpoint."""
        written = self.checkpoint()
        if by_savepoint:
            written = self.savepoint()
        self.parallelism, self.backend = parallelism, backend
        self.start(written)

    def lose_a_snapshot(self) -> None:
        for task in self.subtasks:
            snapshot = task.backend.snapshot()
            if snapshot.release is not None:
                snapshot.release()
            task.backend.force_full()

    def close(self) -> None:
        for task in self.subtasks:
            task.backend.close()
