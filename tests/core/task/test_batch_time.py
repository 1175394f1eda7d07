"""The size of batches by the cost of their rows, for slots with random costs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from random import Random
from statistics import median

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.generator import generator
from rheos.core.metrics import declarations as f
from rheos.core.protocol.ports import ThreadTime
from rheos.core.task.batch_cost import IntakeCounts
from rheos.core.task.batch_time import BatchTime
from rheos.core.task.config import TaskConfig
from rheos.core.task.core_waits import CoreWaits
from rheos.core.task.pace import OBSERVE_EVERY_US
from rheos.runtimes.simulated.clock import SimClock

from .cluster import Cluster, planned

MOST_ROWS = 16_384
BATCH_US = 16_000


class Slot:
    """Slot at full load, whose one chain processes batches of the maximum size."""

    def __init__(self, batch_us: float, row_us: float, controller: BatchTime | None = None) -> None:
        self.batch_us, self.row_us = batch_us, row_us
        self.controller = controller or BatchTime(1, MOST_ROWS, 2)
        self.taken = IntakeCounts(0, 0, 0)

    def run(
        self, intervals: int = 1, share: float = 1.0, slower: float = 1.0, worked: float = 1.0
    ) -> int:
        """Run the slot. `share` of the rows of a full batch may arrive at once; `worked` is the share
        of time in which the slot did not wait for a core."""
        for _ in range(intervals):
            rows = max(int(self.controller.rows * share), 1)
            one_us = (self.batch_us + self.row_us * rows) * slower
            batches = max(int(OBSERVE_EVERY_US // one_us), 1)
            more = IntakeCounts(batches * rows, batches, int(batches * one_us))
            self.taken = IntakeCounts(*map(sum, zip(self.taken, more, strict=True)))
            self.controller.observe([self.taken], worked)
        return self.controller.rows


@pytest.mark.parametrize("row_us", [0.1, 5, 400])
def test_waiting_for_a_core_does_not_change_the_batch_size(row_us: float) -> None:
    assert Slot(0, row_us).run(100, slower=16, worked=1 / 16) == Slot(0, row_us).run(100)


class Thread:
    """Works for 50 ms between two observations, of which it has a processor for a part."""

    def __init__(self, ran_us: int, queued_us: int) -> None:
        self._each = ran_us, queued_us
        self._had = ThreadTime(0, 0)

    def __call__(self) -> ThreadTime:
        self._had = ThreadTime(*map(sum, zip(self._had, self._each, strict=True)))
        return self._had


@pytest.mark.parametrize(
    ("ran_us", "queued_us", "found"),
    [
        (50_000, 0, 1.0),
        (5_000, 45_000, 0.1),
        (5_000, 60_000, 0.1),  # It waited for its turn before it had anything to do, too.
        (1_000, 0, 1.0),  # It asked a server.
    ],
)
def test_waiting_for_a_core_does_not_count_as_work(ran_us: int, queued_us: int, found: float) -> None:
    waits = CoreWaits(Thread(ran_us, queued_us))
    assert [waits.worked_share(50_000 * looks) for looks in (1, 2)] == pytest.approx([found, found])


COSTS = st.floats(0.01, 5_000)
PRICES = st.floats(0, 500)


@given(PRICES, COSTS)
def test_the_time_of_a_batch_is_close_to_its_limit(batch_us: float, row_us: float) -> None:
    slot = Slot(batch_us, row_us)
    rows = slot.run(100)
    assert rows == 1 or batch_us + rows * row_us <= BATCH_US + 1
    # Twice the size would take too long: by what rows cost in batches of the size that holds.
    cost_us = row_us + batch_us / rows
    assert rows == MOST_ROWS or 2 * rows * cost_us >= 0.8 * BATCH_US - 1
    assert {slot.run() for _ in range(50)} == {rows}, "BT3"


@given(st.floats(0, 200_000), COSTS)
def test_a_fixed_cost_does_not_make_batches_small(batch_us: float, row_us: float) -> None:
    rows = Slot(batch_us, row_us).run(200)
    most_us = max(BATCH_US - batch_us, 2 * batch_us)
    assert rows == 1 or rows * row_us <= most_us * 1.01
    assert rows == MOST_ROWS or 2 * rows * row_us >= 0.79 * most_us - 10


def test_a_fixed_cost_that_grows_is_noticed() -> None:
    slot = Slot(100, 1.0)
    rows = slot.run(100)
    for _ in range(40):
        slot.batch_us += 1_000
        slot.run(25)
    assert rows == 8_192
    assert slot.run(100) == MOST_ROWS


@pytest.mark.parametrize("seed", range(5))
def test_pauses_do_not_hide_the_fixed_cost(seed: int) -> None:
    pauses = Random(seed)
    slot = Slot(20_000, 1.0)
    sizes = [slot.run(slower=1 + pauses.expovariate(1.0)) for _ in range(400)]
    assert median(sizes[100:]) >= 8_192


def test_a_chain_behind_a_filter_does_not_hold_the_size() -> None:
    controller = BatchTime(2, MOST_ROWS, 2)
    first, second = IntakeCounts(0, 0, 0), IntakeCounts(0, 0, 0)
    for _ in range(100):
        rows, kept = controller.rows, controller.rows // 15
        first = IntakeCounts(first.rows + rows, first.batches + 1, first.busy_us + rows // 5)
        second = IntakeCounts(second.rows + kept, second.batches + 1, second.busy_us + 300 + 2 * kept)
        controller.observe([first, second])
    assert controller.rows == MOST_ROWS, "Its batches take 2.5 ms."


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 10**4), st.integers(0, 10**7))))
def test_steps_of_the_controller_are_always_bounded(steps: list[tuple[int, int, int]]) -> None:
    controller = BatchTime(1, MOST_ROWS, 2)
    for taken in accumulate(steps, lambda a, b: tuple(map(sum, zip(a, b, strict=True)))):
        was = controller.rows
        assert 1 <= controller.observe([IntakeCounts(*taken)]) <= min(2 * was, MOST_ROWS)


@given(COSTS, COSTS)
def test_the_batch_size_adapts_to_other_rows(before_us: float, after_us: float) -> None:
    slot = Slot(100, before_us)
    slot.run(100)
    slot.row_us = after_us
    rows = slot.run(100)
    assert rows == 1 or 100 + rows * after_us <= BATCH_US + 1


def test_the_most_expensive_chain_decides() -> None:
    controller = BatchTime(3, MOST_ROWS, 2)
    for n in range(1, 100):
        rows = controller.observe(
            [
                IntakeCounts(0, 0, 0),
                IntakeCounts(n * 9_000, n, n * 900),
                IntakeCounts(n * 900, n, n * 2700),
            ]
        )
    assert rows == 4_096  # Of 3 us each.


def test_a_short_lack_of_a_core_does_not_change_the_batch_size() -> None:
    slot = Slot(100, 1.0)
    rows = slot.run(100)
    assert {slot.run(slower=4.0) for _ in range(19)} == {rows}
    assert slot.run(5, slower=4.0) < rows, "and what lasts does"


@pytest.mark.parametrize("row_us", [0.1, 2.0, 100.0])
def test_small_batches_are_ignored(row_us: float) -> None:
    slot = Slot(300, row_us)
    rows = slot.run(100)
    assert slot.run(100, share=1 / 20) == rows
    assert Slot(300, row_us).run(100, share=1 / 20) == 1_024, "as it begins"


def test_pieces_stay_large_enough_with_many_subtasks() -> None:
    few, many = BatchTime(1, MOST_ROWS, 2), BatchTime(1, MOST_ROWS, 64)
    assert Slot(0, 2.0, few).run(100) == 4_096
    assert Slot(0, 2.0, many).run(100) == 8_192


# --- in a slot ------------------------------------------------------------------------------------

CLOCK = SimClock()
ROW_US = 100
SEEN: list[int] = []


def slowly(batch: pa.RecordBatch) -> pa.RecordBatch:
    SEEN.append(batch.num_rows)
    CLOCK.advance(batch.num_rows * ROW_US)
    return batch


def test_a_slow_function_gets_small_batches_and_all_rows() -> None:
    def build(env: Environment) -> Mapping[str, DataStream]:
        rows = env.from_source(generator(lambda block: {"i": block.index()}, count=60_000, splits=1))
        return {"out": rows.map_batches(slowly, form="arrow", returns=pa.schema([("i", pa.int64())]))}

    SEEN.clear()
    cluster = Cluster(planned(build), TaskConfig(), parallelism=1, clock=CLOCK)
    cluster.run_until(lambda: cluster.is_drained)
    assert sum(SEEN) == 60_000
    assert SEEN[0] == 1_024
    assert max(SEEN[1:]) * ROW_US <= BATCH_US
    readings = {each.metric: each.value for each in cluster.slots[0].engine._pacing.readings()}
    assert readings[f.CHOSEN_ROWS.name] == 128
    cluster.close()
