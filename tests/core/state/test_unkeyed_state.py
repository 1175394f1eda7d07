"""State without a key: through checkpoints, other parallelisms and changed programs, and as rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import restored_state
from rheos.core.checkpoint.savepoint import Savepoint
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.errors import SchemaError, StateAccessError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import Snapshot
from rheos.core.state import format as state_format
from rheos.core.state.unkeyed_state import UnkeyedStates, unkeyed_shapes
from rheos.ops.savepoints.encoding import writable_layout
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.savepoints.task_frames import reads
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.store import MemoryStore

OPERATOR = OperatorId("op")


@dataclass
class Rule:
    name: str
    users: list[int]


class Function(rh.BroadcastProcessFunction):
    rules: Any = rh.BroadcastState(str, Rule)
    own: Any = rh.OperatorListState(int)
    all: Any = rh.OperatorUnionState(str)


@dataclass
class Job:
    """Subtasks of a function, and the store of their checkpoints."""

    parallelism: int
    store: MemoryStore = field(default_factory=MemoryStore)
    entry: CheckpointCompleted | None = None
    attempt: int = 0

    def __post_init__(self) -> None:
        self.start(self.parallelism)

    def start(self, parallelism: int) -> None:
        self.parallelism, self.attempt = parallelism, self.attempt + 1
        self.functions: list[Any] = []
        self.states: list[UnkeyedStates] = []
        for subtask in range(parallelism):
            function = Function()
            states = UnkeyedStates(function)
            if self.entry is not None:
                of = restored_state(self.entry, subtask, parallelism, self.store, state_format.decode)
                states.restore(of.get(OPERATOR, {}))
            self.functions.append(function)
            self.states.append(states)

    def checkpoint(self) -> CheckpointCompleted:
        handles = []
        number = CheckpointId(self.attempt)
        for subtask, states in enumerate(self.states):
            encode = state_format.encode
            attempt = Attempt(self.attempt)
            io = InlineIo()
            writer = SnapshotWriter(JobId("job"), attempt, subtask, self.store, io, encode)
            snapshot = Snapshot(states.parts())
            # What is written is what was there at the barrier.
            self.broadcast(states, Rule("later", [9]))
            handles += writer.begin(number, [(OPERATOR, snapshot)]).handles()
        self.entry = CheckpointCompleted(
            attempt=Attempt(self.attempt),
            owner="test",
            reserved_to=number,
            checkpoint=number,
            final=False,
            parallelism=self.parallelism,
            max_parallelism=16,
            operators={OPERATOR: "op"},
            handles=handles,
            committables=[],
            states={OPERATOR: unkeyed_shapes(Function())},
        )
        return self.entry

    def broadcast(self, states: UnkeyedStates, rule: Rule) -> None:
        function = self.functions[self.states.index(states)]
        states.set_writable(True)
        function.rules[rule.name] = rule
        states.set_writable(False)


def filled() -> Job:
    job = Job(2)
    for states in job.states:
        job.broadcast(states, Rule("a", [1, 2]))
        job.broadcast(states, Rule("b", []))
    job.functions[0].own.extend([1, 2, 3, 4, 5])
    job.functions[1].own.append(6)
    job.functions[0].all.append("x")
    job.functions[1].all.append("y")
    return job


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_each_kind_is_restored_at_any_parallelism(parallelism: int) -> None:
    job = filled()
    job.checkpoint()
    job.start(parallelism)
    own = [list(function.own) for function in job.functions]
    assert sorted(element for elements in own for element in elements) == [1, 2, 3, 4, 5, 6]
    if parallelism == 2:
        assert own == [[1, 2, 3, 4, 5], [6]], "where nothing changes, everybody keeps his"
    else:
        assert max(map(len, own)) - min(map(len, own)) <= 1, "dealt out one by one"
    for function in job.functions:
        assert sorted(function.all) == ["x", "y"]
        assert function.rules == {"a": Rule("a", [1, 2]), "b": Rule("b", [])}


def test_lists_behave_like_lists() -> None:
    own = filled().functions[0].own
    assert (len(own), 3 in own) == (5, True)
    own.replace(value for value in own if value > 3)
    assert list(own) == [4, 5]
    own.clear()
    assert not len(own)
    with pytest.raises(StateAccessError, match="is declared as int, but was assigned str"):
        own.append("a text")


def test_broadcast_state_cannot_be_written_elsewhere() -> None:
    rules = filled().functions[0].rules
    rule = Rule("z", [])
    for write in (
        lambda: rules.__setitem__("z", rule),
        lambda: rules.__delitem__("a"),
        lambda: rules.update(z=rule),
        lambda: rules.__ior__({"z": rule}),
        lambda: rules.setdefault("z", rule),
        lambda: rules.pop("a"),
        rules.popitem,
        rules.clear,
    ):
        with pytest.raises(StateAccessError, match="broadcast state 'rules' was written where it is"):
            write()
    assert rules.setdefault("a", rule) == Rule("a", [1, 2]), "that is there, and is only read"
    assert sorted(rules) == ["a", "b"]


def test_a_declaration_is_usable_only_in_a_running_function() -> None:
    with pytest.raises(StateAccessError, match="outside a running function"):
        Function().own.append(1)


def test_a_type_that_cannot_be_stored_is_refused() -> None:
    class Wrong(rh.ProcessFunction):
        own = rh.OperatorListState(MemoryStore)

    with pytest.raises(SchemaError, match="'own' is MemoryStore, which cannot be stored"):
        unkeyed_shapes(Wrong())


def test_a_changed_program_is_compared_with_stored_state() -> None:
    class Changed(rh.BroadcastProcessFunction):
        rules = rh.BroadcastState(int, Rule)
        own = rh.OperatorListState(float)
        all = rh.OperatorListState(str)

    shapes = {OPERATOR: unkeyed_shapes(Function())}
    same = compare(shapes, shapes, {})
    assert [finding.verdict for finding in same] == [Verdict.SAME] * 3
    found = compare(shapes, {OPERATOR: unkeyed_shapes(Changed())}, {})
    assert {finding.state: finding.verdict for finding in found} == {
        "rules": Verdict.UNREADABLE,
        "own": Verdict.MIGRATES,
        "all": Verdict.UNREADABLE,
    }


def test_unkeyed_state_is_shown_as_rows() -> None:
    entry = filled().checkpoint()
    shapes = entry.states[OPERATOR]
    savepoint = Savepoint(id="s", job="job", name="job", version="", taken_ms=0, entry=entry)
    shown = {}
    for state in shapes:
        task = reads("folder", savepoint, OPERATOR, state)
        parts = [state_format.decode(handle.inline, None) for share in task.shares for handle in share]
        layout = layout_of(state, shapes)
        shown[state] = pa.concat_tables(layout.rows(part) for part in parts).to_pylist()
        with pytest.raises(SchemaError, match="cannot be written from rows"):
            writable_layout(state, shapes)
    assert shown == {
        "rules": [
            {"map_key": "a", "value": {"name": "a", "users": [1, 2]}},
            {"map_key": "b", "value": {"name": "b", "users": []}},
        ],
        "own": [{"value": value} for value in (1, 2, 3, 4, 5, 6)],
        "all": [{"value": "x"}, {"value": "y"}],
    }
