"""The memory backend compared with dicts: reads, writes, snapshots, restores."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rheos.core.errors import SchemaError, StateAccessError
from rheos.core.graph.state import ListState, MapState, StateDeclaration, ValueState
from rheos.core.protocol.snapshots import MAX_DELTAS, PartMode, SnapshotPart
from rheos.core.state.format import decode, encode
from rheos.core.state.key_groups import key_groups
from rheos.core.state.keys import KeyCodec
from rheos.core.state.kinds import handle_of
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.scope import KeyScope
from rheos.runtimes.simulated.clock import SimClock
from tests.core.state.own_chain import OwnChain

GROUPS = 16
USERS = KeyCodec(pa.schema([("user", pa.string())]), ("user",))


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)
    total: float = 0.0


@dataclass(frozen=True)
class Seen:
    at: int
    mood: Mood | None = None


def declared(**states: StateDeclaration) -> dict[str, StateDeclaration]:
    for name, state in states.items():
        state.name = name
    return states


def written(part: SnapshotPart) -> list[pa.Table]:
    made = part.write()
    return [made] if isinstance(made, pa.Table) else list(made)


class Subtask:
    """Backend with its handles, and the chain of tables that its snapshots form."""

    def __init__(self, states: dict[str, StateDeclaration], keys: KeyCodec = USERS) -> None:
        self.states = states
        self.keys = keys
        self.backend = MemoryBackend(keys, GROUPS, KeyScope(SimClock()))
        self.handles = {name: handle_of(state, self.backend) for name, state in states.items()}
        self.chains: dict[str, list[pa.Table]] = {name: [] for name in states}
        self.modes: dict[str, list[PartMode]] = {name: [] for name in states}

    def __getitem__(self, key: Any) -> Any:
        """Return the handles, set to the key."""
        self.backend.scope.key = key
        return type("Handles", (), self.handles)

    def snapshot(self) -> None:
        for part in self.backend.snapshot().parts:
            if part.mode is PartMode.FULL:
                self.chains[part.state] = []
            for table in written(part):
                self.chains[part.state].append(decode(encode(table, part.kind, part.mode), None))
            self.modes[part.state].append(part.mode)

    def restored(self, *, continues: bool = False) -> Subtask:
        """Return a subtask with the state of the chains, which it may continue."""
        other = Subtask(self.states, self.keys)
        if not continues:
            other.backend.restore(self.chains)
            return other
        other.backend.restore({name: OwnChain(tables) for name, tables in self.chains.items()})
        other.chains = {name: list(tables) for name, tables in self.chains.items()}
        return other

    @property
    def rows(self) -> dict[str, int]:
        """Return the number of rows in the last part of each state."""
        return {name: chain[-1].num_rows for name, chain in self.chains.items()}


def test_a_value_is_the_default_until_it_is_written() -> None:
    task = Subtask(declared(n=ValueState(int, default=7), seen=ValueState(Seen)))
    assert (task["a"].n.value, task["a"].seen.value) == (7, None)
    task["a"].n.value = 8
    task["b"].seen.value = Seen(1, Mood.BAD)
    assert (task["a"].n.value, task["b"].n.value, task["b"].seen.value) == (8, 7, Seen(1, Mood.BAD))
    task["a"].n.clear()
    assert task["a"].n.value == 7
    task["b"].seen.value = None
    assert task["b"].seen.value is None


def test_a_mutable_default_is_copied_and_a_change_in_place_is_kept() -> None:
    task = Subtask(declared(cart=ValueState(Cart, default=Cart())))
    task["a"].cart.value.items.append("tea")
    assert task["b"].cart.value == Cart()
    task.snapshot()
    task["a"].cart.value.items.append("milk")
    task.snapshot()
    assert task.restored()["a"].cart.value == Cart(["tea", "milk"])


def test_lists_are_kept() -> None:
    task = Subtask(declared(names=ListState(str)))
    names = task["a"].names
    assert list(names) == []
    names.append("x")
    names.extend(["y", "z"])
    assert (list(names), len(names), len(task["b"].names)) == (["x", "y", "z"], 3, 0)
    names = task["a"].names
    for name in names:
        names.append(name)
    names.replace(["q"])
    assert list(names) == ["q"]
    names.replace([])
    assert not list(names)
    names.clear()


def test_maps_are_kept() -> None:
    task = Subtask(declared(counts=MapState(str, int)))
    counts = task["a"].counts
    with pytest.raises(KeyError):
        counts["x"]
    with pytest.raises(KeyError):
        del counts["x"]
    assert (counts.get("x"), counts.get("x", 3), "x" in counts, len(counts)) == (None, 3, False, 0)
    counts["x"] = 1
    counts["y"] = 2
    assert counts.items() == (("x", 1), ("y", 2))
    assert (list(counts), counts.keys(), counts.values()) == (["x", "y"], ("x", "y"), (1, 2))
    del counts["x"]
    with pytest.raises(KeyError):
        del counts["x"]
    assert counts.items() == (("y", 2),)
    assert task["b"].counts.items() == ()
    task["a"].counts.clear()
    assert task["a"].counts.items() == ()


def test_a_part_contains_changes() -> None:
    task = Subtask(declared(n=ValueState(int), names=ListState(str), counts=MapState(str, int)))
    for i in range(100):
        here = task[f"user {i}"]
        here.n.value = i
        here.names.extend("abc")
        here.counts["x"] = here.counts["y"] = i
    task.snapshot()
    assert task.rows == {"n": 100, "names": 100, "counts": 200}
    task.snapshot()
    assert task.rows == {"n": 0, "names": 0, "counts": 0}
    here = task["user 3"]
    here.n.value = 5
    here.names.append("d")
    here.counts["x"] = 9
    task["user 4"].n.clear()
    task["user 5"].names.clear()
    task["user 6"].counts.clear()
    # What is only read is no change: the types are immutable.
    assert (task["user 7"].n.value, list(task["user 7"].names)) == (7, ["a", "b", "c"])
    assert task["user 7"].counts.items() == (("x", 7), ("y", 7))
    task.snapshot()
    assert task.rows == {"n": 2, "names": 2, "counts": 3}
    assert task.modes["n"] == [PartMode.FULL, PartMode.DELTA, PartMode.DELTA]
    other = task.restored()
    assert (other["user 3"].n.value, list(other["user 3"].names)) == (5, ["a", "b", "c", "d"])
    assert other["user 3"].counts.items() == (("x", 9), ("y", 3))
    assert other["user 4"].n.value is None
    assert len(other["user 5"].names) == len(other["user 6"].counts) == 0


def test_appending_to_a_long_list_writes_only_the_new_elements() -> None:
    task = Subtask(declared(log=ListState(int), other=ValueState(int)))
    for i in range(500):
        task[f"user {i}"].log.extend(range(10))
    task.snapshot()
    for i in range(5):
        task["user 1"].log.append(i)
        task.snapshot()
        assert task.rows["log"] == 1
        assert len(task.chains["log"][-1].column("value")[0].as_py()) == 2
    assert list(task.restored()["user 1"].log) == [*range(10), *range(5)]


def test_reading_a_mutable_value_counts_as_a_change() -> None:
    task = Subtask(declared(carts=MapState(str, Cart), lists=ListState(Cart), cart=ValueState(Cart)))
    for i in range(10):
        here = task[f"user {i}"]
        here.cart.value, here.carts["a"], here.carts["b"] = Cart(), Cart(), Cart()
        here.lists.append(Cart())
    task.snapshot()
    here = task["user 1"]
    here.carts["a"].total = 1.0
    here.cart.value.total = 2.0
    for cart in here.lists:
        cart.total = 3.0
    task["user 2"].carts.get("b").total = 4.0
    for cart in task["user 3"].carts.values():
        cart.total = 5.0
    task.snapshot()
    # What is changed after the snapshot is not in it.
    task["user 1"].cart.value.total = 99.0
    task["user 3"].carts["a"].total = 99.0
    assert task.rows == {"carts": 4, "lists": 1, "cart": 1}
    other = task.restored()
    assert other["user 1"].carts.items() == (("a", Cart(total=1.0)), ("b", Cart()))
    assert (other["user 1"].cart.value.total, next(iter(other["user 1"].lists)).total) == (2.0, 3.0)
    assert other["user 2"].carts["b"].total == 4.0
    assert [cart.total for cart in other["user 3"].carts.values()] == [5.0, 5.0]


def test_frozen_snapshots_are_written_unchanged() -> None:
    task = Subtask(declared(n=ValueState(int), names=ListState(str), counts=MapState(str, int)))
    here = task["a"]
    here.n.value = 1
    here.names.append("x")
    here.counts["x"] = 1
    parts = task.backend.snapshot().parts
    here.n.value = 2
    here.names.append("y")
    here.counts["x"] = 2
    here.counts["y"] = 2
    other = Subtask(task.states)
    other.backend.restore({part.state: [part.write()] for part in parts})
    assert (other["a"].n.value, list(other["a"].names)) == (1, ["x"])
    assert other["a"].counts.items() == (("x", 1),)


def test_a_restored_chain_is_continued_with_changes() -> None:
    task = Subtask(declared(n=ValueState(int), names=ListState(str), counts=MapState(str, int)))
    for i in range(100):
        here = task[f"user {i}"]
        here.n.value = i
        here.names.extend("abc")
        here.counts["x"] = i
    task.snapshot()
    task["user 1"].names.append("d")
    task.snapshot()
    other = task.restored(continues=True)
    other.snapshot()
    assert other.rows == {"n": 0, "names": 0, "counts": 0}
    other["user 1"].names.append("e")
    other["user 2"].names.replace(["f"])
    other["user 3"].names.clear()
    other["user 1"].n.clear()
    del other["user 1"].counts["x"]
    other.snapshot()
    assert set(chain.from_iterable(other.modes.values())) == {PartMode.DELTA}
    assert other.rows == {"n": 1, "names": 3, "counts": 1}
    last = other.restored(continues=True)
    wanted: list[list[str]] = [list("abcde"), ["f"], []]
    assert [list(last[f"user {i}"].names) for i in (1, 2, 3)] == wanted
    assert (last["user 1"].n.value, last["user 1"].counts.items()) == (None, ())
    # The segments of a list are deleted when the list is replaced.
    last["user 1"].names.replace(["g"])
    last.snapshot()
    assert list(last.restored()["user 1"].names) == ["g"]


def test_a_chain_of_another_declaration_is_not_continued() -> None:
    task = Subtask(declared(n=ValueState(int)))
    task["a"].n.value = 1
    task.snapshot()
    other = Subtask(declared(n=ValueState(float)))
    other.backend.restore({"n": OwnChain(task.chains["n"], as_declared=False)})
    other.snapshot()
    assert other.modes["n"] == [PartMode.FULL]


def test_full_parts_are_written_again() -> None:
    task = Subtask(declared(n=ValueState(int)))
    for i in range(10):
        task[f"user {i}"].n.value = i
    full, delta = PartMode.FULL, PartMode.DELTA
    task.snapshot()
    for _ in range(3):
        for i in range(4):
            task[f"user {i}"].n.value = i
        task.snapshot()
    assert task.modes["n"] == [full, delta, delta, full]
    task.snapshot()
    task.backend.force_full()
    task.snapshot()
    assert task.modes["n"][4:] == [delta, full]
    for i in range(10, 200):
        task[f"user {i}"].n.value = i
    task.snapshot()
    for _ in range(MAX_DELTAS + 1):
        task["user 1"].n.value += 1
        task.snapshot()
    assert task.modes["n"][6:] == [full] + [delta] * MAX_DELTAS + [full]
    assert task.restored()["user 9"].n.value == 9


def test_state_without_a_key_is_refused() -> None:
    task = Subtask(declared(n=ValueState(int), names=ListState(str), counts=MapState(str, int)))
    handles: Any = type("Handles", (), task.handles)
    for use in (
        lambda: handles.n.value,
        lambda: handles.n.clear(),
        lambda: handles.names.append("x"),
        lambda: list(handles.names),
        lambda: handles.counts.get("x"),
        lambda: handles.counts.__setitem__("x", 1),
    ):
        with pytest.raises(StateAccessError, match="outside a keyed context"):
            use()


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (int, "x", "state 's' is declared as int, but was assigned str 'x'"),
        (int, 1.5, "was assigned float 1.5"),
        (int, None, "was assigned NoneType None"),
        (str, b"x", "declared as str"),
        (Cart, Seen(1), "declared as Cart"),
        (list[int], (1,), r"is declared as list\[int\], but was assigned tuple"),
    ],
)
def test_a_value_of_another_class_is_refused_when_it_is_written(
    kind: Any, value: Any, said: str
) -> None:
    task = Subtask(declared(s=ValueState(kind, default=kind()), lists=ListState(kind)))
    with pytest.raises(StateAccessError, match=said):
        task["a"].s.value = value
    with pytest.raises(StateAccessError, match="declared as"):
        task["a"].lists.append(value)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (Cart, Cart(["x", 1]), "Expected `str`, got `int`"),  # type: ignore[list-item]
        (Seen, Seen("x"), "Expected `int`, got `str`"),  # type: ignore[arg-type]
        (int, 2**70, "can't serialize ints"),
        (list[int], [1, "x"], "Expected `int`, got `str`"),
        (dict[str, int], {"a": object()}, "object cannot be stored"),
    ],
)
def test_a_wrong_value_inside_is_named_with_its_key_when_it_is_encoded(
    kind: Any, value: Any, said: str
) -> None:
    task = Subtask(declared(s=ValueState(kind)))
    task["a"].s.value = kind() if kind is not Seen else Seen(1)
    task["b"].s.value = value
    with pytest.raises(StateAccessError, match=said) as caught:
        task.snapshot()
    assert caught.value.key == "'b'"
    assert "state 's' is declared as" in str(caught.value)


def test_numbers_are_converted_to_the_declared_type() -> None:
    task = Subtask(declared(n=ValueState(int), x=ValueState(float), counts=MapState(int, float)))
    here = task["a"]
    here.n.value = np.int32(3)
    here.x.value = 2
    here.counts[np.int64(1)] = np.float32(0.5)
    assert (type(task["a"].n.value), type(task["a"].x.value)) == (int, float)
    task["a"].x.value = np.float64(1.5)
    task["a"].n.value = True
    task.snapshot()
    other = task.restored()["a"]
    assert (other.n.value, other.x.value, other.counts.items()) == (1, 1.5, ((1, 0.5),))


class Opaque:
    def __init__(self, n: int) -> None:
        self.n = n


@pytest.mark.parametrize("kind", [object, Any, list, dict[str, Any]])
def test_values_without_declared_type_are_pickled(kind: Any) -> None:
    task = Subtask(declared(s=ValueState(kind)))
    task["a"].s.value = value = {"x": (1, Opaque(3))}
    task.snapshot()
    value["x"][1].n = 4
    assert task["a"].s.value is value
    task.snapshot()
    assert task.restored()["a"].s.value["x"][1].n == 4


def test_values_that_cannot_be_compared_are_kept() -> None:
    task = Subtask(declared(weights=ValueState(object), many=MapState(str, object)))
    task["a"].weights.value = np.arange(3)
    task["a"].many["x"] = np.ones(2)
    task.snapshot()
    again = task.restored()["a"]
    assert again.weights.value.tolist() == [0, 1, 2]
    assert again.many["x"].tolist() == [1, 1]


def test_types_that_cannot_be_stored_are_refused_at_once() -> None:
    for kind in (Opaque, list[Opaque]):
        with pytest.raises(SchemaError, match=r"state 's' is .*Opaque.* cannot be stored") as caught:
            Subtask(declared(s=ValueState(kind)))
        assert "object" in str(caught.value.hint)


@dataclass
class OldOrder:
    id: int
    note: str = "n"


@dataclass
class NewOrder:
    id: int
    tags: list[str] = field(default_factory=list)


def test_a_dataclass_may_gain_and_lose_fields() -> None:
    old = Subtask(declared(order=ValueState(OldOrder)))
    old["a"].order.value = OldOrder(3)
    old.snapshot()
    new = Subtask(declared(order=ValueState(NewOrder)))
    new.backend.restore(old.chains)
    assert new["a"].order.value == NewOrder(3)


def test_rows_are_sorted_within_the_groups_of_their_keys() -> None:
    keys = KeyCodec(pa.schema([("a", pa.int32()), ("b", pa.string())]), ("a", "b"))
    task = Subtask(declared(n=ValueState(int)), keys)
    for i in range(50):
        task[i, f"b{i}"].n.value = i
    task.snapshot()
    [table] = task.chains["n"]
    rows = table.select(["key_group", "key", "namespace"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["key_group"], row["key"], row["namespace"]))
    for row, value in zip(table.to_pylist(), table.column("value").to_pylist(), strict=True):
        a, b = keys.decode(row["key"])
        batch = pa.record_batch({"a": pa.array([a], pa.int32()), "b": [b]})
        assert key_groups(batch, ("a", "b"), GROUPS)[0] == row["key_group"]
        assert value == bytes([a])


def test_a_savepoint_is_complete_and_not_part_of_the_chain() -> None:
    task = Subtask(declared(n=ValueState(int), log=ListState(int), counts=MapState(str, int)))
    for i in range(9):
        here = task[f"user {i}"]
        here.n.value = i
        here.log.append(i)
        here.counts["x"] = i
    task.snapshot()
    for i in range(2):
        here = task[f"user {i}"]
        here.n.value = -i
        here.log.append(-i)
        here.counts["y"] = -i
    parts = task.backend.savepoint()
    here = task["user 0"]
    here.n.value = 77
    here.log.append(77)
    here.counts["x"] = 77
    assert {part.mode for part in parts} == {PartMode.FULL}
    whole = {part.state: sum(table.num_rows for table in written(part)) for part in parts}
    assert whole == {"n": 9, "log": 9, "counts": 11}
    task.snapshot()
    assert task.rows == {"n": 2, "log": 2, "counts": 3}
    other = Subtask(task.states)
    other.backend.restore({part.state: [part.write()] for part in parts})
    here = other["user 0"]
    assert (here.n.value, list(here.log), here.counts.items()) == (0, [0, 0], (("x", 0), ("y", 0)))


def test_restore_takes_the_chains_of_several_subtasks() -> None:
    tasks = [Subtask(declared(n=ValueState(int))) for _ in range(2)]
    for i, task in enumerate(tasks):
        task[f"user {i}"].n.value = i
        task["gone"].n.value = 1
        for _ in range(3):
            task[f"more {i}"].n.value = i
        task.snapshot()
        task["gone"].n.clear()
        task.snapshot()
    both = Subtask(tasks[0].states)
    both.backend.restore({"n": [table for task in tasks for table in task.chains["n"]]})
    assert [both[f"user {i}"].n.value for i in range(2)] == [0, 1]
    assert both["gone"].n.value is None


class Against(RuleBasedStateMachine):
    """Compare any sequence of uses, snapshots and restores with dicts."""

    KEYS = st.sampled_from(["a", "b", "c"])
    ITEMS = st.sampled_from(["x", "y"])
    NUMBERS = st.integers(0, 3)

    @initialize()
    def begin(self) -> None:
        self.task = Subtask(
            declared(
                n=ValueState(int, default=0),
                cart=ValueState(Cart, default=Cart()),
                log=ListState(int),
                carts=ListState(Cart),
                counts=MapState(str, int),
                by_name=MapState(str, Cart),
            )
        )
        self.model: dict[str, dict[str, Any]] = {
            key: {"n": 0, "cart": Cart(), "log": [], "carts": [], "counts": {}, "by_name": {}}
            for key in "abc"
        }

    @rule(key=KEYS, n=NUMBERS)
    def set_value(self, key: str, n: int) -> None:
        self.task[key].n.value = self.model[key]["n"] = n

    @rule(key=KEYS)
    def clear_value(self, key: str) -> None:
        self.task[key].n.clear()
        self.model[key]["n"] = 0

    @rule(key=KEYS, n=NUMBERS)
    def change_in_place(self, key: str, n: int) -> None:
        self.task[key].cart.value.items.append(str(n))
        self.model[key]["cart"].items.append(str(n))

    @rule(key=KEYS, n=NUMBERS)
    def append(self, key: str, n: int) -> None:
        self.task[key].log.append(n)
        self.task[key].carts.append(Cart(total=float(n)))
        self.model[key]["log"].append(n)
        self.model[key]["carts"].append(Cart(total=float(n)))

    @rule(key=KEYS, numbers=st.lists(NUMBERS, max_size=3))
    def replace(self, key: str, numbers: list[int]) -> None:
        self.task[key].log.replace(numbers)
        self.model[key]["log"] = list(numbers)

    @rule(key=KEYS)
    def clear_list(self, key: str) -> None:
        self.task[key].log.clear()
        self.model[key]["log"] = []

    @rule(key=KEYS)
    def change_elements(self, key: str) -> None:
        for cart in [*self.task[key].carts, *self.model[key]["carts"]]:
            cart.total += 1

    @rule(key=KEYS, item=ITEMS, n=NUMBERS)
    def put(self, key: str, item: str, n: int) -> None:
        self.task[key].counts[item] = self.model[key]["counts"][item] = n
        self.task[key].by_name[item] = Cart(total=float(n))
        self.model[key]["by_name"][item] = Cart(total=float(n))

    @rule(key=KEYS, item=ITEMS)
    def remove(self, key: str, item: str) -> None:
        if item in self.model[key]["counts"]:
            del self.task[key].counts[item], self.model[key]["counts"][item]

    @rule(key=KEYS)
    def clear_map(self, key: str) -> None:
        self.task[key].counts.clear()
        self.model[key]["counts"] = {}

    @rule(key=KEYS, item=ITEMS)
    def change_entry(self, key: str, item: str) -> None:
        if item in self.model[key]["by_name"]:
            self.task[key].by_name[item].total += 1
            self.model[key]["by_name"][item].total += 1

    @rule(lost=st.booleans())
    def snapshot(self, lost: bool) -> None:
        if lost:
            for part in self.task.backend.snapshot().parts:
                part.write()
            self.task.backend.force_full()
        else:
            self.task.snapshot()

    @rule(continues=st.booleans())
    def restore(self, continues: bool) -> None:
        self.task.snapshot()
        self.task = self.task.restored(continues=continues)

    @rule()
    def savepoint(self) -> None:
        """The state goes on as it was: what is in it is compared, now and after later snapshots."""
        other = Subtask(self.task.states)
        other.backend.restore({part.state: [part.write()] for part in self.task.backend.savepoint()})
        self._compare(other)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "task"):
            self._compare(self.task)

    def _compare(self, task: Subtask) -> None:
        # Reading would mark as changed: so a copy is read.
        stored: dict[str, Any] = task.backend._tables
        tables = copy.deepcopy({name: table.values for name, table in stored.items()})
        for key, expected in self.model.items():
            assert tables["n"].get(key, 0) == expected["n"]
            assert tables["cart"].get(key, Cart()) == expected["cart"]
            assert tables["log"].get(key, []) == expected["log"]
            assert tables["carts"].get(key, []) == expected["carts"]
            assert tables["counts"].get(key, {}) == expected["counts"]
            assert tables["by_name"].get(key, {}) == expected["by_name"]


TestAgainst = Against.TestCase
TestAgainst.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


@given(st.lists(st.floats(width=32) | st.just(-0.0)))
def test_float_keys_have_one_zero_and_one_nan(values: list[float]) -> None:
    keys = KeyCodec(pa.schema([("x", pa.float32())]), ("x",))
    batch = pa.record_batch({"x": pa.array(values, pa.float32())})
    found = keys.of(batch)
    encoded = [keys.encode(key) for key in found]
    assert [keys.encode(keys.decode(data)) for data in encoded] == encoded
    assert len(set(found)) == len(set(encoded)) == len(np.unique(batch.column(0).to_numpy()))
    assert keys.groups(found, GROUPS).tolist() == key_groups(batch, ("x",), GROUPS).tolist()


def test_large_parts_are_written_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table is sorted, and they follow each other. Deltas apply after all tables of a full
    part."""
    monkeypatch.setattr("rheos.core.state.parts._SAMPLE_ROWS", 2)
    monkeypatch.setattr("rheos.core.state.parts.PIECE_BYTES", 200)
    names = [f"user {number}" for number in range(40)]
    subtask = Subtask(declared(value=ValueState(str), items=ListState(int), counts=MapState(str, int)))
    for number, name in enumerate(names):
        subtask[name].value.value = "x" * number
        subtask[name].items.append(number)
        subtask[name].counts["a"] = number
    subtask.snapshot()
    whole = subtask.chains["value"]
    assert len(whole) > 3
    assert max(table.num_rows for table in whole) < 20
    ordered = pa.concat_tables(whole).select(["key_group", "key"])
    assert ordered == ordered.sort_by([("key_group", "ascending"), ("key", "ascending")])
    for name in names[:10]:
        subtask[name].value.clear()
        subtask[name].items.append(-1)
        subtask[name].counts["b"] = 1
    subtask.snapshot()
    assert subtask.modes["value"] == [PartMode.FULL, PartMode.DELTA]
    again = subtask.restored()
    for number, name in enumerate(names):
        assert again[name].value.value == (None if number < 10 else "x" * number)
        assert list(again[name].items) == ([number, -1] if number < 10 else [number])
        assert dict(again[name].counts) == ({"a": number, "b": 1} if number < 10 else {"a": number})


def test_values_of_a_part_are_encoded_when_their_table_is_written() -> None:
    """Values that cannot change are encoded by the thread that writes, table by table."""
    subtask = Subtask(declared(value=ValueState(str)))
    for number in range(3):
        subtask[f"user {number}"].value.value = "as it was"
    [part] = subtask.backend.snapshot().parts
    subtask["user 1"].value.value = "changed"
    [table] = written(part)
    assert table["value"].to_pylist() == [msgspec.msgpack.encode("as it was")] * 3
