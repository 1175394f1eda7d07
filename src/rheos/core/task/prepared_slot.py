"""The state of a slot that is restored before its attempt begins, and kept up to date (UP10).

    catch_up(checkpoint 7)    reads the whole state
    catch_up(checkpoint 8)    reads the parts that checkpoint 8 has added to that of 7
    take(checkpoint 9)        the attempt reads the parts that 9 has added to 8

A part is applied once, and in the order of its chain. If a chain of a checkpoint does not begin with
the applied parts, such as after a FULL part, that state is read anew.

Other state cannot be restored without its operator. Its parts are read and decoded ahead, and restored
when the attempt begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rheos.core.checkpoint.restored_state import ReadAhead, read_share, restored_state
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.state_assignment import HandleShare, shares
from rheos.core.operators.prepared_state import PreparedState
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Store
from rheos.core.protocol.snapshots import PartMode
from rheos.core.protocol.state_config import Backend
from rheos.core.state import format as state_format
from rheos.core.task.contexts import OperatorContexts

Applied = dict[tuple[OperatorId, str], list[HandleShare]]


@dataclass(frozen=True, slots=True)
class TakenState:
    """Prepared state for an attempt."""

    states: Mapping[OperatorId, PreparedState]
    applied: Mapping[tuple[OperatorId, str], int]
    """Number of shares that the states contain already, by operator and state."""
    read_ahead: ReadAhead = field(default_factory=dict)
    """Tables of other states."""


class PreparedSlot:
    """The prepared state of one subtask."""

    def __init__(
        self, plan: PhysicalPlan, contexts: OperatorContexts, store: Store, subtask: int
    ) -> None:
        """Create a slot without state.

        Args:
            plan: plan with the parallelism of the attempt.
            contexts: contexts for the operators of which the state is made. They are not opened.
            store: store of the job's checkpoint directory.
            subtask: number of the slot.
        """
        self._plan = plan
        self._contexts = contexts
        self._store = store
        self._subtask = subtask
        self._planned = {
            planned.id: (planned, plan.width(chain.id))
            for chain in plan.chains
            for planned in chain.operators
            if planned.spec.prepares_state and contexts.state.backend is Backend.MEMORY
        }
        self._states: dict[OperatorId, PreparedState] = {}
        self._applied: Applied = {}
        self._read_ahead: ReadAhead = {}

    def catch_up(self, restore: Restore) -> None:
        """Restore a checkpoint, of which only the parts that are not applied yet are read.

        Raises:
            CheckpointError: a part is missing or damaged, or does not fit its operator. The state of
                its operator is dropped.
        """
        assigned = self._assigned(restore)
        self._keep_continued(assigned)
        for operator in {operator for operator, _ in assigned} - self._states.keys():
            planned, width = self._planned[operator]
            state = planned.spec.operator(self._contexts.of(planned, width)).prepared_state()
            if state is not None:
                self._states[operator] = state
        applied = {key: len(self._applied.get(key, ())) for key in assigned}
        plan = self._plan
        restored = restored_state(
            restore.entry,
            self._subtask,
            plan.parallelism,
            self._store,
            state_format.decode,
            plan.widths(),
            applied=applied,
        )
        for (operator, name), parts in assigned.items():
            prepared = self._states.get(operator)
            if prepared is None or name not in prepared.names:
                continue
            try:
                prepared.apply(name, restored[operator][name])
            except BaseException:
                self._drop(operator)
                raise
            self._applied[operator, name] = parts
        self._read_others(restore)

    def _read_others(self, restore: Restore) -> None:
        """Read the parts of states that are not applied. Drop those that the checkpoint lacks."""
        wanted = [
            share
            for share in self._shares(restore)
            if (share.handle.operator, share.handle.state) not in self._applied
            and share.handle.mode is not PartMode.FILE
            and share.handle.path  # Others are in the log.
        ]
        self._read_ahead = {
            share: self._read_ahead[share] for share in wanted if share in self._read_ahead
        }
        for share in wanted:
            if share not in self._read_ahead:
                self._read_ahead[share] = read_share(share, self._store, state_format.decode)

    def take(self, restore: Restore | None) -> TakenState:
        """Return the prepared states for an attempt that restores this checkpoint. It leaves out states
        that the checkpoint does not continue."""
        if restore is None:
            return TakenState({}, {})
        self._keep_continued(self._assigned(restore))
        applied = {key: len(parts) for key, parts in self._applied.items()}
        read_ahead = self._read_ahead if restore.origin is None else {}
        taken = TakenState(dict(self._states), applied, read_ahead)
        self._states, self._applied, self._read_ahead = {}, {}, {}
        return taken

    def _keep_continued(self, assigned: Applied) -> None:
        """Drop the states that a checkpoint with these shares does not continue. Other states of their
        operators are kept if possible."""
        for key, parts in list(self._applied.items()):
            if key in self._applied and assigned.get(key, [])[: len(parts)] != parts:
                operator, state = key
                if self._states[operator].forget(state):
                    del self._applied[key]
                else:
                    self._drop(operator)

    def _drop(self, operator: OperatorId) -> None:
        self._states.pop(operator, None)
        self._applied = {key: parts for key, parts in self._applied.items() if key[0] != operator}

    def _assigned(self, restore: Restore) -> Applied:
        """Return the checkpoint's shares of the states that this slot may prepare, in the order of
        application."""
        handles = restore.entry.handles
        in_files = {handle.operator for handle in handles if handle.mode is PartMode.FILE}
        assigned: Applied = {}
        for share in self._shares(restore):
            operator = share.handle.operator
            if operator in self._planned and operator not in in_files:
                assigned.setdefault((operator, share.handle.state), []).append(share)
        return assigned

    def _shares(self, restore: Restore) -> list[HandleShare]:
        """Return what this slot takes of the checkpoint; nothing of a savepoint, because it is in
        another store."""
        if restore.origin is not None:
            return []
        plan = self._plan
        return shares(restore.entry, self._subtask, plan.parallelism, plan.widths())
