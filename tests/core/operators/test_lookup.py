"""Lookups: which keys are requested, when and how often, and what happens to rows meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.errors import InputError, ProgramError, RheosError, SchemaError, UnavailableError
from rheos.core.operators.contract import StartedWork
from rheos.core.operators.lookup import LookupOperator, LookupSpec
from rheos.core.operators.lookup_calls import FoundBlock, KnownRows
from rheos.core.protocol.elements import Batch
from rheos.core.task.config import TaskConfig
from rheos.testing import Faults, MemoryLookup, simulate
from tests.connectors.ports import HeldIo, ManualClock
from tests.core.operators.contexts import context

IN = pa.schema([("user", pa.string()), ("n", pa.int64())])
OUT = IN.append(pa.field("country", pa.string()))


@dataclass
class Asked(LookupClient):
    """Lookup that records requests; the country of `ada` is `ADA`."""

    calls: list[list[str]] = field(default_factory=list)
    fails: Iterator[Exception | None] = field(default_factory=lambda: iter(()))
    closed: int = 0

    def fetch(self, keys: Batch) -> Found:
        users = keys.column("user").to_pylist()
        self.calls.append(users)
        error = next(self.fails, None)
        if error is not None:
            raise error
        known = [(at, user) for at, user in enumerate(users) if user != "nobody"]
        known.reverse()  # In any order.
        rows = pa.RecordBatch.from_pydict(
            {"country": [user.upper() for _, user in known]}, OUT_OF_LOOKUP
        )
        return Found(rows, pa.array([at for at, _ in known], pa.int32()))

    def close(self) -> None:
        self.closed += 1


OUT_OF_LOOKUP = pa.schema([("country", pa.string())])


@dataclass(frozen=True)
class Countries(Lookup):
    client: Asked
    keys = ("user",)
    schema = OUT_OF_LOOKUP

    def open(self, ctx: LookupContext) -> LookupClient:
        assert ctx.keys == pa.schema([pa.field("user", pa.string(), nullable=False)])
        return self.client


class Desk:
    """One operator with its clock and I/O, driven by hand."""

    def __init__(
        self, *, fails: Sequence[Exception | None] = (), batch_rows: int = 100, **given: Any
    ) -> None:
        self.client = Asked(fails=iter(fails))
        spec = {"how": "left", "cache_for_ms": 0, "cache_keys": 100, "retry_for_ms": 1000, **given}
        of = LookupSpec(Countries(self.client), ("user",), (("country", "country"),), **spec)
        self.ctx = context(IN, OUT, batch_rows=batch_rows)
        self.clock = self.ctx.clock = ManualClock()
        self.io = self.ctx.io = HeldIo()
        self.operator = LookupOperator(self.ctx, of)
        self.operator.open({})
        self.batches: dict[int, Batch] = {}

    def begin(self, *users: str | None) -> StartedWork:
        batch = pa.RecordBatch.from_pydict({"user": users, "n": range(len(users))}, IN)
        begun = self.operator.begin(0, batch)
        self.batches[id(begun)] = batch
        return begun

    def countries(self, begun: StartedWork) -> list[str | None]:
        assert begun.ready()
        outs = list(begun.finish(self.batches[id(begun)]))
        assert all(out.batch.num_rows <= self.ctx.batch_rows for out in outs)
        return [row["country"] for out in outs for row in out.batch.to_pylist()]


def test_distinct_keys_are_requested_once_and_together() -> None:
    desk = Desk(batch_rows=2)
    first = desk.begin("ada", "bo", None, "ada", "nobody")
    second, third = desk.begin("cy", "ada"), desk.begin("ada", "dora")
    assert not first.ready()
    desk.io.run()
    # Rows that come while a call is under way are looked up after they have come.
    assert desk.countries(first) == ["ADA", "BO", None, "ADA", None]
    assert not third.ready()
    desk.io.run()
    assert desk.countries(third) == ["ADA", "DORA"]
    assert desk.countries(second) == ["CY", "ADA"]
    assert desk.client.calls == [["ada", "bo", "nobody"], ["cy", "ada", "dora"]]
    assert desk.ctx.counters == {"cache_hits": 0, "looked_up": 6}


def test_an_inner_lookup_drops_rows_without_result() -> None:
    desk = Desk(how="inner")
    begun, nothing = desk.begin("nobody", "ada", None, "bo"), desk.begin(None, None)
    assert desk.countries(nothing) == []
    desk.io.run()
    assert desk.countries(begun) == ["ADA", "BO"]


def test_cached_keys_are_not_requested_until_they_expire() -> None:
    desk = Desk(cache_for_ms=1000, cache_keys=3)
    for users in (["ada", "nobody"], ["bo"]):
        begun = desk.begin(*users)
        desk.io.run()
        desk.countries(begun)
        desk.clock.us += 400_000
    known = desk.begin("nobody", "bo", "ada")
    assert desk.countries(known) == [None, "BO", "ADA"]
    # The first call's are a second old; what was found stays with the rows that wait for it.
    waits = desk.begin("bo")
    desk.clock.us += 300_000
    asked = desk.begin("ada", "bo")
    desk.io.run()
    assert (desk.countries(asked), desk.countries(waits)) == (["ADA", "BO"], ["BO"])
    # There is room for three keys: the oldest go.
    for users in (["c", "d", "e"], ["bo", "e"]):
        begun = desk.begin(*users)
        desk.io.run()
        desk.countries(begun)
    assert desk.client.calls == [["ada", "nobody"], ["bo"], ["ada"], ["c", "d", "e"], ["bo"]]
    assert desk.ctx.counters["cache_hits"] == 6


def test_the_cache_is_bounded_and_used_fully() -> None:
    known = KnownRows(max_keys=4, keep_us=1000)

    def add(keys: str, at_us: int) -> str:
        rows = pa.RecordBatch.from_pydict({"country": list(keys)}, OUT_OF_LOOKUP)
        spans = {(key,): (at, at + 1) for at, key in enumerate(keys)}
        known.add(FoundBlock(rows, spans, at_us))
        return kept()

    def kept() -> str:
        return "".join(key for key in "abcdefghijkl" if known.get((key,)) is not None)

    assert add("abc", 0) == "abc"
    assert add("de", 100) == "bcde"
    # What is asked for anew is new: it goes behind what was found before.
    assert add("b", 200) == "bcde"
    assert add("f", 300) == "bdef"
    known.forget(1100)
    assert kept() == "bf"
    assert add("ghijkl", 400) == "ijkl"
    known.forget(1400)
    assert kept() == ""


def test_an_unavailable_system_is_retried_with_growing_pauses() -> None:
    desk = Desk(fails=[ConnectionError("gone"), UnavailableError("it starts"), OSError()])
    begun = desk.begin("ada")
    waits = []
    for _ in range(3):
        desk.io.run()
        assert not begun.ready()
        assert not desk.io.held
        wait = begun.wake_after_us()
        assert wait is not None
        waits.append(wait)
        desk.clock.us += wait
        assert not begun.ready()
    assert waits == [50_000, 100_000, 200_000]
    desk.io.run()
    assert desk.countries(begun) == ["ADA"]
    assert begun.wake_after_us() is None
    assert desk.ctx.counters["retries"] == 3


def test_a_system_that_stays_unavailable_is_an_error_with_the_key() -> None:
    desk = Desk(fails=[ConnectionError("gone")] * 9)
    begun = desk.begin("ada", "bo", "cy")
    for _ in range(5):
        desk.io.run()
        assert not begun.ready()
        desk.clock.us += begun.wake_after_us() or 0
        assert not begun.ready()
    desk.io.run()
    with pytest.raises(UnavailableError, match=r"failing for 1\.55 s: ConnectionError: gone") as raised:
        begun.ready()
    assert raised.value.key == "'ada', and 2 others"
    assert len(desk.client.calls) == 6


def test_permanent_errors_are_not_retried() -> None:
    desk = Desk(fails=[InputError("a value does not fit", key="'bo'")])
    begun = desk.begin("ada", "bo")
    desk.io.run()
    with pytest.raises(InputError) as raised:
        begun.ready()
    assert raised.value.key == "'bo'"


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (Found(pa.record_batch({"x": ["a"]}), pa.array([0])), "the lookup returned 1 positions for"),
        (
            Found(pa.record_batch({"country": ["a"]}), pa.array([0, 0])),
            "the lookup returned 2 positions",
        ),
        (Found(pa.record_batch({"country": ["a"]}), pa.array([1])), "other keys than the 1"),
    ],
)
def test_a_client_with_an_invalid_result_is_named(
    found: Found, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    monkeypatch.setattr(Asked, "fetch", lambda self, keys: found)
    begun = desk.begin("ada")
    desk.io.run()
    with pytest.raises(RheosError, match=what):
        begun.ready()


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_client_is_closed_once_and_not_during_a_call(when: str) -> None:
    desk = Desk()
    if when != "before":
        desk.begin("ada")
    if when == "after":
        desk.io.run()
    desk.operator.close()
    assert desk.client.closed == (0 if when == "during" else 1)
    desk.io.run()
    assert desk.client.closed == 1


# --- whole jobs -------------------------------------------------------------------------------------

USERS = [f"user-{n}" for n in range(7)]
KNOWN = MemoryLookup(["user"], [{"user": user, "country": user.upper()} for user in USERS[:5]])


def visits(block: rh.Block) -> dict[str, Sequence[Any]]:
    numbers = block.number()
    return {"user": [USERS[n % 7] for n in numbers], "n": numbers}


def with_countries(lookup: Lookup) -> Callable[[rh.Environment], rh.DataStream]:
    def build(env: rh.Environment) -> rh.DataStream:
        made = env.from_source(rh.generator(visits, count=98, rate_per_s=100))
        return made.lookup(lookup, on="user")

    return build


@pytest.mark.parametrize(("seed", "task"), [(1, TaskConfig()), (2, TaskConfig(unaligned_after_us=0))])
def test_no_fault_loses_or_duplicates_a_row(seed: int, task: TaskConfig) -> None:
    faults = Faults(crash_slot=4.0)
    done = simulate(with_countries(KNOWN), seed=seed, faults=faults, task=task, parallelism=2)
    assert done.crashes > 0
    assert sorted(done.out.to_pylist(), key=lambda row: row["n"]) == [
        {"user": USERS[n % 7], "n": n, "country": USERS[n % 7].upper() if n % 7 < 5 else None}
        for n in range(98)
    ]
    again = simulate(with_countries(KNOWN), seed=seed, faults=faults, task=task, parallelism=2)
    assert again.out == done.out


@dataclass(frozen=True)
class Away(MemoryLookup):
    def open(self, ctx: LookupContext) -> LookupClient:
        return Asked(fails=iter([ConnectionError("the cable")] * 10_000))


def test_the_error_of_a_job_names_line_operator_and_key() -> None:
    env = rh.Environment(1, runtime="simulated", restart=rh.restart.none())
    made = env.from_source(rh.generator(visits, count=10, splits=1))
    away = made.lookup(Away(["user"], KNOWN.rows), on="user", retry_for="100ms").name("countries")
    away.collect("rows")
    with pytest.raises(RheosError) as raised:
        env.execute("away")
    assert f"{__file__}:" in str(raised.value)
    assert "operator 'countries': the lookup has been failing for" in str(raised.value)
    assert "key: 'user-0', and 6 others" in str(raised.value)


def test_invalid_lookups_are_refused_when_the_program_is_built() -> None:
    stream = rh.Environment(1).from_source(
        rh.collection([{"user": "ada", "country": "x", "tags": ["a"]}])
    )
    good: dict[str, Any] = {"on": "user", "columns": {"theirs": "country"}}
    assert stream.lookup(KNOWN, **good).schema.names == ["user", "country", "tags", "theirs"]
    for given, error, what in (
        ({"on": "user", "columns": None}, SchemaError, "the result would have two columns named"),
        ({"on": "who"}, SchemaError, "'who', which the stream does not have"),
        ({"on": "tags"}, SchemaError, "'tags', which is list"),
        ({"on": ("user", "country")}, ProgramError, "names 2 columns"),
        ({"columns": ["land"]}, SchemaError, "'land'"),
        ({"columns": []}, ProgramError, "no column"),
        ({"how": "outer"}, ProgramError, "how='outer'"),
        ({"cache_keys": 0}, ProgramError, "cache_keys must be a number of keys, not 0"),
        ({"retry_for": "soon"}, ProgramError, "soon"),
    ):
        with pytest.raises(error, match=what):
            stream.lookup(KNOWN, **{**good, **given})
    with pytest.raises(ProgramError, match="takes a lookup"):
        stream.lookup({"ada": "uk"}, on="user")  # type: ignore[arg-type]
