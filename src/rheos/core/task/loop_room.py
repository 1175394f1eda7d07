"""Admission of new rows to a loop: rows that reach its chains from outside. Pure.

A chain always takes rows that return; otherwise the loop would wait for itself. So rows from outside
wait while many rows circulate (IT5). Rows are new at the head, and where a chain of the body reads
another stream. The chains of one subtask in the loop share this state.
"""

from __future__ import annotations

from rheos.core.errors import UserFunctionError
from rheos.core.plan.physical import PlannedOperator
from rheos.core.task.inputs import InputGate


class LoopRoom:
    """The room of one loop in one subtask."""

    def __init__(self, head: PlannedOperator, gate: InputGate, batch_rows: int) -> None:
        """Create the room. `gate` is the head's. There is room while at most `batch_rows` rows wait."""
        capacity = head.spec.loop_capacity
        assert capacity is not None, "it is the head of a loop"
        self._head = head
        self._capacity = capacity
        self._gate = gate
        self._batch_rows = batch_rows
        self._full_until = 0
        """Number of returned rows after which a full loop takes new rows."""

    def check(self) -> None:
        """Raise UserFunctionError if more returned rows wait than the loop may hold."""
        if self._gate.feedback_rows > self._capacity:
            raise UserFunctionError(
                f"{self._gate.feedback_rows:,} rows of feedback are waiting in one subtask; the "
                f"limit is {self._capacity:,}",
                site=self._head.site,
                operator=self._head.name,
                hint="the body returns more rows to the loop than it receives: return fewer, or "
                "raise the limit: iterate(body, capacity=...)",
            )

    def admits(self, *, awaited: bool) -> bool:
        """Return whether new rows may be taken now. A full loop takes new rows only if a barrier after
        them is `awaited`, and only after all waiting rows have passed through it once. So checkpoints
        still complete, and new rows use only the room that became free."""
        if self._gate.feedback_rows <= self._batch_rows:
            return True
        return awaited and self._gate.feedback_taken >= self._full_until

    def admitted(self) -> None:
        """Record that new rows were taken."""
        self._full_until = self._gate.feedback_taken + self._gate.feedback_rows
