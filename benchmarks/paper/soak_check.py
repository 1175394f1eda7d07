"""What must hold of the records that come out: of each key just those that its producer has sent, each
once, in order, and counted rightly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec


class Out(msgspec.Struct, frozen=True):
    """A record of the output topic."""

    key: int
    number: int
    sent_us: int
    seen: int
    running: int


@dataclass(frozen=True)
class Verdict:
    rows: int
    lost: int
    doubled: int
    foreign: int
    """Records that nobody has sent."""
    out_of_order: int
    miscounted: int

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.foreign or self.out_of_order or self.miscounted)


class Sequences:
    """Takes the records as a reader of committed records sees them. Its memory is a number for each
    key, and what has come out of order."""

    def __init__(self) -> None:
        self.rows = 0
        self._next: defaultdict[int, int] = defaultdict(int)
        """Of each key, the number below which all have come."""
        self._ahead: defaultdict[int, set[int]] = defaultdict(set)
        """What has come above it."""
        self._doubled = 0
        self._out_of_order = 0
        self._miscounted = 0

    def take(self, record: Out) -> None:
        self.rows += 1
        key, number = record.key, record.number
        ahead = self._ahead.get(key, ())
        if number < self._next[key] or number in ahead:
            self._doubled += 1
        elif number == self._next[key]:
            self._next[key] += 1
            if ahead:
                self._close_up(key)
        else:
            self._out_of_order += 1
            self._ahead[key].add(number)
        self._miscounted += not (record.seen == record.running == number + 1)

    def _close_up(self, key: int) -> None:
        ahead = self._ahead[key]
        while self._next[key] in ahead:
            ahead.remove(self._next[key])
            self._next[key] += 1
        if not ahead:
            del self._ahead[key]

    def verdict(self, sent: Mapping[int, int]) -> Verdict:
        """Against how many records each key's producer has sent: their numbers are those from 0 on."""
        lost = foreign = 0
        for key in {*sent, *self._next}:
            below = self._next.get(key, 0)
            ahead = self._ahead.get(key, set())
            made = sent.get(key, 0)
            known = min(below, made) + sum(number < made for number in ahead)
            lost += made - known
            foreign += below + len(ahead) - known
        return Verdict(self.rows, lost, self._doubled, foreign, self._out_of_order, self._miscounted)
