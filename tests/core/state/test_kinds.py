"""A kind of state is one file and one registration: one that exists only here works everywhere.
`Largest` reduces added values, and is stored as a value. With a time to live it expires."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.state import StateDeclaration, ValueState
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TtlShape, TypeShape
from rheos.core.protocol.snapshots import StateKind
from rheos.core.state.backend import KeyedStateBackend
from rheos.core.state.expiry import Expiry
from rheos.core.state.kinds import KINDS, shape_of, stored_types
from rheos.core.state.kinds.copies import copier
from rheos.core.state.kinds.kind import DeclaredKind
from rheos.core.state.scope import KeyScope
from rheos.core.state.stores import ABSENT, ValueStore
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import Faults, simulate
from tests.core.state.keyed_jobs import MEMORY, ROCKSDB, Job, declared

# --- a kind ------------------------------------------------------------------------------------------


class Largest(StateDeclaration):
    kind = "largest"

    def __init__(self, type: Any, *, ttl: str | None = None) -> None:
        self.type = type
        self._lives(ttl)


class LargestHandle:
    def __init__(self, store: ValueStore, scope: KeyScope) -> None:
        self.store, self.scope = store, scope

    def get(self) -> Any:
        key = self.scope.key
        found = self.store.values.get(key, ABSENT)
        if found is ABSENT:
            found = self.store.fetch(key)
        return None if found is ABSENT else found

    def put(self, kept: Any) -> None:
        self.store.values[self.scope.key] = kept
        self.store.dirty.add(self.scope.key)

    def add(self, value: Any) -> None:
        before = self.get()
        self.put(self.store.codec.fit(value if before is None else max(before, value)))


class ExpiringLargestHandle(LargestHandle):
    def __init__(self, store: ValueStore, scope: KeyScope, expiry: Expiry) -> None:
        super().__init__(store, scope)
        self.expiry = expiry

    def get(self) -> Any:
        pair = super().get()
        return None if pair is None or pair[0] + self.expiry.ttl_ms <= self.expiry.now_ms() else pair[1]

    def put(self, kept: Any) -> None:
        super().put((self.expiry.now_ms(), kept))


class LargestKind(DeclaredKind[Largest]):
    holds = StatePurpose.VALUE

    def types(self, declared: Largest) -> tuple[Any, ...]:
        return (declared.type,)

    def handle(
        self, declared: Largest, stores: KeyedStateBackend, expiry: Expiry | None
    ) -> LargestHandle:
        store = stores.values(declared.name, declared.type, expiry)
        if expiry is None:
            return LargestHandle(store, stores.scope)
        return ExpiringLargestHandle(store, stores.scope, expiry)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, Largest, LargestKind())


# --- through everything -----------------------------------------------------------------------------


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
def test_a_new_kind_is_kept_and_moved_like_any_other(tmp_path: Path, backend: str) -> None:
    states = declared(most=Largest(int), recent=Largest(str, ttl="1s"))
    job = Job(tmp_path, states, backend, parallelism=2, memory_bytes=6 * 1024)
    for i in range(40):
        here = job[f"user {i % 10}"]
        here.most.add(i)
        here.recent.add(f"seen {i:02}")
    job.checkpoint()
    job["user 3"].most.add(77)
    other = ROCKSDB if backend == MEMORY else MEMORY
    for parallelism, by_savepoint in ((3, True), (1, False)):
        job.move(parallelism, other if parallelism == 1 else backend, by_savepoint=by_savepoint)
        assert [job[f"user {i}"].most.get() for i in range(10)] == [30, 31, 32, 77, *range(34, 40)]
        assert job["user 4"].recent.get() == "seen 34"
    job.now_ms = 1_000
    assert job["user 4"].recent.get() is None, "its time is over"
    job.close()


@pytest.mark.usefixtures("registered")
def test_a_new_kind_is_described_compared_and_shown_by_what_it_stores(tmp_path: Path) -> None:
    shape = shape_of(declared(most=Largest(int))["most"])
    assert (shape.holds, shape.value.name, shape.ttl) == (StatePurpose.VALUE, "int", None)
    shape = shape_of(declared(recent=Largest(str, ttl="1s"))["recent"])
    assert (shape.value.name, shape.ttl) == ("str", TtlShape(time="event_time", ms=1000))
    assert stored_types(declared(recent=Largest(str, ttl="1s"))["recent"]) == (str,)

    def keyed(declaration: StateDeclaration) -> dict[OperatorId, dict[str, StateShape]]:
        declaration.name = "state"
        key = [FieldShape(name="user", type=TypeShape(name="string"))]
        return {OperatorId("op"): {"state": msgspec.structs.replace(shape_of(declaration), key=key)}}

    old = keyed(Largest(int))
    verdicts = [
        [finding.verdict for finding in compare(old, keyed(new), {})]
        for new in (
            Largest(int),
            Largest(float),
            Largest(str),
            ValueState(int),
            Largest(int, ttl="9ms"),
        )
    ]
    assert verdicts == [
        [Verdict.SAME],
        [Verdict.MIGRATES],
        [Verdict.UNREADABLE],
        [Verdict.SAME],
        [Verdict.UNREADABLE],
    ]

    job = Job(tmp_path, declared(state=Largest(int)))
    job["a"].state.add(5)
    [part] = [part for part in job.subtasks[0].backend.savepoint() if part.state == "state"]
    written: Any = part.write()
    assert layout_of("state", old[OperatorId("op")]).rows(written).to_pylist() == [
        {"user": "a", "value": 5}
    ]


def test_an_unknown_kind_is_not_shown_as_another() -> None:
    shape = StateShape(
        kind=StateKind.KEYED, holds="vectors", key=[], value=TypeShape(name="vector", fields=[])
    )
    with pytest.raises(
        SchemaError, match="'vectors', which this version of Rheos does not know"
    ) as caught:
        layout_of("state", {"state": shape})
    assert "version that wrote it" in str(caught.value.hint)


@dataclass
class Bid:
    auction: int
    price: int


class Highest(rh.KeyedProcessFunction):
    most = Largest(int)

    def process_element(self, bid: Bid, ctx: rh.KeyedContext) -> Iterator[Bid]:
        self.most.add(bid.price)
        yield Bid(bid.auction, self.most.get())


def bids(env: rh.Environment) -> Any:
    given = [Bid(i % 3, (i * 7919) % 101) for i in range(60)]
    return env.from_source(rh.collection(given, schema=Bid)).key_by("auction").process(Highest())


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("backend", list(rh.StateBackend))
def test_a_program_uses_a_new_kind_and_survives_failures(backend: rh.StateBackend) -> None:
    done = simulate(bids, seed=3, state=rh.StateConfig(backend))
    highest = {row["auction"]: row["price"] for row in done.out.to_pylist()}
    assert highest == {
        auction: max((i * 7919) % 101 for i in range(auction, 60, 3)) for auction in range(3)
    }


def test_a_kind_that_is_not_registered_is_refused_at_its_line() -> None:
    with pytest.raises(ProgramError, match="state 'most' is declared as Largest, which is") as caught:
        simulate(bids, faults=Faults(until_us=0))
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


# --- copies of defaults -----------------------------------------------------------------------------


@dataclass
class Plain:
    n: int
    items: list[str] = field(default_factory=list)


@dataclass
class Inside:
    one: Plain
    seen: set[int] = field(default_factory=set)


class Own(list[int]):
    pass


@dataclass(slots=True)
class Slotted:
    items: list[int]


SHARED = [1]
LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        set(),
        [1, "x", None],
        {"a": 1.5},
        {"a": [1]},
        [[1], [2]],
        Plain(3, ["x"]),
        Inside(Plain(1), {2}),
        Slotted([1]),
        Own([1, 2]),
        {"a": SHARED, "b": SHARED},
        Inside(Plain(1, SHARED), SHARED),  # type: ignore[arg-type, type-var]
        (1, [2]),
        bytearray(b"x"),
    ],
    ids=repr,
)
def test_a_default_is_copied_as_deepcopy_copies_it(value: Any) -> None:
    make, wanted = copier(value), copy.deepcopy(value)
    first, second = make(), make()
    assert first == second == wanted
    assert type(first) is type(wanted)
    assert _parts(first) == _parts(wanted), "what is one object in it, is one in the copy"
    assert not {id(part) for part in _mutable(first)} & {id(part) for part in _mutable(second)}
    assert not {id(part) for part in _mutable(first)} & {id(part) for part in _mutable(value)}


def test_a_default_that_contains_itself_is_copied() -> None:
    [inside] = made = copier(LOOP)()
    assert inside is made


def _mutable(value: Any) -> Iterator[Any]:
    """Return the changeable parts of a value, as often as they occur in it."""
    if isinstance(value, list | set | dict | bytearray) or hasattr(value, "__dataclass_fields__"):
        yield value
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    elif hasattr(value, "__dataclass_fields__"):
        inside = [getattr(value, name) for name in value.__dataclass_fields__]
    for part in inside:
        yield from _mutable(part)


def _parts(value: Any) -> list[int]:
    """Return the number of each changeable part."""
    order: dict[int, int] = {}
    return [order.setdefault(id(part), len(order)) for part in _mutable(value)]
