"""Admission of new rows to an operator whose rows wait for answers. Pure.

Rows are answered only after a checkpoint (`call_ledger`). So a full operator still takes the rows
before a barrier that the chain waits for; otherwise the checkpoint could not complete (SE6).
"""

from __future__ import annotations

from rheos.core.operators.contract import HoldingOperator


class HeldRoom:
    """The room of one operator in one subtask."""

    def __init__(self, holder: HoldingOperator) -> None:
        self._holder = holder

    def check(self) -> None:
        """Do nothing: the rows before a barrier may exceed the capacity."""

    def admits(self, *, awaited: bool) -> bool:
        """Return whether new rows may be taken now. `awaited`: the chain waits for a barrier."""
        return awaited or self._holder.waiting_rows() < self._holder.capacity_rows

    def admitted(self) -> None:
        """Do nothing: the operator counts its rows."""
