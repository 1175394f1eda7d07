"""State with a time to live in a process function: a call finds what the rows of its key imply,
whatever other rows are in its batch. The oracle is a loop over the records with a dict."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos import testing
from rheos.core.errors import ProgramError
from rheos.core.graph.functions import KeyedContext
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, WatermarkMark
from rheos.core.protocol.state_config import Backend
from rheos.core.state.keys import KeyCodec
from rheos.testing.harness import OperatorExample, check_example
from tests.core.operators.steps import BOUND_MS, DecisionLog, Step, heard, keyed_steps, stories

TTL_MS = 60


class Remembered(rh.KeyedProcessFunction):
    """Emits what is known of a user at each step, and at timers, some of them in the past."""

    steps = rh.ValueState(int, default=0, ttl="60ms")
    places = rh.MapState(int, int, ttl=rh.TimeToLive("60ms", renewed_on="read_and_write"))
    times = rh.ListState(int, ttl="60ms")

    def process_element(self, step: Step, ctx: KeyedContext) -> Iterator[DecisionLog]:
        yield DecisionLog(step.user, f"{step.at}: {self.known()}")
        self.steps.value += 1
        self.times.append(step.at)
        place = step.at % 3
        if place not in self.places:
            self.places[place] = step.at
        if step.at % 4 == 0:
            ctx.timers.register(step.at + TTL_MS // 2)
        if step.at % 5 == 0:
            ctx.timers.register(step.at - 3 * TTL_MS)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[DecisionLog]:
        yield DecisionLog(ctx.key, f"timer {timestamp}: {self.known()}")

    def known(self) -> str:
        if self.steps.value > 2:
            return f"{self.steps.value} steps, places {sorted(self.places.items())}"
        return f"{self.steps.value} steps at {list(self.times)}"


class User:
    """The oracle's dicts: each value with the time of its last update."""

    def __init__(self) -> None:
        self.steps: tuple[int, int] | None = None
        self.places: dict[int, tuple[int, int]] = {}
        self.times: list[tuple[int, int]] = []

    def known(self, now: int) -> str:
        if self.steps is not None and self.steps[0] + TTL_MS <= now:
            self.steps = None
        steps = 0 if self.steps is None else self.steps[1]
        if steps <= 2:
            self.times = [pair for pair in self.times if pair[0] + TTL_MS > now]
            return f"{steps} steps at {[at for _, at in self.times]}"
        living = {place: pair for place, pair in self.places.items() if pair[0] + TTL_MS > now}
        self.places = {place: (max(now, stamp), at) for place, (stamp, at) in living.items()}
        return f"{steps} steps, places {sorted((p, at) for p, (_, at) in living.items())}"

    def row(self, at: int, now: int) -> str:
        said = f"{at}: {self.known(now)}"
        self.steps = (now, 1 if self.steps is None else self.steps[1] + 1)
        self.times.append((now, at))
        stamp, first = self.places.get(at % 3, (now - TTL_MS, at))
        self.places[at % 3] = (max(stamp, now), first) if stamp + TTL_MS > now else (now, at)
        return said


class Oracle:
    """Oracle that processes the watermark after each record."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        self.users: dict[int, User] = {}
        self.timers: list[tuple[int, bytes, int]] = []
        self.passed = MIN_TIMESTAMP_MS
        self.encode = KeyCodec(pa.schema([("user", pa.int64())]), ("user",)).encode

    def register(self, at: int, user: int) -> None:
        if (timer := (at, self.encode(user), user)) not in self.timers:
            heapq.heappush(self.timers, timer)

    def row(self, step: Step) -> None:
        user, at = step.user, step.at
        known = self.users.setdefault(user, User())
        self.told.append((user, known.row(at, max(at, self.passed))))
        if at % 4 == 0:
            self.register(at + TTL_MS // 2, user)
        if at % 5 == 0:
            self.register(at - 3 * TTL_MS, user)

    def advance(self, watermark: int) -> None:
        if watermark <= self.passed:
            return
        while self.timers and self.timers[0][0] <= watermark:
            at, _, user = heapq.heappop(self.timers)
            said = self.users.setdefault(user, User()).known(max(at, self.passed))
            self.told.append((user, f"timer {at}: {said}"))
        self.passed = max(self.passed, watermark)


def oracle(given: list[Step]) -> list[tuple[int, str]]:
    """Compute the result for one split."""
    told, latest = Oracle(), MIN_TIMESTAMP_MS
    for step in given:
        told.row(step)
        latest = max(latest, step.at)
        told.advance(latest - BOUND_MS - 1)
    told.advance(MAX_TIMESTAMP_MS)
    return told.told


def steps(seed: int, rows: int) -> list[Step]:
    """Return steps, some of them late."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 6, rows).tolist()
    times = (1000 + np.arange(rows) * 7 + rng.integers(0, 2 * BOUND_MS, rows)).tolist()
    return [Step(user, at) for user, at in zip(users, times, strict=True)]


def remembered(env: rh.Environment, given: list[Step], **how: Any) -> rh.DataStream:
    return keyed_steps(env, given).process(Remembered(), **how)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("batch_rows", [1, 3, 64, 8192])
@pytest.mark.parametrize("backend", [Backend.MEMORY, Backend.ROCKSDB])
def test_state_does_not_depend_on_batches(batch_rows: int, backend: Backend) -> None:
    given = steps(batch_rows, 400)
    assert heard(lambda env: remembered(env, given), batch_rows, backend) == oracle(given)


@pytest.mark.parametrize("seed", range(2))
def test_in_event_time_order_state_depends_on_the_data_alone(seed: int) -> None:
    """Check this under any faults, checkpoints and parallelism."""
    given = steps(seed, 200)
    done = testing.simulate(
        lambda env: remembered(env, given, order="event_time"), seed=seed, parallelism=2
    )
    told: dict[int, list[str]] = {}
    for user, text in stories(done.out):
        told.setdefault(user, []).append(text)
    latest, in_time = MIN_TIMESTAMP_MS, []
    for step in given:
        if step.at > latest - BOUND_MS - 1:
            in_time.append(step)
        latest = max(latest, step.at)
    wanted: dict[int, list[str]] = {}
    for user in told:
        alone = Oracle()
        for step in sorted((s for s in in_time if s.user == user), key=lambda s: s.at):
            alone.advance(step.at - 1)
            alone.row(step)
        alone.advance(MAX_TIMESTAMP_MS)
        wanted[user] = [text for _, text in alone.told]
    assert told == wanted


# --- in all ways of the harness -----------------------------------------------------------------------


class FirstOfAnHour(rh.KeyedProcessFunction):
    """Click of a user on a page on which there was none within an hour."""

    pages = rh.MapState(str, int, ttl="1h")
    seen = rh.ListState(int, ttl="1h")
    last = rh.ValueState(int, default=0, ttl=rh.TimeToLive("1h", renewed_on="read_and_write"))

    def process_element(self, click: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        if click.page not in self.pages:
            lately = len(self.seen)
            yield {"user": click.user, "page": click.page, "last": self.last.value, "lately": lately}
            self.pages[click.page] = ctx.timestamp
        self.seen.append(ctx.timestamp)
        self.last.value = max(self.last.value, click.n)


MINUTE = 60_000
CLICKS = [("a", "x", 0), ("b", "x", 1), ("a", "x", 30), ("a", "y", 40), ("a", "x", 60), ("b", "x", 50)]
LATER = [("b", "x", 62), ("a", "y", 95), ("a", "x", 121), ("a", "y", 100), ("b", "y", 185)]


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "arrival": [
        {"user": "a", "page": "x", "last": 8, "lately": 1},
        # It comes after one of minute 121, and is of minute 100.
        {"user": "a", "page": "y", "last": 9, "lately": 2},
    ],
    "event_time": [
        {"user": "a", "page": "y", "last": 8, "lately": 2},
        {"user": "a", "page": "x", "last": 10, "lately": 2},
    ],
}


@pytest.mark.parametrize("order", ["arrival", "event_time"])
def test_state_expires_through_pauses_restores_and_rescaling(order: Any) -> None:
    def rows(clicks: list[tuple[str, str, int]], first: int) -> list[dict[str, Any]]:
        return [
            {"user": user, "page": page, "at": at * MINUTE, "n": n}
            for n, (user, page, at) in enumerate(clicks, first)
        ]

    returns = {"user": str, "page": str, "last": int, "lately": int}
    check_example(
        OperatorExample(
            lambda clicks: clicks.key_by("user").process(FirstOfAnHour(), order, returns=returns),
            pa.schema(
                [("user", pa.string()), ("page", pa.string()), ("at", pa.int64()), ("n", pa.int64())]
            ),
            [
                *rows(CLICKS, 1),
                WatermarkMark(49 * MINUTE),
                *rows(LATER, 7),
                WatermarkMark(120 * MINUTE),
                *rows([("b", "y", 190), ("a", "z", 240)], 12),
            ],
            on="at",
        ),
        {
            "out": [
                {"user": "a", "page": "x", "last": 0, "lately": 0},
                {"user": "b", "page": "x", "last": 0, "lately": 0},
                {"user": "a", "page": "y", "last": 3, "lately": 2},
                # Just an hour after the first; the second did not write.
                {"user": "a", "page": "x", "last": 4, "lately": 2},
                {"user": "b", "page": "x", "last": 6, "lately": 1},
                *ANSWERS[order],
                {"user": "b", "page": "y", "last": 0, "lately": 0},
                {"user": "a", "page": "z", "last": 0, "lately": 0},
            ]
        },
    )


# --- by the clock -------------------------------------------------------------------------------------


@dataclass
class Ping:
    user: int
    n: int


@dataclass
class Found:
    user: int
    n: int | None
    clock_ms: int


class Recent(rh.KeyedProcessFunction):
    last = rh.ValueState(int, ttl=rh.TimeToLive("300ms", time="processing_time"))

    def process_element(self, ping: Ping, ctx: KeyedContext) -> Iterator[Found]:
        yield Found(ping.user, self.last.value, ctx.processing_time)
        self.last.value = ping.n


def test_in_processing_time_no_event_time_is_needed() -> None:
    """Check this with users who return after 100, 200, 300, ... ms."""
    users = [0, 0, 1, 1, 0, 1, 2, 0, 2, 2, 1, 0, 0, 2, 1] * 3

    def block(rows: rh.Block) -> pa.Table:
        n = [int(i) for i in rows.index()]
        return pa.table({"user": [users[i] for i in n], "n": n})

    def recent(env: rh.Environment) -> rh.DataStream:
        pings = rh.generator(block, count=len(users), rate_per_s=10, splits=1, schema=Ping)
        return env.from_source(pings).key_by("user").process(Recent())

    done = testing.simulate(recent, faults=testing.Faults(until_us=0), parallelism=1)
    known: dict[int, tuple[int, int]] = {}
    rows = done.out.to_pylist()
    assert len(rows) == len(users)
    for n, row in enumerate(rows):
        stamp, last = known.get(row["user"], (0, None))
        assert row["n"] == (last if row["clock_ms"] < stamp + 300 else None)
        known[row["user"]] = (row["clock_ms"], n)
    assert {row["n"] is None for row in rows[10:]} == {True, False}


def test_a_stream_without_event_time_is_refused() -> None:
    env = rh.Environment()
    pings = env.from_source(rh.collection([Ping(1, 1)]))

    class Once(rh.KeyedProcessFunction):
        seen = rh.ValueState(int, ttl="1h")

        def process_element(self, ping: Ping, ctx: KeyedContext) -> Iterator[Ping]:
            yield ping

    with pytest.raises(ProgramError, match="'seen' has a time to live in event time") as caught:
        pings.key_by("user").process(Once())
    assert 'time="processing_time"' in str(caught.value.hint)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
