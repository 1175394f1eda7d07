"""Benchmark: a plain Python function with state checks users' events against a shop's rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.generator import Block
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState

INITIAL = "outside"
RULES = {
    ("outside", "sign_in"): "browsing",
    ("browsing", "add"): "shopping",
    ("shopping", "add"): "shopping",
    ("shopping", "remove"): "browsing",
    ("shopping", "pay"): "paid",
    ("paid", "ship"): "browsing",
    ("browsing", "sign_out"): "outside",
}
TOUR = ("sign_in", "add", "add", "pay", "ship", "add", "remove", "sign_out")
"""Cycle of each user's actions, which obeys the rules."""

_KINDS = tuple(sorted(set(TOUR)))
_WRONG_IN = 200
"""Average number of events of which one differs from its user's cycle."""


@dataclass(frozen=True)
class ShopEvent:
    user: int
    kind: str
    t: int
    """Wall-clock time in ns at which the event was generated or due."""


@dataclass(frozen=True)
class Alert:
    user: int
    state: str
    kind: str
    t: int


class Validate(KeyedProcessFunction):
    """Follows each user through the shop. A step that no rule allows causes an alert and a reset."""

    state = ValueState(str, default=INITIAL)

    def process_element(self, record: ShopEvent, ctx: KeyedContext) -> Iterator[Alert]:
        state = self.state.value
        following = RULES.get((state, record.kind))
        if following is None:
            yield Alert(record.user, state, record.kind, record.t)
            self.state.clear()
        else:
            self.state.value = following


@dataclass(frozen=True)
class Events:
    """Generator of events. All events of a user are in one split, so they stay in order.

    Each user of a split has one event per iteration; the order of users differs between iterations.
    """

    users: int
    splits: int

    def __call__(self, block: Block) -> dict[str, Any]:
        ours = -(-(self.users - block.split) // self.splits)
        rounds = block.index() // ours
        first, skipped = divmod(block.start, ours)
        orders = [
            _order(block.seed, block.split, each, ours) for each in range(first, int(rounds[-1]) + 1)
        ]
        user = np.concatenate(orders)[skipped : skipped + block.rows]
        rng = block.rng()
        kinds = _TOUR_KINDS[rounds % len(TOUR)]
        wrong = rng.random(block.rows) < 1 / _WRONG_IN
        kinds[wrong] = rng.integers(0, len(_KINDS), int(wrong.sum()))
        return {
            "user": user * self.splits + block.split,
            "kind": pa.array(_KINDS, pa.string()).take(pa.array(kinds)),
        }


_TOUR_KINDS = np.array([_KINDS.index(kind) for kind in TOUR])


@lru_cache(maxsize=4)
def _order(seed: int, split: int, round_: int, users: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([seed, split, round_]).permutation(users)
