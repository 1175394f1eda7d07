"""State with a time to live in functions of whole batches: the same as in functions called for each
row, including stored state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ProgramError
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, WatermarkMark
from rheos.core.protocol.state_config import Backend
from rheos.core.state.columnar.state import ColumnarState, columnar_state
from rheos.core.state.keys import KeyCodec
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.scope import KeyScope
from rheos.testing.harness import OperatorExample, check_example, replay
from tests.core.operators.contexts import StillClock
from tests.core.operators.steps import BOUND_MS, DecisionLog, Step, heard, keyed_steps
from tests.core.operators.test_process import Event, Total, feed, make, rows, save

USED = rh.TimeToLive("60ms", renewed_on="read_and_write")


def compiled_of(function: type[rh.KeyedProcessFunction]) -> Any:
    """Return the class, marked for compilation. Skip the test if no compiler is installed."""
    pytest.importorskip("numba")
    return rh.compiled(type("Compiled", (function,), {}))


# --- one function in two forms ------------------------------------------------------------------------


class Each(rh.KeyedProcessFunction):
    """Emits what is known of a user. Depending on the time of its step it reads, writes, or clears."""

    n = rh.ValueState(int, default=0, ttl="60ms")
    place = rh.ValueState(str, default="nowhere", ttl=USED)
    first = rh.ValueState(float, default=0.5, ttl="60ms")

    def process_element(self, step: Step, ctx: rh.KeyedContext) -> Iterator[DecisionLog]:
        place = self.place.value if step.at % 2 else "not looked"
        yield DecisionLog(ctx.key, f"{step.at}: {self.n.value} {place} {self.first.value}")
        if step.at % 3:
            self.n.value += 1
        if step.at % 5 == 0:
            self.place.value = f"place {step.at % 4}"
        if self.first.value == 0.5:
            self.first.value = float(step.at)
        if step.at % 11 == 0:
            self.n.clear()


class Batches(rh.KeyedBatchFunction):
    """Batch form of `Each`."""

    n = rh.ValueState(int, default=0, ttl="60ms")
    place = rh.ValueState(str, default="nowhere", ttl=USED)
    first = rh.ValueState(float, default=0.5, ttl="60ms")

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[DecisionLog]]:
        times = batch["at"].to_numpy()
        for at in keys.rounds():
            users, now = keys[at], times[at]
            place = np.full(len(at), "not looked", object)
            looked = now % 2 == 1
            place[looked] = state.place[users[looked]]
            known = zip(now.tolist(), state.n[users], place, state.first[users].tolist(), strict=True)
            text = [f"{time}: {n} {where} {first}" for time, n, where, first in known]
            yield rh.Emit(
                users.frame().select(pl.first().alias("user")).with_columns(text=text_of(text)), at
            )
            counted = users[now % 3 != 0]
            state.n[counted] = state.n[counted] + 1
            state.place[users[now % 5 == 0]] = [f"place {time % 4}" for time in now[now % 5 == 0]]
            new = state.first[users] == 0.5
            assert (new == ~state.first.is_set(users)).all()
            state.first[users[new]] = now[new].astype(float)
            state.n.clear(users[now % 11 == 0])


def text_of(text: list[str]) -> pl.Series:
    return pl.Series("text", text, pl.String())


def steps(seed: int, count: int) -> list[Step]:
    """Return steps, some of them late."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 6, count).tolist()
    times = (1000 + np.arange(count) * 7 + rng.integers(0, 2 * BOUND_MS, count)).tolist()
    return [Step(user, at) for user, at in zip(users, times, strict=True)]


def by_user(told: list[tuple[int, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for user, text in told:
        found.setdefault(user, []).append(text)
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", [Backend.MEMORY, Backend.ROCKSDB])
@pytest.mark.parametrize("batch_rows", [1, 64])
def test_batches_agree_with_single_rows(batch_rows: int, backend: Backend) -> None:
    given = steps(batch_rows, 300)
    wanted = heard(lambda env: keyed_steps(env, given).process(Each()), 64, Backend.MEMORY)
    told = heard(lambda env: keyed_steps(env, given).process(Batches()), batch_rows, backend)
    assert by_user(told) == by_user(wanted)
    assert len(told) == len(given)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", [Backend.MEMORY, Backend.ROCKSDB])
@pytest.mark.parametrize("batch_rows", [1, 64])
def test_a_compiled_function_agrees_with_single_rows(batch_rows: int, backend: Backend) -> None:
    given = steps(batch_rows, 300)
    wanted = heard(lambda env: keyed_steps(env, given).process(Each()), 64, Backend.MEMORY)
    told = heard(lambda env: keyed_steps(env, given).process(compiled_of(Each)()), batch_rows, backend)
    assert by_user(told) == by_user(wanted)


def test_state_expires_through_pauses_restores_and_rescaling() -> None:
    def example(function: Any) -> OperatorExample:
        first = [(1, 1_001), (2, 1_005), (1, 1_025), (1, 1_055), (2, 1_064), (1, 1_061)]
        # The second of them is late.
        then = [(1, 1_085), (2, 1_060), (1, 1_120), (2, 1_131), (1, 1_145), (2, 1_191), (1, 1_205)]
        return OperatorExample(
            lambda clicks: clicks.key_by("user").process(function, returns=DecisionLog),
            pa.schema([("user", pa.int64()), ("at", pa.int64())]),
            [
                *({"user": user, "at": at} for user, at in first),
                WatermarkMark(1_070),
                *({"user": user, "at": at} for user, at in then),
            ],
            on="at",
        )

    wanted = [{"user": row["user"], "text": row["text"]} for row in replay(example(Each()))["out"]]
    assert wanted[-1] == {"user": 1, "text": "1205: 0 nowhere 0.5"}
    check_example(example(Batches()), {"out": wanted})


class EachOfEvents(rh.KeyedProcessFunction):
    total = rh.ValueState(int, default=0, ttl=USED)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Total]:
        self.total.value += event.n
        yield Total(ctx.key, self.total.value)


class BatchesOfEvents(rh.KeyedBatchFunction):
    total = rh.ValueState(int, default=0, ttl=USED)

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        numbers = batch["n"].to_numpy()
        for at in keys.rounds():
            state.total[keys[at]] = state.total[keys[at]] + numbers[at]
            yield rh.Emit({"user": batch["user"].gather(at), "total": state.total[keys[at]]}, at)


@pytest.mark.parametrize("seed", range(3))
def test_each_form_resumes_from_state_of_the_other(seed: int) -> None:
    """Check that stamps are stored, too: in full parts and in deltas."""
    draw = Random(seed)
    always: Any = make(EachOfEvents())
    now, found, wanted = 0, [], []
    chains: dict[str, list[pa.Table]] = {}
    for turn in range(12):
        forms: list[Any] = [EachOfEvents(), BatchesOfEvents(), compiled_of(EachOfEvents)()]
        current = make(forms[(turn + draw.randrange(2)) % 3], restored=chains)
        # What was restored has to be in the first snapshot, though nothing has touched it.
        list(current.on_watermark(now))
        chains = save(current)
        for _ in range(2):
            given = [
                (draw.choice("abcdef"), draw.randrange(9), now + draw.randrange(50)) for _ in range(8)
            ]
            found += rows(feed(current, *given))
            wanted += rows(feed(always, *given))
            now += draw.randrange(40)
            list(current.on_watermark(now))
            list(always.on_watermark(now))
            chains = save(current, chains)
    assert {user: [row for row in found if row[0] == user] for user in "abcdef"} == {
        user: [row for row in wanted if row[0] == user] for user in "abcdef"
    }


# --- timers, and the clock ----------------------------------------------------------------------------


def test_timers_find_state_as_of_their_own_time() -> None:
    class Timed(rh.KeyedBatchFunction):
        kept = rh.ValueState(int, default=0, ttl="60ms")

        def process_batch(self, keys: Any, batch: pl.DataFrame, state: rh.BatchState) -> None:
            state.kept[keys] = batch["at"].to_numpy()
            for after_ms in (59, 60, 61):
                state.timers.register(keys, keys.timestamps + after_ms)

        def on_timers(self, keys: Any, timestamps: Any, state: rh.BatchState) -> Iterator[rh.Emit[Any]]:
            columns = {"user": keys.frame()["user"], "at": timestamps, "kept": state.kept[keys]}
            yield rh.Emit(columns, np.arange(len(keys)))

    check_example(
        OperatorExample(
            lambda clicks: clicks.key_by("user").process(
                Timed(), returns={"user": str, "at": int, "kept": int}
            ),
            pa.schema([("user", pa.string()), ("at", pa.int64())]),
            [
                {"user": "a", "at": 10},
                {"user": "b", "at": 40},
                WatermarkMark(80),
                {"user": "c", "at": 90},
            ],
            on="at",
        ),
        {
            "out": [
                {"user": user, "at": at + after, "kept": at if after < 60 else 0}
                for user, at in (("a", 10), ("b", 40), ("c", 90))
                for after in (59, 60, 61)
            ]
        },
    )


class SetClock(StillClock):
    time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms


CODEC = KeyCodec(pa.schema([("k", pa.int64())]), ("k",))


class Declared(rh.KeyedBatchFunction):
    lately = rh.ValueState(int, default=-1, ttl="100ms")
    clocked = rh.ValueState(int, default=-1, ttl=rh.TimeToLive("100ms", time="processing_time"))
    always = rh.ValueState(int, default=-1)


def kept(clock: SetClock, *names: str) -> tuple[ColumnarState, MemoryBackend]:
    backend = MemoryBackend(CODEC, 8, KeyScope(clock))
    return columnar_state([getattr(Declared, name) for name in names], CODEC, backend), backend


def test_state_expires_in_processing_time() -> None:
    clock = SetClock()
    state, _ = kept(clock, "clocked")
    column = state.columns["clocked"]
    slots = state.enter([pa.array([1, 2])])
    column.put(slots, np.array([10, 20]), None)
    clock.time_ms = 99
    column.put(slots[1:], np.array([21]), None)
    assert column.read(slots, None).tolist() == [10, 21]
    clock.time_ms = 100
    assert column.read(slots, None).tolist() == [-1, 21]
    clock.time_ms = 0
    assert column.read(slots, None).tolist() == [-1, 21], "what was found gone stays gone"


def test_rows_of_a_key_in_one_call_are_each_seen_at_their_own_time() -> None:
    state, _ = kept(SetClock(), "lately")
    column = state.columns["lately"]
    column.put(state.enter([pa.array([7])]), np.array([5]), np.array([1_000]))
    slots = state.enter([pa.array([7, 7, 7])])
    times = np.array([1_099, 1_100, 1_098])
    assert column.read(slots, times).tolist() == [5, -1, 5]
    assert column.read(slots[:1], np.array([1_001])).tolist() == [-1]


# --- what is kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("lately",), ("lately", "always")])
def test_expired_state_is_removed_and_its_slots_are_reused(names: tuple[str, ...]) -> None:
    state, backend = kept(SetClock(), *names)
    column = state.columns["lately"]
    chains: list[pa.Table] = []
    for turn in range(40):
        now_ms = 25 * turn
        numbers = np.arange(1_000 * turn, 1_000 * turn + 1_000)
        slots = state.enter([pa.array(numbers)])
        column.put(slots, numbers, np.full(1_000, now_ms))
        if turn == 20 and "always" in names:
            state.columns["always"].put(slots, numbers, None)
        backend.scope.passed_ms = now_ms
        state.leave()
        [part, *_] = backend.snapshot().parts
        chains = [*(chains if part.mode.value == "delta" else []), part.write()]
    assert len(state.keys) < 20_000
    slots = state.enter([pa.array([20_000, 35_999, 36_000, 39_999, 50_000])])
    now = np.full(5, 975)
    assert column.read(slots, now).tolist() == [-1, -1, 36_000, 39_999, -1]
    if "always" in names:
        assert state.columns["always"].read(slots, now).tolist() == [20_000, -1, -1, -1, -1]

    again, other = kept(SetClock(), "lately")
    other.scope.passed_ms = 975
    other.restore({"lately": chains})
    slots = again.enter([pa.array([35_999, 36_000, 39_999])])
    assert again.columns["lately"].read(slots, np.full(3, 975)).tolist() == [-1, 36_000, 39_999]
    savepoint: dict[str, Any] = {part.state: part.write() for part in other.savepoint()}
    assert savepoint["lately"].num_rows == 4_000, "a savepoint leaves out what is gone"
    other.scope.passed_ms = MAX_TIMESTAMP_MS
    parts: list[Any] = [part.write() for part in other.snapshot().parts]
    assert [part.num_rows for part in parts] == [0]


# --- errors -------------------------------------------------------------------------------------------


@dataclass
class Ping:
    user: int


def test_a_stream_without_event_time_is_refused() -> None:
    env = rh.Environment()
    pings = env.from_source(rh.collection([Ping(1)]))
    with pytest.raises(ProgramError, match="'n' has a time to live in event time") as caught:
        pings.key_by("user").process(Batches())
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
