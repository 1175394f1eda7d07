"""Keyed state in every backend: the same uses have the same results, wherever a job is paused and
moved."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rheos.core.graph.state import ListState, MapState, ValueState
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from tests.core.state.keyed_jobs import MEMORY, ROCKSDB, Job, declared


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)
    total: float = 0.0


@pytest.fixture(params=[MEMORY, ROCKSDB])
def backend(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


BACKENDS = st.sampled_from([MEMORY, ROCKSDB])
KEYS = [f"user {i}" for i in range(6)]
NUMBERS = st.integers(0, 3)
TIMES = st.integers(0, 30)


class Against(RuleBasedStateMachine):
    """Compare any sequence of uses and pauses with dicts. The backend on disk has memory for a few
    entries."""

    keys = st.sampled_from(KEYS)
    items = st.sampled_from(["x", "y", "z"])

    @initialize(backend=BACKENDS, parallelism=st.integers(1, 3))
    def begin(self, backend: str, parallelism: int) -> None:
        self.folder = tempfile.mkdtemp()
        states = declared(
            n=ValueState(int, default=0),
            cart=ValueState(Cart, default=Cart()),
            log=ListState(int),
            carts=ListState(Cart),
            counts=MapState(str, int),
            by_name=MapState(str, Cart),
        )
        self.job = Job(Path(self.folder), states, backend, parallelism, memory_bytes=6 * 1024)
        self.model: dict[str, dict[str, Any]] = {
            key: {"n": 0, "cart": Cart(), "log": [], "carts": [], "counts": {}, "by_name": {}}
            for key in KEYS
        }
        self.timers: set[tuple[int, str]] = set()
        self.watermark = MIN_TIMESTAMP_MS

    def teardown(self) -> None:
        if hasattr(self, "job"):
            self.job.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- uses -------------------------------------------------------------------------------------

    @rule(key=keys, n=NUMBERS)
    def set_value(self, key: str, n: int) -> None:
        self.job[key].n.value = self.model[key]["n"] = n

    @rule(key=keys)
    def clear_value(self, key: str) -> None:
        self.job[key].n.clear()
        self.model[key]["n"] = 0

    @rule(key=keys, n=NUMBERS)
    def change_in_place(self, key: str, n: int) -> None:
        self.job[key].cart.value.items.append(str(n))
        self.model[key]["cart"].items.append(str(n))

    @rule(key=keys, n=NUMBERS)
    def append(self, key: str, n: int) -> None:
        here = self.job[key]
        here.log.append(n)
        here.carts.append(Cart(total=float(n)))
        self.model[key]["log"].append(n)
        self.model[key]["carts"].append(Cart(total=float(n)))

    @rule(key=keys, numbers=st.lists(NUMBERS, max_size=3))
    def replace(self, key: str, numbers: list[int]) -> None:
        self.job[key].log.replace(numbers)
        self.model[key]["log"] = list(numbers)

    @rule(key=keys)
    def clear_list(self, key: str) -> None:
        self.job[key].log.clear()
        self.model[key]["log"] = []

    @rule(key=keys)
    def change_elements(self, key: str) -> None:
        for cart in [*self.job[key].carts, *self.model[key]["carts"]]:
            cart.total += 1

    @rule(key=keys, item=items, n=NUMBERS)
    def put(self, key: str, item: str, n: int) -> None:
        here = self.job[key]
        here.counts[item] = self.model[key]["counts"][item] = n
        here.by_name[item] = Cart(total=float(n))
        self.model[key]["by_name"][item] = Cart(total=float(n))

    @rule(key=keys, item=items)
    def remove(self, key: str, item: str) -> None:
        if item in self.model[key]["counts"]:
            del self.job[key].counts[item], self.model[key]["counts"][item]
        else:
            with pytest.raises(KeyError):
                del self.job[key].counts[item]

    @rule(key=keys)
    def clear_map(self, key: str) -> None:
        self.job[key].counts.clear()
        self.model[key]["counts"] = {}

    @rule(key=keys, item=items)
    def change_entry(self, key: str, item: str) -> None:
        if item in self.model[key]["by_name"]:
            self.job[key].by_name[item].total += 1
            self.model[key]["by_name"][item].total += 1

    @rule(key=keys)
    def change_all_entries(self, key: str) -> None:
        for cart in [*self.job[key].by_name.values(), *self.model[key]["by_name"].values()]:
            cart.total += 1

    @rule(key=keys, time=TIMES, stands=st.booleans())
    def set_timer(self, key: str, time: int, stands: bool) -> None:
        timers = self.job[key].timers
        # A row is delivered once the timers up to the watermark before it have fired.
        timers.event.fired(self.watermark)
        if stands:
            timers.register(time)
            self.timers.add((time, key))
        else:
            timers.delete(time)
            self.timers.discard((time, key))

    @rule(time=TIMES)
    def fire(self, time: int) -> None:
        """Overdue timers wait until the watermark advances, whatever restarts come between."""
        if time <= self.watermark:
            assert all(task.timers.event.pop(time) is None for task in self.job.subtasks)
            return
        self.watermark = time
        for task in self.job.subtasks:
            fired = []
            while (timer := task.timers.event.pop(time)) is not None:
                fired.append(timer)
            assert fired == sorted(fired)
            assert self.timers.issuperset(fired)
            self.timers.difference_update(fired)
            task.timers.event.fired(time)
        assert all(at > time for at, _ in self.timers)

    # --- pauses -----------------------------------------------------------------------------------

    @rule()
    def checkpoint(self) -> None:
        self.job.checkpoint()

    @rule()
    def lose_a_snapshot(self) -> None:
        self.job.lose_a_snapshot()

    @rule(parallelism=st.integers(1, 3), backend=BACKENDS, by_savepoint=st.booleans())
    def move(self, parallelism: int, backend: str, by_savepoint: bool) -> None:
        self.job.move(parallelism, backend, by_savepoint=by_savepoint)

    @rule(parallelism=st.integers(1, 3), backend=BACKENDS)
    def fork(self, parallelism: int, backend: str) -> None:
        """A savepoint holds all of it, and changes nothing."""
        written = self.job.savepoint()
        folder = Path(self.folder, f"fork of {self.job.attempt}-{self.job.checkpoints}")
        fork = Job(folder, self.job.states, backend, parallelism)
        fork.start(written)
        for key in KEYS:
            self._same(fork, key)
        fork.close()
        shutil.rmtree(folder, ignore_errors=True)

    @invariant()
    def the_next_timer_is_known(self) -> None:
        if hasattr(self, "job"):
            times = [task.timers.event.next_ms() for task in self.job.subtasks]
            found = min((time for time in times if time is not None), default=None)
            assert found == min((time for time, _ in self.timers), default=None)

    @rule(key=keys)
    def look(self, key: str) -> None:
        self._same(self.job, key)

    def _same(self, job: Job, key: str) -> None:
        here, expected = job[key], self.model[key]
        assert here.n.value == expected["n"]
        assert here.cart.value == expected["cart"]
        assert (list(here.log), len(here.log)) == (expected["log"], len(expected["log"]))
        assert list(here.carts) == expected["carts"]
        for item in ("x", "y", "z"):
            assert here.counts.get(item) == expected["counts"].get(item)
            assert (item in here.by_name) == (item in expected["by_name"])
        for state in ("counts", "by_name"):
            found = getattr(here, state)
            assert dict(found.items()) == expected[state]
            assert len(found) == len(expected[state])
            assert set(found) == set(expected[state])


TestAgainst = Against.TestCase
TestAgainst.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
