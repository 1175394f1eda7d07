"""The calls that wait in one subtask, by key: when each may be made, and which rows it answers. Pure.

    row ──> NEW ──snapshot n──> STORED ──n is complete──> RELEASED ──answer──> forgotten
                                  ^
    restored row ─────────────────┘ (in doubt: an earlier attempt may have made its call)

A call is made only after a complete checkpoint contains its row. So a restored job knows each call that
may have been made. docs/protocols/side-effects.md has the invariants.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rheos.core.protocol.ids import CheckpointId
from rheos.core.state.keys import Key

Row = TypeVar("Row")

RESTORED = CheckpointId(0)
"""Id of the restored checkpoint, lower than all others of an attempt."""


@dataclass(slots=True)
class WaitingCall(Generic[Row]):
    """One call, and the rows that its answer is for."""

    key: Key
    rows: list[Row] = field(default_factory=list)
    """Rows with the key, in the order of arrival. The call is made for the first."""
    in_doubt: bool = False
    """Whether an earlier attempt may have made the call."""
    released: bool = False


class CallLedger(Generic[Row]):
    """The calls that are not answered yet."""

    def __init__(self) -> None:
        self._calls: dict[Key, WaitingCall[Row]] = {}
        self._new: list[WaitingCall[Row]] = []
        """Calls that no snapshot contains."""
        self._stored: deque[tuple[CheckpointId, list[WaitingCall[Row]]]] = deque()
        """Calls that are not released, by the first checkpoint whose snapshot contains them."""
        self._last = RESTORED
        self._complete: CheckpointId | None = None
        """Newest complete checkpoint of this attempt."""
        self.rows = 0
        """Number of rows that wait for answers."""

    def waits(self, key: Key) -> bool:
        """Return whether a call with this key is not answered yet."""
        return key in self._calls

    def add(self, key: Key, row: Row) -> None:
        """Add a row. If a call with its key waits, that call answers the row, too."""
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = WaitingCall(key)
            self._new.append(call)
        call.rows.append(row)
        self.rows += 1

    def restore(self, key: Key, row: Row) -> None:
        """Add a row of the restored checkpoint. Called before all other methods."""
        assert self._last == RESTORED, "SE2: only the restored checkpoint contains calls in doubt"
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = WaitingCall(key, in_doubt=True)
            if not self._stored:
                self._stored.append((RESTORED, []))
            self._stored[0][1].append(call)
        call.rows.append(row)
        self.rows += 1

    # --- checkpoints ------------------------------------------------------------------------------

    def taken(self, checkpoint: CheckpointId) -> list[Row]:
        """Return all rows, for the snapshot of a checkpoint, in the order of their calls."""
        assert checkpoint > self._last, "SE1: snapshots are taken in ascending order"
        self._last = checkpoint
        if self._new:
            self._stored.append((checkpoint, self._new))
            self._new = []
        return self.all_rows()

    def all_rows(self) -> list[Row]:
        """Return all rows, in the order of their calls."""
        return [row for call in self._calls.values() for row in call.rows]

    def completed(self, checkpoint: CheckpointId) -> None:
        """Record that the checkpoint is in the log."""
        if self._complete is None or checkpoint > self._complete:
            self._complete = checkpoint

    @property
    def is_due(self) -> bool:
        """Return whether calls may be released."""
        if self._complete is None or not self._stored:
            return False
        return self._stored[0][0] <= self._complete

    def release(self) -> list[WaitingCall[Row]]:
        """Return the calls that may now be made, oldest first. Each is returned once."""
        due: list[WaitingCall[Row]] = []
        while self.is_due:
            due += self._stored.popleft()[1]
        for call in due:
            assert not call.released, "SE1: a call is made once in an attempt"
            call.released = True
        return due

    def answered(self, key: Key) -> WaitingCall[Row]:
        """Remove the call, which is answered or given up, and return it."""
        call = self._calls.pop(key)
        assert call.released, "SE1: no answer arrives before the call"
        self.rows -= len(call.rows)
        return call
