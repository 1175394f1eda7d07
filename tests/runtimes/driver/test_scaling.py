"""When a job gets wider or narrower, in virtual time: slots that can do so much, a load that changes,
and what becomes of the width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from rheos.runtimes.driver.scaling import (
    FIRST_RETRY_MS,
    NARROW_AFTER_MS,
    NO_GAIN_FOR_MS,
    SETTLE_MS,
    SPARE,
    TARGET,
    WIDEN_AFTER_MS,
    ScalingController,
    ScalingState,
    SlotLoad,
    WidthChange,
)
from rheos.runtimes.driver.scaling import FULL as FULL_SHARE
from rheos.runtimes.job import ScalingBounds

SLOT_ROWS_PER_S = 1_000.0


@dataclass
class Plant:
    """A job whose slots each take SLOT_ROWS_PER_S. What comes and is not taken waits."""

    controller: ScalingController
    parallelism: int
    comes: Callable[[float], float]
    """Rows per second, by the second."""
    slots: Callable[[float], int] = lambda s: 8
    most_rows: float = float("inf")
    """That the job takes, however wide: what is outside sets the pace."""
    knows_lag: bool = False
    fails: Callable[[float], bool] = lambda s: False
    """Whether a rescale at that second fails."""
    rescale_s: int = 2
    noise: Random | None = None
    second: int = 0
    waiting: float = 0.0
    widths: list[tuple[int, int]] = field(default_factory=list)
    """From which second on it had which width."""
    asked: list[tuple[int, WidthChange]] = field(default_factory=list)
    states: list[ScalingState] = field(default_factory=list)

    def begin(self) -> Plant:
        self.widths.append((self.second, self.parallelism))
        self.controller.began(self.parallelism, self.second * 1000)
        return self

    def run(self, seconds: int) -> Plant:
        until = self.second + seconds
        while self.second < until:
            self.tick()
        return self

    def tick(self) -> None:
        self.second += 1
        capacity = min(self.parallelism * SLOT_ROWS_PER_S, self.most_rows)
        self.waiting += self.comes(self.second)
        taken = min(self.waiting, capacity)
        self.waiting -= taken
        share = taken / capacity
        if self.noise is not None:
            share *= self.noise.uniform(0.9, 1.1)
        load = SlotLoad(
            [share] * self.parallelism,
            taken,
            round(self.waiting) if self.knows_lag else None,
            self.slots(self.second),
        )
        change = self.controller.observe(load, self.second * 1000)
        self.states.append(self.controller.state)
        if change is not None:
            self.rescale(change)

    def rescale(self, change: WidthChange) -> None:
        self.asked.append((self.second, change))
        self.waiting += self.comes(self.second) * self.rescale_s
        self.second += self.rescale_s
        if self.fails(self.second):
            self.controller.answered(False, self.second * 1000)
            return
        self.parallelism = change.parallelism
        self.begin()
        self.controller.answered(True, self.second * 1000)

    @property
    def seen(self) -> list[int]:
        return [width for _, width in self.widths]


def plant(
    comes: Callable[[float], float],
    begin: int = 2,
    least: int = 1,
    most: int | None = 8,
    **more: object,
) -> Plant:
    made = Plant(ScalingController(ScalingBounds(least, most)), begin, comes)
    for name, value in more.items():
        setattr(made, name, value)
    return made.begin()


def test_under_a_load_that_fits_nothing_is_done() -> None:
    job = plant(lambda s: 1_400).run(3_600)
    assert job.asked == []
    said = [ScalingState.SETTLING, ScalingState.WATCHING, ScalingState.STEADY]
    assert list(dict.fromkeys(job.states)) == said


def test_load_rises_and_the_job_gets_wider() -> None:
    job = plant(lambda s: 1_000 if s < 100 else 3_200, knows_lag=True).run(400)
    assert job.seen == [2, 4]
    at, change = job.asked[0]
    assert 100 < at <= 100 + WIDEN_AFTER_MS // 1000 + 1
    assert change.why == "its slots were idle 15% of the time, 8,400 rows are waiting"
    assert job.waiting == 0.0


def test_load_falls_and_the_job_gets_narrower_after_a_while() -> None:
    job = plant(lambda s: 3_000 if s < 100 else 900, begin=5).run(400)
    assert job.seen == [5, 2]
    ((at, change),) = job.asked
    assert at >= 100 + NARROW_AFTER_MS // 1000
    assert change.parallelism == 2


def test_a_short_fall_is_no_reason_to_get_narrower() -> None:
    job = plant(lambda s: 500 if s % 60 < 40 else 3_000, begin=5).run(3_600)
    assert job.asked == []


def test_a_peak_of_seconds_is_no_reason_to_get_wider() -> None:
    job = plant(lambda s: 2_500 if s % 60 < 3 else 1_000).run(3_600)
    assert job.asked == []


@pytest.mark.parametrize("load", range(100, 8_000, 790))
@pytest.mark.parametrize("begin", [1, 3, 8])
def test_under_any_load_that_stays_it_comes_to_rest(load: int, begin: int) -> None:
    """AS4. It never goes up, down and up again; down after up, where rows had piled up meanwhile."""
    job = plant(lambda s: float(load), begin=begin, noise=Random(load)).run(1_800)
    steps = [after > before for before, after in pairwise(job.seen)]
    assert steps == sorted(steps, reverse=True), job.seen
    settled = job.widths[-1][0]
    assert settled < 900
    assert job.parallelism == 8 or load / (job.parallelism * SLOT_ROWS_PER_S) < FULL_SHARE * 1.05


def test_a_load_that_goes_up_and_down_is_followed_ever_more_rarely() -> None:
    """Each time that fewer slots were soon too few it waits twice as long."""

    def comes(s: float) -> float:
        return 600.0 if s % 400 < 200 else 2_500.0

    job = plant(comes).run(8 * 3_600)
    narrowed = [after < before for before, after in pairwise(job.seen)]
    assert 1 <= sum(narrowed) <= 3
    assert job.asked[-1][0] < 2 * 3_600
    assert job.parallelism >= 3


def test_it_stays_within_its_bounds() -> None:
    up = plant(lambda s: 9_000, most=4).run(600)
    assert (up.parallelism, up.states[-1]) == (4, ScalingState.AT_BOUND)
    down = plant(lambda s: 10, begin=8, least=3).run(600)
    assert down.parallelism == 3


def test_a_job_outside_its_bounds_is_brought_within() -> None:
    job = plant(lambda s: 3_300, begin=6, most=4).run(60)
    ((at, change),) = job.asked
    assert at * 1000 <= SETTLE_MS + 1_000
    assert change == WidthChange(4, "its bounds are 1 to 4")


def test_slots_that_are_missing_are_taken_when_they_are_back() -> None:
    """A machine was lost, and the job goes on with what was left; then it is back."""
    job = plant(lambda s: 3_000, slots=lambda s: 2 if s < 500 else 8, most=None).run(480)
    assert (job.parallelism, job.states[-1]) == (2, ScalingState.NO_SLOTS)
    job.run(100)
    # Some twenty seconds after each step.
    assert job.parallelism >= 4
    assert 500 <= job.asked[0][0] <= 502


def test_slots_that_come_and_are_not_needed_are_not_taken() -> None:
    job = plant(lambda s: 1_400, slots=lambda s: 2 if s < 500 else 64, most=None).run(1_000)
    assert job.asked == []


def test_one_step_at_most_doubles_the_width() -> None:
    """AS2. All that waits would take a hundred slots."""
    job = plant(lambda s: 50_000, most=64, slots=lambda s: 64, knows_lag=True).run(600)
    assert job.seen == [2, 4, 8, 16, 32, 64]


def test_after_a_step_the_next_waits_until_the_attempt_has_settled() -> None:
    """AS3."""
    job = plant(lambda s: 50_000, most=64, slots=lambda s: 64).run(600)
    for (before, _), (after, _) in pairwise(job.asked):
        assert after - before >= (SETTLE_MS + WIDEN_AFTER_MS) // 1000 + job.rescale_s


def test_a_job_that_gets_no_more_done_is_not_made_wider_again_and_again() -> None:
    """All of a split is read by one slot, or the sink is slow: the others are held up."""
    job = plant(lambda s: 5_000, most_rows=1_500).run(NO_GAIN_FOR_MS // 1000 - 60)
    assert job.seen == [2, 3]
    assert job.states[-1] is ScalingState.NO_GAIN
    # After a time it is tried once more: what sets the pace may be another thing by then.
    job.most_rows = float("inf")
    job.run(300)
    assert job.parallelism >= 5


def test_a_job_of_which_nothing_moves_is_not_made_wider_again_and_again() -> None:
    job = plant(lambda s: 0, begin=2)
    for second in range(400):
        change = job.controller.observe(SlotLoad([1.0] * job.parallelism, 0.0), second * 1000)
        if change is not None:
            job.second = second
            job.rescale(change)
    assert job.seen == [2, 3]
    assert job.controller.state is ScalingState.NO_GAIN


def test_where_one_slot_does_all_the_work_no_others_are_added_or_taken() -> None:
    controller = ScalingController(ScalingBounds(1, 8))
    controller.began(4, 0)
    changes = [
        controller.observe(SlotLoad([1.0, 0.1, 0.1, 0.1], 900.0), second * 1000)
        for second in range(600)
    ]
    assert set(changes) == {None}
    assert controller.state is ScalingState.UNEVEN


def test_what_waits_is_caught_up_with_by_those_that_are_there_where_that_is_soon() -> None:
    """It was away for a while, and has no time left until all is read."""
    job = plant(lambda s: 1_000, knows_lag=True)
    job.waiting = 40_000
    job.run(200)
    assert job.asked == []
    assert ScalingState.CATCHING_UP in job.states


def test_what_waits_for_long_makes_it_wider() -> None:
    job = plant(lambda s: 1_000, knows_lag=True)
    job.waiting = 400_000
    job.run(30)
    ((_, change),) = job.asked
    assert change.parallelism == 4
    assert "rows are waiting" in change.why


def test_while_much_waits_it_is_not_made_narrower() -> None:
    controller = ScalingController(ScalingBounds(1, 8))
    controller.began(4, 0)
    for second in range(300):
        assert controller.observe(SlotLoad([0.3] * 4, 10.0, 100_000), second * 1000) is None
    assert controller.state is ScalingState.CATCHING_UP


def test_a_rescale_that_fails_is_tried_again_later_and_later() -> None:
    job = plant(lambda s: 3_500, fails=lambda s: s < 600).run(590)
    tries = [at for at, _ in job.asked]
    pauses = [after - before for before, after in pairwise(tries)]
    assert job.parallelism == 2
    assert pauses[0] >= FIRST_RETRY_MS // 1000
    assert all(later > earlier for earlier, later in pairwise(pauses))
    assert ScalingState.FAILED in job.states
    job.run(400)
    assert job.parallelism > 2


def test_an_attempt_that_has_just_begun_says_nothing() -> None:
    """It takes in what has piled up. An attempt that fails begins anew, however often."""
    job = plant(lambda s: 500)
    for _ in range(30):
        job.waiting = 50_000
        job.run((SETTLE_MS + WIDEN_AFTER_MS) // 1000 - 1)
        job.begin()
    assert job.asked == []


def test_where_a_rescale_takes_long_it_is_made_narrower_more_rarely() -> None:
    quick = plant(lambda s: 3_000 if s < 300 else 900, begin=2).run(1_500)
    slow = plant(lambda s: 3_000 if s < 300 else 900, begin=2, rescale_s=20).run(1_500)
    first_narrower = [
        next(
            at
            for (at, new), (_, old) in zip(job.asked[1:], job.asked, strict=False)
            if new.parallelism < old.parallelism
        )
        for job in (quick, slow)
    ]
    assert first_narrower[1] - first_narrower[0] > 200


def test_the_thresholds_leave_room_between_them() -> None:
    assert SPARE < TARGET < FULL_SHARE
