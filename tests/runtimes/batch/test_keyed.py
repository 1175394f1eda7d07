"""Keyed operators after Spark's shuffle: whole keys, one generation of keys at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.core.protocol.elements import TS
from rheos.runtimes.batch.keyed_input import Feed, Generations
from rheos.runtimes.batch.layout import HASH

SCHEMA = pa.schema([(HASH, pa.int64()), ("n", pa.int64()), (TS, pa.int64())])


def fed(runs: list[int], piece: int, enough: int, timed: bool = True) -> list[Feed]:
    """Return the feeds of keys 0, 1, .. with these numbers of rows, which arrive in pieces."""
    hashes = np.repeat(np.arange(len(runs)), runs)
    times = np.concatenate([np.arange(run) // 2 for run in runs])
    columns = [pa.array(column) for column in (hashes, np.arange(len(hashes)), times)]
    rows = pa.record_batch(columns, schema=SCHEMA)
    generations = Generations(timed, enough)
    feeds = []
    for begin in range(0, len(hashes), piece):
        feeds += list(generations.take(rows.slice(begin, piece)))
    return feeds + list(generations.end())


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(2, 20),
)
def test_generations_have_whole_keys_and_bounded_rows(runs: list[int], piece: int, enough: int) -> None:
    feeds = fed(runs, piece, enough)
    assert [n for feed in feeds for n in feed.rows.column("n").to_pylist()] == list(range(sum(runs)))
    assert feeds[-1].ends
    assert all(feed.rows.num_rows < 3 * enough for feed in feeds)
    # A key is in one generation, and only a large key is in several feeds.
    generation = 0
    of_key: dict[int, set[int]] = {}
    shared: dict[int, set[int]] = {}
    reached = None
    for feed in feeds:
        keys = feed.rows.column(HASH).to_pylist()
        times = feed.rows.column(TS).to_pylist()
        for key in keys:
            of_key.setdefault(key, set()).add(generation)
            shared.setdefault(generation, set()).add(key)
        if reached is not None:
            assert all(time > reached for time in times), "rows come after the watermark before them"
        reached = feed.until_ms
        if not feed.ends:
            assert len(shared[generation]) == 1
            assert runs[keys[0]] >= enough
            assert feed.until_ms is not None
        else:
            generation, reached = generation + 1, None
    assert all(len(generations) == 1 for generations in of_key.values())


def test_without_event_time_feeds_have_no_watermark() -> None:
    feeds = fed([3, 50, 2], piece=7, enough=5, timed=False)
    assert sum(feed.rows.num_rows for feed in feeds) == 55
    assert {feed.until_ms for feed in feeds} == {None}
    assert [feed.ends for feed in feeds].count(False) > 1


def test_a_generation_has_few_wide_rows() -> None:
    columns = [pa.array(range(100)), pa.array(["x" * (1 << 22)] * 100)]
    rows = pa.record_batch(columns, names=[HASH, "text"])
    generations = Generations(timed=False, generation_rows=65_536)
    feeds = [*generations.take(rows), *generations.end()]
    assert sum(feed.rows.num_rows for feed in feeds) == 100
    assert max(feed.rows.num_rows for feed in feeds) <= 32


@dataclass
class Tick:
    key: str
    at: int
    n: int


@dataclass
class SessionRow:
    key: str
    at: int
    seen: int
    sum: int


class Sessions(rh.KeyedProcessFunction):
    """Function that uses each kind of state, and clears a key after a pause."""

    seen = rh.ValueState(int, default=0)
    numbers = rh.ListState(int)
    by_at = rh.MapState(int, int)

    def process_element(self, tick: Tick, ctx: rh.KeyedContext) -> Iterator[SessionRow]:
        self.seen.value += 1
        self.numbers.append(tick.n)
        self.by_at[tick.at] = tick.n
        ctx.timers.register(ctx.timestamp + 50)
        yield SessionRow(tick.key, tick.at, self.seen.value, sum(self.numbers))

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[SessionRow]:
        if timestamp == max(self.by_at) + 50:
            yield SessionRow(ctx.key, timestamp, -len(self.by_at), sum(self.numbers))
            self.seen.clear()
            self.numbers.clear()
            self.by_at.clear()


def ticks(rows: int, keys: int, seed: int = 7) -> list[Tick]:
    random = np.random.default_rng(seed)
    at = np.cumsum(random.integers(1, 4, rows))
    return [
        Tick(f"k{key}", int(time), int(n))
        for key, time, n in zip(
            np.maximum(random.integers(-30, keys, rows), 0),
            at,
            random.integers(0, 9, rows),
            strict=True,
        )
    ]


def run(runtime: Any, rows: list[Tick], build: Any, **settings: Any) -> list[tuple[Any, ...]]:
    env = rh.Environment(2, runtime=runtime, **settings)
    stream = env.from_source(rh.collection(rows), rh.Watermark.monotonic(on="at"))
    build(stream).collect("out")
    return sorted(tuple(row.values()) for row in env.execute().collected["out"].to_pylist())


BUILDS = {
    "process": lambda stream: stream.key_by("key").process(Sessions()),
    "ordered": lambda stream: stream.key_by("key").process(Sessions(), order="event_time"),
    "reduce": lambda stream: stream.key_by("key").reduce(lambda a, b: Tick(a.key, b.at, a.n + b.n)),
    "running": lambda stream: stream.key_by("key").running(
        seen=rh.agg.count(), sum=rh.agg.sum("n"), most=rh.agg.max("n")
    ),
    "two columns": lambda stream: stream.key_by("key", "n").running(seen=rh.agg.count()),
}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", BUILDS)
def test_small_generations_agree_with_the_simulated_runtime(name: str) -> None:
    """Generations have 16 rows: k0 is larger than one, most other keys are smaller."""
    rows = ticks(600, 60)
    simulated = BUILDS["ordered" if name == "process" else name]
    assert run("batch", rows, BUILDS[name], batch_rows=4) == run("simulated", rows, simulated)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_pending_processing_timers_are_dropped_and_counted() -> None:
    class Waits(rh.KeyedProcessFunction):
        def process_element(self, tick: Tick, ctx: rh.KeyedContext) -> Iterator[Tick]:
            ctx.timers.register_processing(2**61)
            yield tick

        def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Tick]:
            yield from ()

    env = rh.Environment(1, runtime="batch", batch_rows=4)
    stream = env.from_source(rh.collection(ticks(300, 60)))
    stream.key_by("key").process(Waits()).name("waits").collect("out")
    result = env.execute()
    keys = len(set(result.collected["out"]["key"].to_pylist()))
    assert result.counter("waits", "dropped_processing_timers") == keys
    assert result.collected["out"].num_rows == 300


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_process_function_forwards_the_watermark_of_late_rows() -> None:
    """A later window considers the same rows late with and without a process function upstream."""

    class Passes(rh.KeyedProcessFunction):
        def process_element(self, tick: Tick, ctx: rh.KeyedContext) -> Iterator[Tick]:
            yield tick

    rows = [Tick("a", 1_000, 1), Tick("b", 90_000, 1), Tick("a", 2_000, 1), Tick("a", 91_000, 1)]
    found = {}
    for runtime in ("batch", "simulated"):
        env = rh.Environment(1, runtime=runtime)  # type: ignore[arg-type]
        stream = env.from_source(rh.collection(rows), rh.Watermark.monotonic(on="at"))
        counts = (
            stream.key_by("key")
            .process(Passes())
            .key_by("key")
            .window(rh.Tumbling("10s"))
            .aggregate(n=rh.agg.count())
            .name("counts")
        )
        counts.collect("out")
        result = env.execute()
        assert result.counter("counts", "late") == 1
        found[runtime] = sorted(tuple(row.values()) for row in result.collected["out"].to_pylist())
    assert found["batch"] == found["simulated"]
    assert [row[-1] for row in found["batch"]] == [1, 1, 1]
