"""Programs on the batch runtime: Spark's shuffle, sort and cache carry rows without changing them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos import col
from rheos.core.connectors import contract
from rheos.core.errors import InternalError
from rheos.runtimes.job import JobState

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

BOTH = pytest.mark.parametrize("parallelism", [1, 3])


@dataclass
class Sale:
    shop: str
    at: int
    price: float


SALES = [
    Sale("ulm", 1_000, 2.0),
    Sale("rom", 2_000, 3.0),
    Sale("ulm", 9_000, 4.0),
    Sale("ulm", 8_000, 8.0),  # Out of order, in time.
    Sale("rom", 31_000, 5.0),
    Sale("ulm", 5_000, 99.0),  # Late: the watermark is at 25,999.
    Sale("ulm", 32_000, 1.0),
]


def sales(env: rh.Environment) -> rh.DataStream:
    watermark = rh.Watermark.bounded_out_of_orderness("5s", on="at")
    return env.from_source(rh.collection(SALES), watermark=watermark, name="sales")


def rows(result: rh.JobResult, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in result.collected[name].to_pylist())


@BOTH
def test_windows_count_late_rows_separately(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="batch")
    totals = (
        sales(env)
        .key_by("shop")
        .window(rh.Tumbling("10s"))
        .aggregate(n=rh.agg.count(), sum=rh.agg.sum("price"))
    )
    totals.select("shop", start=col("window_start").dt.epoch("ms"), n="n", sum="sum").collect("totals")
    totals.side_output("late").collect("late")
    result = env.execute("windows")
    assert rows(result, "totals") == [
        ("rom", 0, 1, 3.0),
        ("rom", 30_000, 1, 5.0),
        ("ulm", 0, 3, 14.0),
        ("ulm", 30_000, 1, 1.0),
    ]
    assert rows(result, "late") == [("ulm", 5_000, 99.0)]
    assert result.counter("window(10s)", "late") == 1
    assert result.status.state is JobState.FINISHED
    assert {o.name: o.records_in for o in result.status.operators}["totals"] == 4
    assert {o.name: o.records_out for o in result.status.operators}["sales"] == 7


@dataclass
class Seen:
    shop: str
    what: str
    at: int
    n: int


class Watch(rh.KeyedProcessFunction):
    """Function that counts sales, and emits a row when none arrived for ten seconds."""

    side_outputs = {"dear": Sale}
    n = rh.ValueState(int, default=0)
    last = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Seen]:
        self.n.value += 1
        self.last.value = ctx.timestamp
        ctx.timers.register(ctx.timestamp + 10_000)
        ctx.timers.register_processing(2**61)
        if sale.price > 4:
            ctx.output("dear", sale)
        yield Seen(sale.shop, "sale", ctx.timestamp, self.n.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Seen]:
        if timestamp == self.last.value + 10_000:
            yield Seen(ctx.key, "quiet", timestamp, self.n.value)


@BOTH
def test_a_process_in_event_time_order_interleaves_rows_and_timers(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="batch")
    seen = sales(env).key_by("shop").process(Watch(), order="event_time").name("watch")
    seen.collect("seen")
    seen.side_output("dear").collect("dear")
    seen.side_output("late").collect("late")
    result = env.execute("watch")
    assert rows(result, "seen") == [
        ("rom", "quiet", 12_000, 1),
        ("rom", "quiet", 41_000, 2),
        ("rom", "sale", 2_000, 1),
        ("rom", "sale", 31_000, 2),
        ("ulm", "quiet", 19_000, 3),
        ("ulm", "quiet", 42_000, 4),
        ("ulm", "sale", 1_000, 1),
        ("ulm", "sale", 8_000, 2),
        ("ulm", "sale", 9_000, 3),
        ("ulm", "sale", 32_000, 4),
    ]
    assert rows(result, "dear") == [("rom", 31_000, 5.0), ("ulm", 8_000, 8.0)]
    assert rows(result, "late") == [("ulm", 5_000, 99.0)]
    assert result.counter("watch", "dropped_processing_timers") == 2


@BOTH
def test_a_process_without_order_sees_all_rows_by_event_time_and_none_is_late(
    parallelism: int,
) -> None:
    env = rh.Environment(parallelism, runtime="batch")
    sales(env).key_by("shop").process(Watch()).collect("seen")
    assert rows(env.execute(), "seen") == [
        ("rom", "quiet", 12_000, 1),
        ("rom", "quiet", 41_000, 2),
        ("rom", "sale", 2_000, 1),
        ("rom", "sale", 31_000, 2),
        ("ulm", "quiet", 19_000, 4),
        ("ulm", "quiet", 42_000, 5),
        ("ulm", "sale", 1_000, 1),
        ("ulm", "sale", 5_000, 2),
        ("ulm", "sale", 8_000, 3),
        ("ulm", "sale", 9_000, 4),
        ("ulm", "sale", 32_000, 5),
    ]


@BOTH
def test_running_aggregates_and_reduce_follow_event_time(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="batch")
    by_shop = sales(env).key_by("shop")
    by_shop.running(total=rh.agg.sum("price")).select("shop", "at", "total").collect("running")
    by_shop.reduce(lambda a, b: Sale(a.shop, b.at, max(a.price, b.price))).collect("highest")
    result = env.execute()
    assert rows(result, "running") == [
        ("rom", 2_000, 3.0),
        ("rom", 31_000, 8.0),
        ("ulm", 1_000, 2.0),
        ("ulm", 5_000, 101.0),
        ("ulm", 8_000, 109.0),
        ("ulm", 9_000, 113.0),
        ("ulm", 32_000, 114.0),
    ]
    assert rows(result, "highest") == [
        ("rom", 2_000, 3.0),
        ("rom", 31_000, 5.0),
        ("ulm", 1_000, 2.0),
        ("ulm", 5_000, 99.0),
        ("ulm", 8_000, 99.0),
        ("ulm", 9_000, 99.0),
        ("ulm", 32_000, 99.0),
    ]


@BOTH
def test_a_union_can_precede_a_sink_or_a_key(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="batch")
    dear, cheap = sales(env).filter(col("price") > 4), sales(env).filter(col("price") <= 4)
    everything = dear.union(cheap, dear)
    everything.collect("all")
    everything.key_by("shop").window(rh.Tumbling("1h")).aggregate(n=rh.agg.count()).collect("counts")
    result = env.execute()
    assert len(rows(result, "all")) == 10
    assert [
        (row["shop"], row["n"]) for row in result.collected["counts"].sort_by("shop").to_pylist()
    ] == [
        ("rom", 3),
        ("ulm", 7),
    ]


@BOTH
def test_a_stream_with_several_readers_is_computed_once(parallelism: int, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def noted(sale: Sale) -> Sale:
        with calls.open("a") as file:
            file.write(f"{sale.at}\n")
        return sale

    env = rh.Environment(parallelism, runtime="batch")
    once = sales(env).map(noted)
    once.collect("as they are")
    once.key_by("shop").running(n=rh.agg.count()).collect("by shop")
    once.key_by("at").running(n=rh.agg.count()).key_by("shop").running(m=rh.agg.count()).collect(
        "twice"
    )
    once.union(once).collect("doubled")
    result = env.execute()
    assert [len(rows(result, name)) for name in ("as they are", "by shop", "twice", "doubled")] == [
        7,
        7,
        7,
        14,
    ]
    assert sorted(map(int, calls.read_text().split())) == sorted(sale.at for sale in SALES)


def test_files_appear_only_if_the_job_succeeds(tmp_path: Path) -> None:
    def fail_late(sale: Sale) -> Sale:
        if sale.price == 99.0:
            time.sleep(0.5)  # By now the other sink's rows are staged.
            raise ValueError("boo")
        return sale

    out = tmp_path / "out"
    for fails in (True, False):
        env = rh.Environment(2, runtime="batch")
        stream = sales(env)
        stream.sink_to(rh.files.sink(out / "all"))
        (stream.map(fail_late) if fails else stream).key_by("shop").running(n=rh.agg.count()).sink_to(
            rh.files.sink(out / "running")
        )
        if fails:
            with pytest.raises(rh.UserFunctionError):
                env.execute()
            assert not list(out.rglob("*.parquet"))
        else:
            env.execute()
    assert pl.read_parquet(out / "all").height == pl.read_parquet(out / "running").height == len(SALES)
    assert not list(out.rglob(".rheos-staging/*"))


def test_a_failing_function_is_reported_with_line_and_record() -> None:
    def halve(sale: Sale) -> Sale:
        return Sale(sale.shop, sale.at, sale.price / (sale.price - 8.0))

    env = rh.Environment(1, runtime="batch")
    sales(env).map(halve).collect("halves")
    with pytest.raises(rh.UserFunctionError, match="ZeroDivisionError") as caught:
        env.execute()
    text = str(caught.value)
    assert text.startswith(f"{__file__}:")
    assert "map(halve)" in text
    assert "price=8.0" in text
    assert "at org.apache" not in text


def test_a_null_key_is_an_error_with_its_record() -> None:
    @dataclass
    class Visit:
        user: str | None

    env = rh.Environment(2, runtime="batch")
    visits = env.from_source(rh.collection([Visit("a"), Visit(None)]), name="visits")
    visits.key_by("user").running(n=rh.agg.count()).collect("counts")
    with pytest.raises(rh.InputError, match="key column 'user' is null"):
        env.execute()


def test_the_pace_of_a_replay_is_ignored(tmp_path: Path) -> None:
    pl.DataFrame(SALES).write_parquet(tmp_path / "sales.parquet")
    env = rh.Environment(1, runtime="batch")
    replay = rh.Replay("at", "1x")  # Half a minute.
    began = time.monotonic()
    env.from_source(rh.files.source(tmp_path, schema=Sale, replay=replay)).collect("sales")
    assert len(rows(env.execute(), "sales")) == len(SALES)
    assert time.monotonic() - began < 30


def test_streams_without_rows_have_empty_results() -> None:
    env = rh.Environment(3, runtime="batch")
    none = sales(env).filter(col("price") < 0)
    none.collect("none")
    none.key_by("shop").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()).collect("counts")
    result = env.execute()
    assert result.collected["none"].num_rows == result.collected["counts"].num_rows == 0
    assert result.collected["counts"].schema.names == ["shop", "window_start", "window_end", "n"]


def test_a_cancelled_job_commits_nothing(tmp_path: Path) -> None:
    started = tmp_path / "started"

    def dawdle(sale: Sale) -> Sale:
        started.touch()
        time.sleep(0.05 if sale.at else 0)
        return sale

    env = rh.Environment(1, runtime="batch")
    many = rh.collection(SALES * 1000)
    env.from_source(many).map(dawdle).sink_to(rh.files.sink(tmp_path / "out"))
    job = env.execute_async("slow")
    reached = threading.Event()
    while not started.exists():
        reached.wait(0.02)
    job.cancel()
    assert job.status().state is JobState.CANCELLED
    job.wait()
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_workers_can_import_the_script_and_its_modules(tmp_path: Path) -> None:
    """The script runs as users run it: classes of `__main__` and modules next to it reach the
    workers."""
    (tmp_path / "prices.py").write_text(
        dedent("""
        def doubled(price: float) -> float:
            return 2 * price
        """)
    )
    (tmp_path / "job.py").write_text(
        dedent("""
        from dataclasses import dataclass
        import prices
        import rheos as rh

        @dataclass
        class Sale:
            price: float

        class Twice(rh.KeyedProcessFunction):
            seen = rh.ValueState(int, default=0)
            def process_element(self, sale: Sale, ctx) -> list[Sale]:
                self.seen.value += 1
                return [Sale(prices.doubled(sale.price) + self.seen.value)]

        env = rh.Environment(2, runtime="batch")
        rows = rh.collection([Sale(1.0), Sale(2.0), Sale(1.0)])
        env.from_source(rows).key_by("price").process(Twice()).collect("twice")
        print(sorted(env.execute().collected["twice"]["price"].to_pylist()))
        """)
    )
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "job.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert ran.stdout == "[3.0, 4.0, 5.0]\n", ran.stderr
    said_by_java = ("incubator modules", "Picked up JAVA_TOOL_OPTIONS")
    noise = [line for line in ran.stderr.splitlines() if not any(word in line for word in said_by_java)]
    assert noise == []


class Broken(contract.Sink):
    """Sink that raises an unexpected exception."""

    def open(self, ctx: contract.SinkContext) -> contract.SinkWriter:
        raise LookupError("no such printer")


@pytest.mark.parametrize("runtime", ["batch", "simulated", "continuous"])
def test_an_unexpected_exception_is_the_same_error_everywhere(runtime: Any) -> None:
    env = rh.Environment(1, runtime=runtime)
    sales(env).sink_to(Broken(), name="printer")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with pytest.raises(InternalError) as caught:
        env.execute("broken")
    assert str(caught.value).startswith(
        f"{__file__}:{line}: operator 'printer': LookupError: no such printer"
    )
