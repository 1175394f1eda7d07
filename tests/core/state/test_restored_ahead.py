"""State that is restored ahead, part by part, equals state that is restored at once (UP10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.graph.state import ListState, MapState, TimeToLive, ValueState
from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.kinds import handle_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.memory_tables import MemoryListTable
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TIMERS, MemoryTimers
from rheos.runtimes.simulated.clock import SimClock
from tests.core.state.own_chain import OwnChain
from tests.core.state.test_memory_backend import GROUPS, USERS, declared, written

TTL = TimeToLive("4ms")
USED = TimeToLive("4ms", renewed_on="read_and_write")
KEYS = "abc"

Chains = dict[str, list[pa.Table]]


class Rest(OwnChain):
    """A chain that its subtask continues, of which the first parts are restored already."""

    def __init__(self, tables: list[pa.Table], applied: int) -> None:
        super().__init__(tables)
        self._rest = tables[applied:]

    def __iter__(self) -> Iterator[pa.Table]:
        return iter(self._rest)


class Subtask:
    """Backend with state of each kind and timers, and the chains of its snapshots."""

    def __init__(self) -> None:
        self.states = declared(
            n=ValueState(int, default=0),
            brief=ValueState(int, ttl=TTL),
            log=ListState(int),
            recent=ListState(int, ttl=USED),
            counts=MapState(str, int),
            seen=MapState(str, int, ttl=TTL),
        )
        self.backend = MemoryBackend(USERS, GROUPS, KeyScope(SimClock()))
        timers = self.backend.timers(event_time=True)
        assert isinstance(timers, MemoryTimers)
        self.timers = timers
        self.handles: dict[str, Any] = {
            name: handle_of(state, self.backend) for name, state in self.states.items()
        }
        self.chains: Chains = {name: [] for name in [*self.states, TIMERS]}

    def do(self, step: tuple[str, str, str, int]) -> None:
        """Use the state of a key, or advance event time."""
        what, key, item, n = step
        self.backend.scope.key, of = key, self.handles
        match what:
            case "write":
                of["n"].value = of["brief"].value = n
                of["counts"][item] = of["seen"][item] = n
            case "append":
                of["log"].append(n)
                of["recent"].append(n)
            case "replace":
                of["log"].replace(range(n))
            case "delete" if item in of["counts"]:
                del of["counts"][item]
            case "clear":
                of[["n", "brief", "log", "recent", "counts", "seen"][n]].clear()
            case "read":
                list(of["recent"])
            case "register":
                self.timers.register(n)
            case "unregister":
                self.timers.delete(n)
            case "advance":
                self._advance(self.backend.scope.passed_ms + n if self.advanced else n)
            case _:
                pass

    advanced = False

    def _advance(self, to_ms: int) -> None:
        self.advanced = True
        while self.timers.event.pop(to_ms) is not None:
            pass
        self.timers.event.fired(to_ms)
        self.backend.scope.passed_ms = to_ms
        for sweeper in self.backend.sweepers:
            sweeper.step(1)

    def snapshot(self) -> None:
        for part in self.backend.snapshot().parts:
            if part.mode is PartMode.FULL:
                self.chains[part.state] = []
            self.chains[part.state] += written(part)

    def contents(self) -> dict[str, Any]:
        """Return everything that later calls and snapshots depend on."""
        found: dict[str, Any] = {}
        for name, table in self.backend._tables.items():
            assert table.changes() == 0
            assert table.is_adoptable
            found[name] = table.values  # type: ignore[attr-defined]
            if isinstance(table, MemoryListTable):
                found[name + " places"] = table._written
        for queue in (self.timers.event, self.timers.processing):
            assert queue.changes() == 0
            live = {(at, key) for at, _, key in queue.heap if (at, key) in queue._live}
            assert live == queue._live
            found[f"timers {queue.mark!r}"] = (live, queue.fired_ms)
        return found


class Ahead:
    """A backend that restores checkpoints before its operator is opened."""

    def __init__(self) -> None:
        self.backend = Subtask().backend
        self._applied: Chains = {name: [] for name in self.backend.restored_ahead()}

    def keep_continued(self, chains: Chains) -> None:
        for name, applied in self._applied.items():
            if [*map(id, chains[name][: len(applied)])] != [*map(id, applied)]:
                self.backend.forget_ahead(name)
                self._applied[name] = []

    def catch_up(self, chains: Chains) -> None:
        self.keep_continued(chains)
        for name, applied in self._applied.items():
            self.backend.restore_ahead(name, chains[name][len(applied) :])
            self._applied[name] = list(chains[name])

    def opened(self, chains: Chains) -> Subtask:
        """Return an operator that continues with this state, and reads only the rest."""
        self.keep_continued(chains)
        made = Subtask()
        made.backend.adopt(self.backend)
        made.backend.restore(
            {name: Rest(tables, len(self._applied[name])) for name, tables in chains.items()}
        )
        return made


def restored(chains: Chains) -> Subtask:
    made = Subtask()
    made.backend.restore({name: OwnChain(tables) for name, tables in chains.items()})
    return made


USES = ["write", "append", "replace", "delete", "clear", "read", "register", "unregister", "advance"]
STEPS = st.tuples(
    st.sampled_from([*USES, "snapshot", "catch up"]),
    st.sampled_from(KEYS),
    st.sampled_from("xy"),
    st.integers(0, 5),
)


@given(st.lists(STEPS, max_size=60), st.lists(STEPS, max_size=10))
@settings(deadline=None)
def test_state_restored_ahead_and_the_difference_equal_the_whole(
    steps: list[tuple[str, str, str, int]], later: list[tuple[str, str, str, int]]
) -> None:
    old, ahead = Subtask(), Ahead()
    for key in KEYS * 3:  # So that the first parts are long, and deltas follow.
        for what in ("write", "append", "register"):
            old.do((what, key, "x", 9))
    old.snapshot()
    for step in steps:
        if step[0] == "snapshot":
            old.snapshot()
        elif step[0] == "catch up":
            ahead.catch_up(old.chains)
        else:
            old.do(step)
    old.snapshot()
    both = ahead.opened(old.chains), restored(old.chains)
    assert both[0].contents() == both[1].contents()
    # The next checkpoint adds the same changes to the chain.
    for task in both:
        task.chains = {name: list(tables) for name, tables in old.chains.items()}
        for step in later:
            task.do(step)
        task.snapshot()
    again = [restored(task.chains).contents() for task in both]
    assert again[0] == again[1]


@pytest.mark.parametrize("is_fired_again", [False, True])
def test_a_watermark_stored_with_a_deleted_timer_does_not_count(is_fired_again: bool) -> None:
    """The rows of overdue timers contain the watermark; a full restore reads only what is left."""
    old, ahead = Subtask(), Ahead()
    old.backend.scope.key = "a"
    for time_ms in range(100, 110):
        old.timers.register(time_ms)
    old.timers.event.fired(10)
    old.timers.register(5)
    old.snapshot()
    ahead.catch_up(old.chains)
    old.timers.delete(5)
    if is_fired_again:
        old.timers.event.fired(20)
        old.timers.register(7)
    old.snapshot()
    new = ahead.opened(old.chains)
    assert new.contents() == restored(old.chains).contents()
    assert (new.timers.event.fired_ms == 20) == is_fired_again
