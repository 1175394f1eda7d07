"""When a loop is over: its input has ended, and nothing goes round in it any more. Pure.

Each head of a loop (a subtask of the operator that rows come back to) sends a `Lap` into the loop when
its input has ended. A lap goes round behind the rows before it, as all marks do, and a subtask with
several channels of the loop sends it on when it has come on all of them; it is quiet if it was on each.
When a head's lap has come round, it sends the next one: quiet, if no row came round since the one
before. When a lap comes round that all have sent quiet, nothing is left in the loop (IT4).

docs/protocols/iterations.md has the invariants and the proof.
"""

from __future__ import annotations

from collections.abc import Collection

from rheos.core.protocol.elements import Lap


class LapMerger:
    """The laps of the channels of one input. Those of other channels never bring any: these must have
    ended before a lap goes on, which the caller sees to."""

    def __init__(self, lanes: Collection[int]) -> None:
        """The channels that lie on the loop."""
        self._lanes = frozenset(lanes)
        self._passed = 0
        self._came: dict[int, dict[int, bool]] = {}
        """By number and channel: whether it was quiet. Channels differ by one lap at the most."""

    def came(self, lane: int, lap: Lap) -> None:
        of_number = self._came.setdefault(lap.number, {})
        next_on_lane = lane in self._lanes and lane not in of_number and lap.number > self._passed
        assert next_on_lane, f"IT3: lap {lap.number} on channel {lane} after lap {self._passed}"
        of_number[lane] = lap.quiet

    def merged(self) -> Lap | None:
        """The next lap, once, where it has come on all channels."""
        of_number = self._came.get(self._passed + 1, {})
        if len(of_number) < len(self._lanes) or not self._lanes:
            return None
        self._passed += 1
        del self._came[self._passed]
        return Lap(self._passed, quiet=all(of_number.values()))


class LoopHead:
    """What the head of a loop knows of it."""

    def __init__(self) -> None:
        self._number = 0
        self._busy = True
        """Whether rows have come round, or in, since the last lap was sent."""

    def laps(self) -> int:
        """How many were sent: 0 while the input has not ended."""
        return self._number

    def rows_came_round(self) -> None:
        self._busy = True

    def begin(self) -> Lap:
        """The input has ended: the first lap."""
        return self._next()

    def came_round(self, lap: Lap) -> Lap | None:
        """The lap has come round; the next one, or None: the loop is over."""
        assert lap.number == self._number, f"IT3: lap {lap.number} came round, {self._number} was sent"
        return None if lap.quiet else self._next()

    def _next(self) -> Lap:
        self._number += 1
        lap = Lap(self._number, quiet=not self._busy)
        self._busy = False
        return lap
