"""Timers: order, duplicates, deletion, snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import StateAccessError
from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.keys import KeyCodec
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TIMERS, MemoryTimers, TimerService
from rheos.runtimes.simulated.clock import SimClock
from tests.core.state.own_chain import OwnChain

KEYS = KeyCodec(pa.schema([("user", pa.string())]), ("user",))


class Timers(MemoryTimers):
    def __init__(self, **options: Any) -> None:
        self.scope = KeyScope(SimClock())
        super().__init__(KEYS, 16, self.scope, **options)
        self.chain: list[pa.Table] = []
        self.modes: list[PartMode] = []

    def at(self, key: str) -> TimerService:
        self.scope.key = key
        return self

    def take(self) -> int:
        part = self.snapshot()
        if part.mode is PartMode.FULL:
            self.chain = []
        self.chain.append(part.write())
        self.modes.append(part.mode)
        return int(self.chain[-1].num_rows)

    def restored(self, *, continues: bool = False) -> Timers:
        """Return the restored timers, which may continue the chain."""
        other = Timers()
        other.restore({TIMERS: OwnChain(self.chain) if continues else self.chain})
        other.chain = list(self.chain) if continues else []
        return other

    def due(self, until: int) -> list[tuple[int, str]]:
        found = []
        while (timer := self.event.pop(until)) is not None:
            found.append(timer)
        return found


def test_timers_fire_by_time_then_key_and_once() -> None:
    timers = Timers()
    for key, time in (("b", 5), ("a", 5), ("a", 5), ("c", 3), ("a", 9), ("d", -4)):
        timers.at(key).register(time)
    timers.at("x").register_processing(1)
    assert timers.event.next_ms() == -4
    assert timers.due(5) == [(-4, "d"), (3, "c"), (5, "a"), (5, "b")]
    assert timers.due(8) == []
    assert timers.due(9) == [(9, "a")]
    assert timers.event.next_ms() is None
    assert timers.processing.next_ms() == 1


def test_deleted_timers_do_not_fire() -> None:
    timers = Timers()
    timers.at("a").register(1)
    timers.at("b").register(1)
    timers.at("a").delete(1)
    timers.at("a").delete(77)
    assert timers.due(5) == [(1, "b")]
    timers.at("a").register(1)
    timers.at("a").delete(1)
    timers.at("a").register(1)
    assert timers.due(5) == [(1, "a")]


def test_timers_that_are_moved_repeatedly_use_no_more_memory() -> None:
    """Check timers like those of sessions: the deleted ones are far ahead, and would be reached
    late."""
    timers = Timers()
    for time in range(1_000, 20_000):
        for user in ("a", "b"):
            timers.at(user).delete(time - 1)
            timers.at(user).register(time)
            timers.at(user).register(time)
        timers.at("c").delete(50_000)
        timers.at("c").register(50_000)
    assert len(timers.event.heap) < 5_000
    assert timers.due(60_000) == [(19_999, "a"), (19_999, "b"), (50_000, "c")]


def test_a_part_contains_changes() -> None:
    timers = Timers()
    for i in range(10):
        timers.at(f"user {i}").register(i)
        timers.at(f"user {i}").register_processing(i)
    assert timers.take() == 20
    assert timers.take() == 0
    timers.at("user 3").register(50)
    timers.at("user 4").register(60)
    timers.at("user 4").delete(60)
    timers.at("user 5").delete(5)
    timers.at("user 5").register(5)
    timers.at("user 6").register(6)
    assert timers.due(1) == [(0, "user 0"), (1, "user 1")]
    timers.at("user 9").delete_processing(9)
    assert timers.take() == 4
    assert timers.modes == [PartMode.FULL, PartMode.DELTA, PartMode.DELTA]
    other = timers.restored()
    assert len(other.processing) == 9
    assert (
        other.due(100) == timers.due(100) == [(i, f"user {i}") for i in range(2, 10)] + [(50, "user 3")]
    )
    timers.force_full()
    timers.processing.clear()
    timers.take()
    assert timers.modes[-1] is PartMode.FULL
    assert len(timers.restored().processing) == 0


def test_a_savepoint_has_all_timers_and_is_not_part_of_the_chain() -> None:
    timers = Timers()
    for i in range(10):
        timers.at(f"user {i}").register(i)
    timers.take()
    timers.at("a").register_processing(5)
    assert timers.due(0) == [(0, "user 0")]
    part = timers.savepoint()
    timers.at("b").register(3)
    assert part.mode is PartMode.FULL
    table = part.write()
    assert table.num_rows == 10
    other = Timers()
    other.restore({TIMERS: [table]})
    assert (len(other.event), len(other.processing)) == (9, 1)
    assert timers.take() == 3
    assert timers.modes == [PartMode.FULL, PartMode.DELTA]


def test_rows_are_sorted_by_group_key_and_time() -> None:
    timers = Timers()
    for key in "abc":
        for time in (300, 2, 70_000):
            timers.at(key).register(time)
    timers.take()
    rows = [tuple(row.values())[:3] for row in timers.chain[0].to_pylist()]
    assert rows == sorted(rows)


def test_wrong_uses_are_refused() -> None:
    timers = Timers()
    with pytest.raises(StateAccessError, match="outside a keyed context"):
        timers.register(5)
    with pytest.raises(TypeError, match=r"a timer must be set to an int, in milliseconds since the"):
        timers.at("a").register(1.5)  # type: ignore[arg-type]
    timers.at("a").register(np.int64(5))  # type: ignore[arg-type]
    assert timers.due(5) == [(5, "a")]
    timers = Timers(event_time=False)
    timers.at("a").register_processing(5)
    with pytest.raises(StateAccessError, match="no event time"):
        timers.at("a").register(5)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["register", "delete", "due", "take", "lost", "restore", "continue"]),
            st.sampled_from(["a", "b"]),
            st.integers(0, 5),
        )
    )
)
def test_any_sequence_of_operations_agrees_with_a_set(steps: list[tuple[str, str, int]]) -> None:
    timers, model = Timers(), set[tuple[int, str]]()
    for step, key, time in steps:
        if step == "register":
            timers.at(key).register(time)
            model.add((time, key))
        elif step == "delete":
            timers.at(key).delete(time)
            model.discard((time, key))
        elif step == "due":
            due = sorted(timer for timer in model if timer[0] <= time)
            assert timers.due(time) == due
            model.difference_update(due)
        elif step == "take":
            timers.take()
        elif step == "lost":
            timers.snapshot()
            timers.force_full()
        else:
            timers.take()
            timers = timers.restored(continues=step == "continue")
        assert len(timers.event) == len(model)
    timers.take()
    assert timers.restored().due(9) == sorted(model)


def test_a_restored_chain_is_continued_with_changes() -> None:
    timers = Timers()
    for time in range(10):
        timers.at("a").register(time)
    timers.take()
    other = timers.restored(continues=True)
    assert other.take() == 0
    other.at("b").register(3)
    other.at("a").delete(5)
    assert other.take() == 2
    assert other.modes == [PartMode.DELTA, PartMode.DELTA]
    assert len(other.restored().event) == 10


def test_an_overdue_timer_waits_for_the_next_watermark() -> None:
    timers = Timers()
    timers.at("a").register(20)
    timers.event.fired(10)
    timers.at("b").register(5)
    assert timers.due(10) == []
    timers.take()
    timers.at("c").register(10)
    timers.take()
    for each in (timers, timers.restored()):
        assert each.due(9) == each.due(10) == []
        assert each.due(11) == [(5, "b"), (10, "c")]
        each.event.fired(11)
        assert each.due(20) == [(20, "a")]


def test_a_timer_that_is_set_again_after_it_fired_is_stored_as_overdue() -> None:
    timers = Timers()
    for time in range(100, 110):
        timers.at("z").register(time)
    timers.at("a").register(5)
    timers.take()
    assert timers.due(10) == [(5, "a")]
    timers.event.fired(10)
    timers.at("a").register(5)
    assert timers.take() == 1
    for each in (timers, timers.restored()):
        assert each.due(10) == []
        assert each.due(11) == [(5, "a")]
    # One that is deleted after all is not written again.
    timers.at("a").register(5)
    timers.at("a").delete(5)
    assert timers.take() == 1
    assert len(timers.restored().event) == 10
