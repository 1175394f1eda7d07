"""The controller of a latency objective, with models of slots whose service times are random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.task.pace import OBSERVE_EVERY_US, Pace, PaceController, SlotMeasurements

MOST_ROWS = 16_384


@dataclass
class Model:
    """Slot at full load: credits bound the waiting batches, and each batch has a cost."""

    batch_us: float
    row_us: float
    waiting: int = 4
    jitter: float = 0.0

    def seen(self, pace: Pace, rng: Random) -> SlotMeasurements:
        """Return an observation of an interval in which the slot was busy throughout."""
        one_us = self.batch_us + self.row_us * pace.batch_rows
        noise = 1 + rng.uniform(-self.jitter, self.jitter)
        return SlotMeasurements(
            rows=int(pace.batch_rows * OBSERVE_EVERY_US / one_us),
            busy_us=OBSERVE_EVERY_US,
            waited_us=int(self.waiting * one_us * noise),
            stuck_us=0,
            turn_us=int(one_us),
        )

    def least_us(self) -> float:
        """Return the time per row with the smallest useful batches."""
        return (self.waiting + 1) * (self.batch_us + 1_200)


MODELS = st.builds(
    Model,
    batch_us=st.floats(10, 400),
    row_us=st.floats(0.02, 40),
    waiting=st.integers(1, 8),
    jitter=st.floats(0, 0.15),
)


def run(controller: PaceController, model: Model, intervals: int, rng: Random) -> list[Pace]:
    return [controller.observe(model.seen(controller.pace, rng)) for _ in range(intervals)]


@given(MODELS, st.integers(5, 200), st.integers(0, 1000))
def test_latency_falls_below_the_objective_and_stays_there(
    model: Model, objective_ms: int, seed: int
) -> None:
    rng = Random(seed)
    objective_us = max(objective_ms * 1000, int(4 * model.least_us()))
    controller = PaceController(objective_us, 1, MOST_ROWS)
    run(controller, model, 400, rng)
    for _ in range(50):
        run(controller, model, 1, rng)
        assert controller.found_us <= objective_us


@given(MODELS, st.integers(5, 200), st.integers(0, 1000))
def test_settings_become_constant_without_noise(model: Model, objective_ms: int, seed: int) -> None:
    rng = Random(seed)
    model.jitter = 0
    controller = PaceController(objective_ms * 1000, 1, MOST_ROWS)
    run(controller, model, 400, rng)
    assert len(set(run(controller, model, 50, rng))) == 1


@given(MODELS, MODELS, st.integers(0, 1000))
def test_the_controller_meets_the_objective_after_a_load_change(
    before: Model, after: Model, seed: int
) -> None:
    rng = Random(seed)
    after.jitter = 0
    objective_us = max(20_000, int(4 * after.least_us()))
    controller = PaceController(objective_us, 1, MOST_ROWS)
    run(controller, before, 200, rng)
    run(controller, after, 400, rng)
    assert controller.found_us <= objective_us


@given(
    st.lists(
        st.builds(
            SlotMeasurements,
            rows=st.integers(0, 10**9),
            busy_us=st.integers(0, 10**8),
            waited_us=st.integers(0, 10**9),
            stuck_us=st.integers(0, 10**9),
            turn_us=st.integers(0, 10**9),
        )
    ),
    st.integers(1_000, 10**7),
    st.integers(0, 9),
    st.integers(1, MOST_ROWS),
)
def test_steps_of_the_controller_are_always_bounded(
    seen: list[SlotMeasurements], objective_us: int, exchanges: int, most_rows: int
) -> None:
    controller = PaceController(objective_us, exchanges, most_rows)
    for each in seen:
        was = controller.pace
        now = controller.observe(each)
        assert 1 <= now.batch_rows <= most_rows
        assert 0 <= now.buffer_timeout_us * max(exchanges, 1) <= objective_us
        # Batches that are too small to be worth a turn are doubled, others grow by a quarter.
        assert was.batch_rows // 2 <= now.batch_rows <= 2 * was.batch_rows
        assert was.buffer_timeout_us // 2 <= now.buffer_timeout_us
        assert now.buffer_timeout_us <= was.buffer_timeout_us * 1.25 + 200


def test_a_pause_of_the_machine_changes_nothing() -> None:
    controller = PaceController(20_000, 1, MOST_ROWS)
    model, rng = Model(batch_us=100, row_us=0.05), Random(1)
    before = run(controller, model, 100, rng)[-1]
    controller.observe(SlotMeasurements(100, 1_000, 300_000, 0, 300_000))
    assert run(controller, model, 20, rng) == [before] * 20


@pytest.mark.parametrize("idle", [1, 100])
def test_without_rows_nothing_is_decided(idle: int) -> None:
    controller = PaceController(20_000, 1, MOST_ROWS)
    before = controller.pace
    for _ in range(idle):
        assert controller.observe(SlotMeasurements(0, 0, 900_000, 0, 0)) == before


def test_at_low_load_rows_are_buffered_as_long_as_the_objective_allows() -> None:
    controller = PaceController(20_000, 2, MOST_ROWS)
    for _ in range(200):
        pace = controller.observe(SlotMeasurements(500, 2_000, 500, 0, 400))
    # 16 ms to steer for, less 1.4 ms of work, on two exchanges.
    assert 6_000 <= pace.buffer_timeout_us <= 7_300
    assert pace.batch_rows == MOST_ROWS
