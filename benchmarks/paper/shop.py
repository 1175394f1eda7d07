"""Visits to a shop, in laps: a known few of them have one event that the rules do not allow.

The events are numbered, and each is a function of its number: so what a topic must bring out is known
for any number of events. Events of a user are all of one partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.cli.benchmarks.state_machine import INITIAL, RULES

Numbers = npt.NDArray[np.int64]

LAP = 8
_GOOD = "sign_in add add pay ship add remove sign_out"
_WRONG = """
    sign_in add add add add add add *sign_out
    sign_in add add pay ship *remove sign_in sign_out
    sign_in add pay *add sign_in add remove sign_out
    sign_in sign_out *pay sign_in add add remove sign_out
    sign_in *ship sign_in add remove add remove sign_out
    *pay sign_in add pay ship add remove sign_out
"""
"""The marked event breaks the rules, which takes the user outside; and each lap ends outside."""
_WRONG_IN = 20
"""One lap in so many is a wrong one."""

_LAPS = [line.split() for line in (_GOOD, *_WRONG.strip().splitlines())]
KINDS = sorted({kind for _, kind in RULES})
_KINDS = np.array([[KINDS.index(kind.lstrip("*")) for kind in lap] for lap in _LAPS])
_BROKEN_AT = np.array([[kind[0] for kind in lap].index("*") for lap in _LAPS[1:]])


def _states() -> list[str]:
    """Of each wrong lap, where the user is when the event comes that breaks the rules."""
    found = []
    for lap in _LAPS[1:]:
        state = INITIAL
        for kind in lap:
            if kind.startswith("*"):
                break
            state = RULES[state, kind]
        found.append(state)
    return found


_STATES = _states()

Alert = tuple[int, int, str, str]
"""User, number of the event among the user's, the state, and what came."""


@dataclass(frozen=True)
class Shop:
    users: int
    seed: int = 0

    def events(self, first: int, count: int) -> pl.DataFrame:
        """Events `first` to `first + count`: user, number (of the user's own) and kind. Each round has
        one event of every user, in an order that changes from round to round."""
        number, place = np.divmod(np.arange(first, first + count), self.users)
        user = (place + number * 7919) % self.users
        kind = _KINDS[self._lap(user, number // LAP), number % LAP]
        kinds = pl.Series(KINDS).gather(pl.Series(kind))
        return pl.DataFrame({"user": user, "number": number, "kind": kinds})

    def planted(self, events: int) -> set[Alert]:
        """The alerts of the first so many events."""
        laps = -(-events // (self.users * LAP))
        user, lap = np.repeat(np.arange(self.users), laps), np.tile(np.arange(laps), self.users)
        which = self._lap(user, lap) - 1
        user, lap, which = user[which >= 0], lap[which >= 0], which[which >= 0]
        number = lap * LAP + _BROKEN_AT[which]
        there = number * self.users + (user - number * 7919) % self.users < events
        alerts = zip(user[there].tolist(), number[there].tolist(), which[there].tolist(), strict=True)
        return {(u, n, _STATES[w], KINDS[_KINDS[w + 1, n % LAP]]) for u, n, w in alerts}

    def _lap(self, user: Numbers, lap: Numbers) -> Numbers:
        """Which lap it is: 0 is the good one."""
        bits = user.astype(np.uint64) << np.uint64(32) ^ lap.astype(np.uint64)
        bits ^= np.uint64(self.seed * 0x9E3779B97F4A7C15 % 2**64)
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            bits = (bits ^ bits >> np.uint64(30)) * np.uint64(factor)
        bits ^= bits >> np.uint64(31)
        wrong = 1 + bits // np.uint64(_WRONG_IN) % np.uint64(len(_BROKEN_AT))
        return np.where(bits % np.uint64(_WRONG_IN), 0, wrong).astype(np.int64)


@dataclass(frozen=True)
class ShopVerdict:
    planted: int
    found: int
    missing: int
    false: int
    doubled: int
    out_of_order: int

    @property
    def ok(self) -> bool:
        return not (self.missing or self.false or self.doubled or self.out_of_order)


def judge(found: list[Alert], planted: set[Alert]) -> ShopVerdict:
    """Holds alerts, in the order in which a reader saw them, against the planted ones."""
    distinct = set(found)
    last: dict[int, int] = {}
    out_of_order = 0
    for user, number, _, _ in found:
        out_of_order += number < last.get(user, -1)
        last[user] = number
    return ShopVerdict(
        planted=len(planted),
        found=len(found),
        missing=len(planted - distinct),
        false=len(distinct - planted),
        doubled=len(found) - len(distinct),
        out_of_order=out_of_order,
    )


def payloads(
    first: int, count: int, partitions: int, *, users: int, seed: int, **_: float
) -> tuple[list[str], list[int]]:
    """What is sent: JSON, and the partition of each."""
    made = Shop(users, seed).events(first, count)
    parts = ('{"user":', "user", ',"number":', "number", ',"kind":"', "kind", '"}')
    text = pl.concat_str([pl.col(part) if part in made.columns else pl.lit(part) for part in parts])
    given = made.select(text.alias("text"), partition=pl.col("user") % partitions)
    return given["text"].to_list(), given["partition"].to_list()
