"""The programs of `batch.py`, each as a Rheos program and as one writes it by hand in PySpark.

A pair reads the same files, and writes the same rows as Parquet files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import polars as pl
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor

import rheos as rh
from rheos import col

LITERAL = "/p/1234"
"""In one of five hundred URLs."""
GAP_MS = 1_800_000
"""After so long a user starts over."""


@dataclass
class Event:
    at: datetime
    user: int
    kind: str
    url: str
    price: float


@dataclass(frozen=True)
class Run:
    """What a program is run on."""

    spark: SparkSession
    data: str
    out: str
    partitions: int
    disorder_ms: int

    def rows(self) -> DataFrame:
        return self.spark.read.parquet(self.data)

    def write(self, rows: DataFrame) -> None:
        rows.write.mode("overwrite").parquet(self.out)

    def environment(self) -> rh.Environment:
        return rh.Environment(self.partitions, runtime="batch", spark=self.spark)

    def events(self, env: rh.Environment) -> rh.DataStream:
        watermark = rh.Watermark.bounded_out_of_orderness(f"{self.disorder_ms}ms", on="at")
        return env.from_source(rh.files.source(self.data, schema=Event), watermark=watermark)

    def execute(self, env: rh.Environment, stream: rh.DataStream, name: str) -> None:
        stream.sink_to(rh.files.sink(self.out))
        env.execute(name)


# --- grep -----------------------------------------------------------------------------------------


def grep_rheos(run: Run) -> None:
    env = run.environment()
    lines = env.from_source(rh.files.source(run.data, schema=Event))
    run.execute(env, lines.filter(col("url").str.contains(LITERAL, literal=True)), "grep")


def grep_dataframe(run: Run) -> None:
    run.write(run.rows().filter(f.col("url").contains(LITERAL)))


# --- running count and sum of each user, a row for each row -----------------------------------------


def running_rheos(run: Run) -> None:
    env = run.environment()
    events = env.from_source(rh.files.source(run.data, schema=Event)).select("user", "price")
    totals = events.key_by("user").running(n=rh.agg.count(), total=rh.agg.sum("price"))
    run.execute(env, totals.select("user", "n", "total"), "running")


def running_dataframe(run: Run) -> None:
    so_far = (
        Window.partitionBy("user")
        .orderBy("at")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    run.write(
        run.rows().select(
            "user",
            f.count(f.lit(1)).over(so_far).alias("n"),
            f.sum("price").over(so_far).alias("total"),
        )
    )


def last_of_each_user(written: pl.LazyFrame) -> pl.LazyFrame:
    """Rheos counts in the order in which rows arrive, Spark by time: on the way to a total they differ.
    That the numbers of a user go from 1 to how many there are shows in their sum and the largest."""
    n = pl.col("n")
    return written.group_by("user").agg(
        rows=pl.len(), largest=n.max(), sum=n.sum(), total=pl.col("total").max()
    )


# --- count and sum of each user, one row for all: in Rheos one window that holds everything ----------


def totals_rheos(run: Run) -> None:
    env = run.environment()
    totals = (
        run.events(env)
        .key_by("user")
        .window(rh.Tumbling("3650d"))
        .aggregate(n=rh.agg.count(), total=rh.agg.sum("price"))
    )
    run.execute(env, totals.select("user", "n", "total"), "totals")


def totals_dataframe(run: Run) -> None:
    counted = (
        run.rows().groupBy("user").agg(f.count(f.lit(1)).alias("n"), f.sum("price").alias("total"))
    )
    run.write(counted)


# --- hourly windows ---------------------------------------------------------------------------------


def hourly_rheos(run: Run, key: str) -> None:
    env = run.environment()
    hours = (
        run.events(env)
        .key_by(key)
        .window(rh.Tumbling("1h"))
        .aggregate(n=rh.agg.count(), total=rh.agg.sum("price"), dearest=rh.agg.max("price"))
    )
    run.execute(env, hours, "hourly")


def hourly_dataframe(run: Run, key: str) -> None:
    hours = run.rows().groupBy(f.window("at", "1 hour"), key)
    counted = hours.agg(
        f.count(f.lit(1)).alias("n"), f.sum("price").alias("total"), f.max("price").alias("dearest")
    )
    run.write(
        counted.select(
            key,
            f.col("window.start").alias("window_start"),
            f.col("window.end").alias("window_end"),
            "n",
            "total",
            "dearest",
        )
    )


# --- a Python function with state: what led to each purchase ------------------------------------------


@dataclass
class Step:
    user: int
    kind: str
    price: float


@dataclass
class Basket:
    views: int = 0
    carts: int = 0
    since: int = 0
    last: int = 0


@dataclass
class Purchase:
    user: int
    at_ms: int
    views: int
    carts: int
    took_ms: int
    price: float


class Purchases(rh.KeyedProcessFunction):
    """Says with each purchase what came before it."""

    basket = rh.ValueState(Basket, default=Basket())

    def process_element(self, step: Step, ctx: rh.KeyedContext) -> Iterator[Purchase]:
        basket = self.basket.value
        at = ctx.timestamp
        if at - basket.last > GAP_MS:
            basket.views = basket.carts = 0
            basket.since = at
        basket.last = at
        kind = step.kind
        if kind == "view":
            basket.views += 1
        elif kind == "cart":
            basket.carts += 1
        elif kind == "buy":
            took = at - basket.since
            yield Purchase(step.user, at, basket.views, basket.carts, took, step.price)
            basket.views = basket.carts = 0
            basket.since = at
        else:
            basket.last = 0


def process_rheos(run: Run) -> None:
    env = run.environment()
    steps = run.events(env).select("user", "kind", "price")
    run.execute(env, steps.key_by("user").process(Purchases(), order="event_time"), "purchases")


PURCHASE = "user long, at_ms long, views long, carts long, took_ms long, price double"


def _steps(run: Run) -> DataFrame:
    return run.rows().select("user", f.unix_millis("at").alias("at_ms"), "kind", "price")


def _purchases(rows: pd.DataFrame, views: int, carts: int, since: int, last: int) -> tuple[Any, ...]:
    """The purchases among the sorted rows of a user, and the state after them."""
    found = []
    for user, at, kind, price in rows[["user", "at_ms", "kind", "price"]].itertuples(
        index=False, name=None
    ):
        if at - last > GAP_MS:
            views = carts = 0
            since = at
        last = at
        if kind == "view":
            views += 1
        elif kind == "cart":
            carts += 1
        elif kind == "buy":
            found.append((user, at, views, carts, at - since, price))
            views = carts = 0
            since = at
        else:
            last = 0
    columns = ["user", "at_ms", "views", "carts", "took_ms", "price"]
    return pd.DataFrame(found, columns=columns), (views, carts, since, last)


def process_apply_in_pandas(run: Run) -> None:
    def of_user(rows: pd.DataFrame) -> pd.DataFrame:
        return _purchases(rows.sort_values("at_ms"), 0, 0, 0, 0)[0]

    run.write(_steps(run).groupBy("user").applyInPandas(of_user, PURCHASE))


class PurchasesInPandas(StatefulProcessor):
    """The same as `Purchases`. A key's rows come in no order, so they are gathered and sorted."""

    def init(self, handle: Any) -> None:
        self.basket = handle.getValueState("basket", "views long, carts long, since long, last long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Any:  # noqa: N802, N803
        before = self.basket.get() if self.basket.exists() else (0, 0, 0, 0)
        found, after = _purchases(pd.concat(rows).sort_values("at_ms"), *before)
        self.basket.update(after)
        yield found

    def close(self) -> None:
        pass


def process_with_state(run: Run) -> None:
    run.spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    # Spark 4.1 starts the coordinator of state stores, which the batch needs, with these.
    assert not run.spark.streams.active
    run.write(
        _steps(run)
        .groupBy("user")
        .transformWithStateInPandas(PurchasesInPandas(), PURCHASE, "append", "none")
    )


# --- all of them ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A program, each way it is written; `target` is how much slower Rheos may be, or (below 1) how
    much faster it must be."""

    about: str
    target: float
    rheos: Callable[[Run], None]
    by_hand: dict[str, Callable[[Run], None]]
    compared: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda written: written
    """What of the written rows is compared: all of it, but where it depends on the order of arrival."""


DATAFRAME = "DataFrame"

WORK = {
    "grep": Work("a literal in a URL; one row in 500", 2.0, grep_rheos, {DATAFRAME: grep_dataframe}),
    "running": Work(
        "count and sum of each user so far, a row for each row",
        2.0,
        running_rheos,
        {DATAFRAME: running_dataframe},
        last_of_each_user,
    ),
    "totals": Work(
        "count and sum of each user (Rheos: one window that holds all)",
        2.0,
        totals_rheos,
        {DATAFRAME: totals_dataframe},
    ),
    "hourly-kind": Work(
        "count, sum and maximum of each kind and hour",
        2.0,
        lambda run: hourly_rheos(run, "kind"),
        {DATAFRAME: lambda run: hourly_dataframe(run, "kind")},
    ),
    "hourly-user": Work(
        "count, sum and maximum of each user and hour",
        2.0,
        lambda run: hourly_rheos(run, "user"),
        {DATAFRAME: lambda run: hourly_dataframe(run, "user")},
    ),
    "process": Work(
        "a Python function with state, for each row in event-time order",
        0.2,
        process_rheos,
        {
            "applyInPandas": process_apply_in_pandas,
            "transformWithStateInPandas": process_with_state,
        },
    ),
}
