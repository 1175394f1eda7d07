"""One operator with the state of one key, called step by step under a clock that does not advance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
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


@dataclass(frozen=True)
class KeyBeginning:
    """Beginning of a replay of one key."""

    job: JobId
    groups: int
    """Number of key groups."""
    clock_ms: int
    """Wall-clock time that functions see."""
    state: Mapping[str, Iterable[pa.Table]]
    """Tables of the operator's states that belong to the key, without rows in flight."""


def key_beginning(
    keyed: KeyOfOperator, plan: PhysicalPlan, checkpoint: CopiedCheckpoint
) -> KeyBeginning:
    """Return the state of the key in a checkpoint. Raise CheckpointError if the checkpoint does not fit
    the program, and errors of the function's `open`."""
    entry = checkpoint.savepoint.entry
    begins = KeyBeginning(checkpoint.savepoint.job, entry.max_parallelism, entry.completed_ms, {})
    widths = plan.widths()
    subtask, parallelism = _place(keyed, plan, begins)
    restored = state_of(checkpoint, subtask, parallelism, widths)
    own: Mapping[str, Iterable[pa.Table]] = without_in_flight(restored.get(keyed.planned.id, {}))
    if any(isinstance(state, RestoredState) and state.files for state in own.values()):
        # A database has written its files: only the operator itself can read them.
        with contextlib.closing(Replica(keyed, plan, replace(begins, state=own))) as reads:
            own = reads.tables()
    states = KeyStates(keyed)
    of_key = {name: tuple(states.of_key(name, tables)) for name, tables in own.items()}
    return replace(begins, state=of_key)


class Replica:
    """The operator as in a subtask that owns only the key's group. The creator must close it. The
    constructor raises CheckpointError if the state does not fit the program, and errors of the
    function's `open`."""

    def __init__(self, keyed: KeyOfOperator, plan: PhysicalPlan, begins: KeyBeginning) -> None:
        subtask, parallelism = _place(keyed, plan, begins)
        clock = SimClock()
        clock.jump(begins.clock_ms - clock.now_ms())
        self.clock = clock
        """The clock of its functions, which does not advance."""
        self.keyed = keyed
        contexts = OperatorContexts(
            job=begins.job,
            attempt=Attempt(1),
            max_parallelism=begins.groups,
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
        self.operator = keyed.planned.spec.interpreted().operator(self._context)
        self.operator.open(begins.state)

    def tables(self) -> dict[str, list[pa.Table]]:
        """Return the whole state as tables."""
        snapshot = self.operator.snapshot(CheckpointId(next(self._numbers)))
        return {part.state: list(tables_of(part)) for part in self.operator.savepoint(snapshot)}

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


def _place(keyed: KeyOfOperator, plan: PhysicalPlan, begins: KeyBeginning) -> tuple[int, int]:
    """Return the subtask that owns the key, of as many as there are key groups; or the only one of a
    narrow operator, and of one without keys."""
    if keyed.planned.id in plan.widths() or not keyed.columns:
        return 0, 1
    port = next(port for port in keyed.planned.ports if port.keys == keyed.columns)
    codec = KeyCodec(port.schema, port.keys, port.keyed_at)
    return int(codec.groups([keyed.key], begins.groups)[0]), begins.groups
