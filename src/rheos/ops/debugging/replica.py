"""One operator with the state of one key, called step by step under a clock that does not advance."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pyarrow as pa

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.operators.contract import Operator
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.protocol.snapshots import RestoredState
from rheos.core.protocol.state_config import StateConfig
from rheos.core.state.keys import KeyCodec
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.in_flight_rows import without_in_flight
from rheos.ops.debugging.debugged_key import KeyOfOperator
from rheos.ops.debugging.key_state import KeyState, KeyStates, tables_of
from rheos.ops.forks.input import state_of
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import InstantIo

_BATCH_ROWS = 1024


class Replica:
    """The operator as in a subtask that owns only the key's group. The creator must close it. The
    constructor raises CheckpointError if the checkpoint does not fit the program, and errors of the
    function's `open`."""

    def __init__(self, keyed: KeyOfOperator, plan: PhysicalPlan, checkpoint: CopiedCheckpoint) -> None:
        entry = checkpoint.savepoint.entry
        widths = plan.widths()
        narrow = keyed.planned.id in widths
        groups = entry.max_parallelism
        subtask, parallelism = (0, 1) if narrow else (_group(keyed, groups), groups)
        clock = SimClock()
        clock.jump(entry.completed_ms - clock.now_ms())
        self.clock = clock
        """The clock of its functions, which stays at the completion of the checkpoint."""
        self.keyed = keyed
        contexts = OperatorContexts(
            job=checkpoint.savepoint.job,
            attempt=Attempt(1),
            max_parallelism=groups,
            clock=clock,
            io=InstantIo(),
            batch_rows=_BATCH_ROWS,
            subtask=subtask,
            state=StateConfig().without_limits(),
            scratch=folder_of(self, "rheos-debug-"),
            program=plan.context,
        )
        self._context = contexts.of(keyed.planned, parallelism)
        self._states = KeyStates(keyed)
        self._numbers = count(1)
        restored = state_of(checkpoint, subtask, parallelism, widths)
        own = without_in_flight(restored.get(keyed.planned.id, {}))
        if any(isinstance(state, RestoredState) and state.files for state in own.values()):
            own = self._without_files(own)
        of_key = {name: list(self._states.of_key(name, tables)) for name, tables in own.items()}
        self.operator = self._make_operator()
        self.operator.open(of_key)

    def _without_files(self, restored: dict[str, Iterable[pa.Table]]) -> dict[str, Iterable[pa.Table]]:
        """Return state that a database has written as tables: only the operator itself can read its
        files."""
        reads = self._make_operator()
        try:
            reads.open(restored)
            parts = reads.savepoint(reads.snapshot(CheckpointId(next(self._numbers))))
            return {part.state: list(tables_of(part)) for part in parts}
        finally:
            reads.close()

    def _make_operator(self) -> Operator:
        return self.keyed.planned.spec.interpreted().operator(self._context)

    @property
    def counters(self) -> dict[str, int]:
        """The counts of the operator, such as late rows."""
        return dict(self._context.counters)

    @property
    def unread(self) -> list[str]:
        """States that `state` omits, with the reasons."""
        return sorted(self._states.unread)

    def state(self) -> KeyState:
        snapshot = self.operator.snapshot(CheckpointId(next(self._numbers)))
        shown = self._states.shown(snapshot, self.operator.savepoint(snapshot))
        if snapshot.release is not None:
            snapshot.release()
        return shown

    def close(self) -> None:
        self.operator.close()


def _group(keyed: KeyOfOperator, groups: int) -> int:
    port = next(port for port in keyed.planned.ports if port.keys == keyed.columns)
    codec = KeyCodec(port.schema, port.keys, port.keyed_at)
    return int(codec.groups([keyed.key], groups)[0])
