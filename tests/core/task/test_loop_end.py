"""Detection of the end of a loop: never while a row is in it (IT4), and always once none is. The world
here is the protocol alone: heads and tails with queues in between, rows that circulate and may split,
steps in any order. `LoopHead` and `IterationMarkMerger` are real."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest

from rheos.core.protocol.elements import IterationMark
from rheos.core.task.loop_end import IterationMarkMerger, LoopHead

Row = int
"""How many rounds it has still to go."""


@dataclass
class LoopOf:
    """Loop in which heads send rows to any body, and bodies to their own head, or with `wide` to
    any."""

    width: int
    wide: bool
    draw: Random
    into: dict[tuple[int, int], deque[Row | IterationMark]] = field(default_factory=dict)
    back: dict[tuple[int, int], deque[Row | IterationMark]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = range(self.width)
        pairs = [(a, b) for a in every for b in every]
        self.into = {pair: deque() for pair in pairs if self.wide or pair[0] == pair[1]}
        # A second way back beside the subtask's own: laps of one lane may then be ahead.
        self.back = {pair: deque() for pair in self.into}
        self.heads = [LoopHead() for _ in every]
        self.at_head = [IterationMarkMerger([a for a, b in self.back if b == n]) for n in every]
        self.at_body = [IterationMarkMerger([a for a, b in self.into if b == n]) for n in every]
        self.input = [[self.draw.randrange(5) for _ in range(self.draw.randrange(4))] for _ in every]
        self.begun = [False] * self.width
        self.over = [False] * self.width
        self.passed = 0

    def in_loop(self) -> int:
        queues = [*self.into.values(), *self.back.values()]
        return sum(not isinstance(each, IterationMark) for queue in queues for each in queue)

    def send(
        self,
        lanes: dict[tuple[int, int], deque[Row | IterationMark]],
        by: int,
        what: Row | IterationMark,
    ) -> None:
        mine = [queue for (a, _), queue in lanes.items() if a == by]
        for queue in mine if isinstance(what, IterationMark) else [self.draw.choice(mine)]:
            queue.append(what)

    def step(self) -> None:
        kind = self.draw.choice(["input", "into", "back"])
        if kind == "input":
            n = self.draw.randrange(self.width)
            if self.input[n]:
                self.send(self.into, n, self.input[n].pop())
            elif not self.begun[n]:
                self.begun[n] = True
                self.send(self.into, n, self.heads[n].begin())
            return
        lanes = self.into if kind == "into" else self.back
        (a, b), queue = self.draw.choice(list(lanes.items()))
        if queue:
            (self.body if kind == "into" else self.head)(a, b, queue.popleft())

    def body(self, lane: int, n: int, element: Row | IterationMark) -> None:
        if isinstance(element, IterationMark):
            self.at_body[n].came(lane, element)
            if (lap := self.at_body[n].merged()) is not None:
                self.send(self.back, n, lap)
            return
        self.passed += 1
        for _ in range(self.draw.choice([1, 1, 2]) if element else 0):
            self.send(self.back, n, element - 1)

    def head(self, lane: int, n: int, element: Row | IterationMark) -> None:
        assert not self.over[n], f"{element} comes round to head {n}, which is over"
        if not isinstance(element, IterationMark):
            self.heads[n].rows_came_round()
            self.send(self.into, n, element)
            return
        self.at_head[n].came(lane, element)
        if (lap := self.at_head[n].merged()) is None:
            return
        onward = self.heads[n].came_round(lap)
        if onward is not None:
            self.send(self.into, n, onward)
            return
        self.over[n] = True
        assert not self.wide or not self.in_loop(), "IT4"


@pytest.mark.parametrize("wide", [False, True], ids=["by subtask", "all to all"])
def test_a_loop_ends_once_no_row_is_in_it_and_never_before(wide: bool) -> None:
    busiest = 0
    for seed in range(150):
        draw = Random(f"{seed}/{wide}")
        loop = LoopOf(draw.randrange(1, 4), wide, draw)
        steps = 0
        while not all(loop.over):
            loop.step()
            steps += 1
            assert steps < 100_000, f"seed {seed}: the loop never ends"
        assert not loop.in_loop()
        busiest = max(busiest, max(head.laps() for head in loop.heads))
    assert busiest > 4, "some loops went round for long"


def test_an_iteration_is_quiet_only_if_every_channel_is() -> None:
    merger = IterationMarkMerger([0, 2])
    merger.came(0, IterationMark(1, quiet=True))
    assert merger.merged() is None
    # One channel may be a lap ahead of another.
    merger.came(0, IterationMark(2, quiet=True))
    merger.came(2, IterationMark(1, quiet=False))
    assert merger.merged() == IterationMark(1, quiet=False)
    assert merger.merged() is None
    merger.came(2, IterationMark(2, quiet=True))
    assert merger.merged() == IterationMark(2, quiet=True)
    with pytest.raises(AssertionError, match="IT3"):
        merger.came(2, IterationMark(2, quiet=True))
