"""Automatic scaling in virtual time: slots have a fixed capacity, and the load changes."""

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
    OVERLOADED_FOR_MS,
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
    """Job whose slots each process SLOT_ROWS_PER_S. Rows beyond that wait."""

    controller: ScalingController
    parallelism: int
    comes: Callable[[float], float]
    """Rows per second, by the second."""
    slots: Callable[[float], int] = lambda s: 8
    most_rows: float = float("inf")
    """That the job takes, however wide: what is outside sets the pace."""
    knows_lag: bool = False
    small_runs: bool = False
    """Whether slots make small runs all the time, so that they are always busy."""
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
            [1.0 if self.small_runs else share] * self.parallelism,
            taken,
            round(self.waiting) if self.knows_lag else None,
            self.slots(self.second),
            [share] * self.parallelism if self.small_runs else [],
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


def test_a_suitable_parallelism_is_kept() -> None:
    job = plant(lambda s: 1_400).run(3_600)
    assert job.asked == []
    said = [ScalingState.SETTLING, ScalingState.WATCHING, ScalingState.STEADY]
    assert list(dict.fromkeys(job.states)) == said


def test_parallelism_rises_with_the_load() -> None:
    job = plant(lambda s: 1_000 if s < 100 else 3_200, knows_lag=True).run(400)
    assert job.seen == [2, 4]
    at, change = job.asked[0]
    assert 100 < at <= 100 + OVERLOADED_FOR_MS // 1000 + 1
    assert change.why == "its load was 100%, 6,000 rows are waiting"
    assert job.waiting == 0.0


def test_parallelism_falls_some_time_after_the_load() -> None:
    job = plant(lambda s: 3_000 if s < 100 else 900, begin=5).run(400)
    assert job.seen == [5, 2]
    ((at, change),) = job.asked
    assert at >= 100 + NARROW_AFTER_MS // 1000
    assert change.parallelism == 2


def test_a_short_drop_of_load_does_not_lower_parallelism() -> None:
    job = plant(lambda s: 500 if s % 60 < 40 else 3_000, begin=5).run(3_600)
    assert job.asked == []


def test_a_short_peak_of_load_does_not_raise_parallelism() -> None:
    job = plant(lambda s: 2_500 if s % 60 < 3 else 1_000).run(3_600)
    assert job.asked == []


@pytest.mark.parametrize("load", range(100, 8_000, 790))
@pytest.mark.parametrize("begin", [1, 3, 8])
def test_parallelism_settles_under_any_constant_load(load: int, begin: int) -> None:
    """Invariant AS4. Parallelism never goes up, down and up again; it goes down after up only if
    rows had piled up."""
    job = plant(lambda s: float(load), begin=begin, noise=Random(load)).run(1_800)
    steps = [after > before for before, after in pairwise(job.seen)]
    assert steps == sorted(steps, reverse=True), job.seen
    settled = job.widths[-1][0]
    assert settled < 900
    assert job.parallelism == 8 or load / (job.parallelism * SLOT_ROWS_PER_S) < FULL_SHARE * 1.05


def test_an_oscillating_load_is_followed_less_and_less() -> None:
    """Each time that fewer slots were soon too few, the controller waits twice as long."""

    def comes(s: float) -> float:
        return 600.0 if s % 400 < 200 else 2_500.0

    job = plant(comes).run(8 * 3_600)
    narrowed = [after < before for before, after in pairwise(job.seen)]
    assert 1 <= sum(narrowed) <= 3
    assert job.asked[-1][0] < 2 * 3_600
    assert job.parallelism >= 3


def test_parallelism_stays_within_its_bounds() -> None:
    up = plant(lambda s: 9_000, most=4).run(600)
    assert (up.parallelism, up.states[-1]) == (4, ScalingState.AT_BOUND)
    down = plant(lambda s: 10, begin=8, least=3).run(600)
    assert down.parallelism == 3


def test_a_job_outside_its_bounds_is_rescaled() -> None:
    job = plant(lambda s: 3_300, begin=6, most=4).run(60)
    ((at, change),) = job.asked
    assert at * 1000 <= SETTLE_MS + 1_000
    assert change == WidthChange(4, "its bounds are 1 to 4")


def test_lost_slots_are_used_again_when_they_return() -> None:
    """A machine is lost, and the job continues with the rest; then the machine returns."""
    job = plant(lambda s: 3_000, slots=lambda s: 2 if s < 500 else 8, most=None).run(480)
    assert (job.parallelism, job.states[-1]) == (2, ScalingState.NO_SLOTS)
    job.run(100)
    # About twenty seconds after each step.
    assert job.parallelism >= 4
    assert 500 <= job.asked[0][0] <= 502


def test_new_slots_are_not_used_unless_needed() -> None:
    job = plant(lambda s: 1_400, slots=lambda s: 2 if s < 500 else 64, most=None).run(1_000)
    assert job.asked == []


def test_one_step_at_most_doubles_the_parallelism() -> None:
    """Invariant AS2. The rows that wait would need a hundred slots."""
    job = plant(lambda s: 50_000, most=64, slots=lambda s: 64, knows_lag=True).run(600)
    assert job.seen == [2, 4, 8, 16, 32, 64]


def test_the_next_step_waits_until_the_attempt_has_settled() -> None:
    """Invariant AS3."""
    job = plant(lambda s: 50_000, most=64, slots=lambda s: 64).run(600)
    for (before, _), (after, _) in pairwise(job.asked):
        assert after - before >= (SETTLE_MS + WIDEN_AFTER_MS) // 1000 + job.rescale_s


def test_a_growing_backlog_raises_parallelism_earlier() -> None:
    """The longer the controller waits, the later are the rows that wait."""
    known, unknown = (
        plant(lambda s: 300 if s < 100 else 3_000, begin=1, knows_lag=knows).run(300)
        for knows in (True, False)
    )
    (at_known, _), (at_unknown, _) = known.asked[0], unknown.asked[0]
    assert at_known - 100 <= OVERLOADED_FOR_MS // 1000
    assert at_unknown - at_known >= 2


def test_a_short_peak_with_a_backlog_does_not_raise_parallelism() -> None:
    job = plant(lambda s: 2_500 if s % 60 < 3 else 1_000, knows_lag=True).run(3_600)
    assert job.asked == []


# --- small runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows_lag", [False, True])
def test_a_job_with_few_rows_and_small_runs_gets_one_slot(knows_lag: bool) -> None:
    """Invariant AS5. A buffer timeout of 0 keeps all slots busy, with a tenth of what they can do."""
    job = plant(lambda s: 200, begin=2, small_runs=True, knows_lag=knows_lag).run(3_600)
    assert job.seen == [2, 1]
    ((at, change),) = job.asked
    assert at >= (SETTLE_MS + NARROW_AFTER_MS) // 1000
    assert change.why == "its load was at most 10% for 60 s"


def test_a_job_with_small_runs_gets_more_slots_before_they_are_full() -> None:
    """Each second has 1 % more rows. One slot is enough for 1,000."""
    job = plant(lambda s: 200 * 1.01 ** max(s - 600, 0), begin=1, small_runs=True).run(770)
    ((at, change),) = job.asked
    assert change.parallelism == 2
    assert job.comes(at) < SLOT_ROWS_PER_S


@pytest.mark.parametrize("load", range(100, 8_000, 1_580))
@pytest.mark.parametrize("begin", [1, 8])
def test_small_runs_settle_under_any_constant_load(load: int, begin: int) -> None:
    """Invariant AS4."""
    job = plant(lambda s: float(load), begin=begin, small_runs=True, noise=Random(load)).run(1_800)
    steps = [after > before for before, after in pairwise(job.seen)]
    assert steps == sorted(steps, reverse=True), job.seen
    assert job.widths[-1][0] < 900


def test_a_backlog_counts_all_time_in_which_slots_were_busy() -> None:
    """Invariant AS5. The estimated fixed cost is wrong: the slots cannot do more."""
    controller = ScalingController(ScalingBounds(1, 8))
    controller.began(2, 0)
    changes = [
        controller.observe(SlotLoad([1.0] * 2, 900.0, 200 * second, 8, [0.1] * 2), second * 1000)
        for second in range(30)
    ]
    assert [change.parallelism for change in changes if change is not None][:1] == [4]


def test_parallelism_without_gain_is_not_raised_repeatedly() -> None:
    """One slot reads the only large split, or the sink is slow: the other slots wait."""
    job = plant(lambda s: 5_000, most_rows=1_500).run(NO_GAIN_FOR_MS // 1000 - 60)
    assert job.seen == [2, 3]
    assert job.states[-1] is ScalingState.NO_GAIN
    # After some time the controller tries again: the bottleneck may be another one by then.
    job.most_rows = float("inf")
    job.run(300)
    assert job.parallelism >= 5


def test_parallelism_of_a_stuck_job_is_not_raised_repeatedly() -> None:
    job = plant(lambda s: 0, begin=2)
    for second in range(400):
        change = job.controller.observe(SlotLoad([1.0] * job.parallelism, 0.0), second * 1000)
        if change is not None:
            job.second = second
            job.rescale(change)
    assert job.seen == [2, 3]
    assert job.controller.state is ScalingState.NO_GAIN


def test_parallelism_is_kept_if_one_slot_does_all_work() -> None:
    controller = ScalingController(ScalingBounds(1, 8))
    controller.began(4, 0)
    changes = [
        controller.observe(SlotLoad([1.0, 0.1, 0.1, 0.1], 900.0), second * 1000)
        for second in range(600)
    ]
    assert set(changes) == {None}
    assert controller.state is ScalingState.UNEVEN


def test_a_small_backlog_does_not_raise_parallelism() -> None:
    """The source was unavailable for a while, and the slots are fully busy until the backlog is
    read."""
    job = plant(lambda s: 1_000, knows_lag=True)
    job.waiting = 40_000
    job.run(200)
    assert job.asked == []
    assert ScalingState.CATCHING_UP in job.states


def test_a_large_backlog_raises_parallelism() -> None:
    job = plant(lambda s: 1_000, knows_lag=True)
    job.waiting = 400_000
    job.run(30)
    ((_, change),) = job.asked
    assert change.parallelism == 4
    assert "rows are waiting" in change.why


def test_parallelism_is_not_lowered_during_a_backlog() -> None:
    controller = ScalingController(ScalingBounds(1, 8))
    controller.began(4, 0)
    for second in range(300):
        assert controller.observe(SlotLoad([0.3] * 4, 10.0, 100_000), second * 1000) is None
    assert controller.state is ScalingState.CATCHING_UP


def test_a_failing_rescale_is_retried_with_growing_pauses() -> None:
    job = plant(lambda s: 3_500, fails=lambda s: s < 600).run(590)
    tries = [at for at, _ in job.asked]
    pauses = [after - before for before, after in pairwise(tries)]
    assert job.parallelism == 2
    assert pauses[0] >= FIRST_RETRY_MS // 1000
    assert all(later > earlier for earlier, later in pairwise(pauses))
    assert ScalingState.FAILED in job.states
    job.run(400)
    assert job.parallelism > 2


def test_the_start_of_an_attempt_is_not_considered() -> None:
    """A new attempt reads a backlog first. This holds however often attempts fail."""
    job = plant(lambda s: 500)
    for _ in range(30):
        job.waiting = 50_000
        job.run((SETTLE_MS + WIDEN_AFTER_MS) // 1000 - 1)
        job.begin()
    assert job.asked == []


def test_slow_rescales_lower_parallelism_later() -> None:
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


def test_the_thresholds_are_in_order() -> None:
    assert SPARE < TARGET < FULL_SHARE
