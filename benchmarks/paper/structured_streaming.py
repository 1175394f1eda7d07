"""Spark Structured Streaming doing the same work, on the same session as Rheos, in turns with it."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from benchmarks.paper.sampling import Sampler
from rheos.cli.benchmarks import grep

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Spark's own connector, for the comparison alone: Rheos needs no jar. Of the jars of 4.3 there was no
Kafka connector at Maven Central yet; that of 4.2 does the same work."""

_POLL_S = 0.2
_START_WITHIN_S = 120.0


def session(slots: int, *, kafka: bool = False, **settings: str) -> SparkSession:
    """The session that both sides run in. Rheos' workers come from its own daemon, as in a session that
    Rheos makes."""
    builder = SparkSession.builder.appName("experiments").master(f"local[{slots}]")
    conf = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "rheos.runtimes.spark.daemon",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        **({"spark.jars.packages": KAFKA_PACKAGE} if kafka else {}),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@dataclass(frozen=True)
class Batches:
    """What a query did between its warm-up and its end."""

    rows: int
    seconds: float
    cpu_s: float
    durations_ms: list[int]
    """How long each micro-batch took."""
    commits_ms: list[int]
    """How much of that was the commit of its state and of its log."""
    interval_ms: int = 0
    """Of the trigger: a micro-batch has the rows that were due within that time before it."""

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def latency_ms(self) -> dict[str, float]:
        """From when a row was due, or was made where there is no trigger, to the end of its
        micro-batch, which is when its update is there. Micro-batches are of one size here."""
        waits = np.linspace(0, self.interval_ms, 101)
        latencies = np.add.outer(np.array(self.durations_ms), waits).ravel()
        quantiles = np.quantile(latencies, [0.5, 0.9, 0.99])
        return {
            name: round(float(ms), 1) for name, ms in zip(("p50", "p90", "p99"), quantiles, strict=True)
        }

    def measurements(self, cores: int) -> dict[str, Any]:
        """By the names that `rheos bench --json` has."""
        return {
            "records_per_s": round(self.rows_per_s),
            "records_per_s_per_core": round(self.rows_per_s / cores),
            "us_per_record": round(self.cpu_s * 1e6 / max(self.rows, 1), 4),
            "cpu_share": round(self.cpu_s / self.seconds / cores, 3),
            "micro_batch_ms": round(statistics.median(self.durations_ms)),
            "commit_share": round(sum(self.commits_ms) / sum(self.durations_ms), 3),
            "latency_ms": self.latency_ms(),
        }


def made_up(spark: SparkSession, rows_per_batch: int, partitions: int) -> DataFrame:
    """An endless stream of numbers, as fast as they are taken, so many in a micro-batch."""
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", partitions)
        .load()
    )


def from_kafka(
    spark: SparkSession,
    brokers: str,
    topic: str,
    schema: str,
    rows_per_batch: int | None,
    *fields: str,
) -> DataFrame:
    """A topic of JSON from its beginning, as columns; without a number all that is there at once.
    `fields` are those of the message that stand beside them, such as "timestamp"."""
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    if rows_per_batch is not None:
        read = read.option("maxOffsetsPerTrigger", rows_per_batch)
    return (
        read.load()
        .select(fn.from_json(fn.col("value").cast("string"), schema).alias("row"), *fields)
        .select("row.*", *fields)
    )


def grep_lines(numbers: DataFrame) -> DataFrame:
    """The lines of `rheos bench grep` that match, of a pool that is a constant of the query."""
    pool = grep.lines(0).slice(0, 4096).to_pylist()
    lines = fn.array(*map(fn.lit, pool))
    line = fn.element_at(lines, (fn.pmod("value", fn.lit(len(pool))) + 1).cast("int"))
    return numbers.select(line.alias("line")).where(fn.col("line").rlike(grep.PATTERN))


def totals(numbers: DataFrame, keys: int) -> DataFrame:
    """Count and sum by key; in update mode each micro-batch gives one row for each key that it has."""
    key = fn.pmod(fn.xxhash64("value"), fn.lit(keys)).alias("k")
    value = (fn.pmod("value", fn.lit(1000)) / 1000).alias("v")
    return (
        numbers.select(key, value)
        .groupBy("k")
        .agg(fn.count("*").alias("count"), fn.sum("v").alias("sum"))
    )


def measure(
    spark: SparkSession,
    stream: DataFrame,
    *,
    mode: str,
    partitions: int,
    warmup_s: float,
    seconds: float,
    interval_ms: int | None = None,
    settings: dict[str, str] | None = None,
) -> Batches:
    """Runs a stream into nothing, and counts the micro-batches that begin and end in the time measured.

    Args:
        mode: of output: "append" or "update".
        partitions: of its shuffles.
        interval_ms: of the trigger; None begins a micro-batch as soon as the last is done.
        settings: of the session, while it runs.
    """
    before = {name: spark.conf.get(name, None) for name in (settings or {})}
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for name, value in (settings or {}).items():
        spark.conf.set(name, value)
    folder = tempfile.mkdtemp(prefix="rheos-paper-")
    writer = stream.writeStream.format("noop").outputMode(mode).option("checkpointLocation", folder)
    if interval_ms is not None:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    query = writer.start()
    try:
        _until(query, lambda: _newest(query) >= 1)
        time.sleep(warmup_s)
        warmed = _newest(query)
        _until(query, lambda: _newest(query) > warmed)
        with Sampler() as sampler:
            first, began = _newest(query), time.perf_counter()
            time.sleep(seconds)
            done = _newest(query)
            # To the end of the batch that is under way, so that whole ones are counted.
            _until(query, lambda: _newest(query) > done)
            last, took = _newest(query), time.perf_counter() - began
        counted = [each for each in query.recentProgress if first < each["batchId"] <= last]
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)
        for name, was in before.items():
            spark.conf.unset(name) if was is None else spark.conf.set(name, was)
    return Batches(
        rows=sum(each["numInputRows"] for each in counted),
        seconds=took,
        cpu_s=sampler.samples[-1].cpu_s,
        durations_ms=[each["durationMs"]["triggerExecution"] for each in counted],
        commits_ms=[_commit_ms(each) for each in counted],
        interval_ms=interval_ms or 0,
    )


def _newest(query: StreamingQuery) -> int:
    """The number of the newest micro-batch that has ended; -1 where none has."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _commit_ms(progress: Any) -> int:
    """Of the offsets, the log and the slowest task of each operator with state."""
    durations = progress["durationMs"]
    logged = durations.get("walCommit", 0) + durations.get("commitOffsets", 0)
    tasks = [
        state["commitTimeMs"] // max(state["numShufflePartitions"], 1)
        for state in progress["stateOperators"]
    ]
    return int(logged + sum(tasks))


def _until(query: StreamingQuery, is_so: Callable[[], Any]) -> None:
    give_up = time.monotonic() + _START_WITHIN_S
    while not is_so():
        error = query.exception()
        if error is not None:
            raise error
        if time.monotonic() > give_up:
            raise TimeoutError(f"no micro-batch within {_START_WITHIN_S:.0f} s")
        time.sleep(_POLL_S / 10)
