"""Detects the end of a loop: its input has ended, and no row is left in it. Pure.

A head of a loop is a subtask of the operator to which rows return. When its input has ended, the head
sends an `IterationMark` into the loop. The mark follows the rows before it, as all marks do. A subtask
with several channels of the loop forwards it once it has received it on all of them. The forwarded mark
is quiet if it was quiet on each channel. When a head receives its mark again, it sends the next one,
which is quiet if no row has returned since the previous mark. When a head receives a mark that all
heads sent quiet, the loop is empty (IT4).

docs/protocols/iterations.md has the invariants and the proof.
"""

from __future__ import annotations

from collections.abc import Collection

from rheos.core.protocol.elements import IterationMark


class IterationMarkMerger:
    """Merges the marks of the loop's channels in one input. Other channels carry no such marks; the
    caller ensures that they have ended before a mark is forwarded."""

    def __init__(self, lanes: Collection[int]) -> None:
        """Create the merger. `lanes` are the channels of the loop."""
        self._lanes = frozenset(lanes)
        self._passed = 0
        self._came: dict[int, dict[int, bool]] = {}
        """Whether the mark was quiet, by number and channel. Channels differ by at most one mark."""

    def came(self, lane: int, lap: IterationMark) -> None:
        of_number = self._came.setdefault(lap.number, {})
        next_on_lane = lane in self._lanes and lane not in of_number and lap.number > self._passed
        assert next_on_lane, f"IT3: lap {lap.number} on channel {lane} after lap {self._passed}"
        of_number[lane] = lap.quiet

    def merged(self) -> IterationMark | None:
        """Return the next mark once it has arrived on all channels."""
        of_number = self._came.get(self._passed + 1, {})
        if len(of_number) < len(self._lanes) or not self._lanes:
            return None
        self._passed += 1
        del self._came[self._passed]
        return IterationMark(self._passed, quiet=all(of_number.values()))


class LoopHead:
    """State of a loop at its head."""

    def __init__(self) -> None:
        self._number = 0
        self._busy = True
        """Whether rows have returned to the head, or entered the loop, since the last mark was sent."""

    def laps(self) -> int:
        """Return the number of marks sent: 0 until the input has ended."""
        return self._number

    def rows_came_round(self) -> None:
        self._busy = True

    def begin(self) -> IterationMark:
        """Return the first mark, after the input has ended."""
        return self._next()

    def came_round(self, lap: IterationMark) -> IterationMark | None:
        """Return the next mark after one has returned; None if the loop has ended."""
        assert lap.number == self._number, (
            f"IT3: lap {lap.number} returned, but {self._number} was sent"
        )
        return None if lap.quiet else self._next()

    def _next(self) -> IterationMark:
        self._number += 1
        lap = IterationMark(self._number, quiet=not self._busy)
        self._busy = False
        return lap
