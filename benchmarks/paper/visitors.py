"""Visitors per country and hour, and sessions, from a topic of Kafka; both held to the exact result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import polars as pl

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.plots import Plots, bars, legend, panels, titled
from benchmarks.paper.sampling import Sampler
from benchmarks.paper.tables import digits, middle, millions, ratio_of, sections, spread, table
from benchmarks.paper.visits import LAST, Visits, hits, sessions, wrong_rows

CORES = 2
TOPIC, PARTITIONS = "visits", 4
RECORDS, QUICK_RECORDS = 2_000_000, 100_000
WARM, WARM_RECORDS = "warm", 20_000
"""A topic that both read first: the JVM compiles what it has seen."""
USERS_PER_RECORD = 0.05
BATCHES = 5
"""Micro-batches that Structured Streaming reads the topic in."""


@dataclass
class Visit:
    user: int
    country: str
    page: int
    at: int


Found = dict[str, pl.DataFrame]
"""By "hits" and "sessions"."""


def by_rheos(brokers: str, topic: str) -> Found:
    import rheos as rh

    env = rh.Environment(CORES, runtime="continuous", checkpoint_interval="5s")
    visits = env.from_source(
        rh.kafka.source(
            topic, brokers=brokers, schema=Visit, format=rh.formats.json(), end="latest", discover=None
        ),
        watermark=rh.Watermark.bounded_out_of_orderness("1m", on="at"),
    )
    by_country = visits.key_by("country").window(rh.Tumbling("1h"))
    by_country.aggregate(hits=rh.agg.count(), visitors=rh.agg.count_distinct("user")).collect("hits")
    by_user = visits.key_by("user").window(rh.Session(gap="10m"))
    by_user.aggregate(hits=rh.agg.count()).collect("sessions")
    collected = env.execute("visitors").collected
    return {
        name: pl.DataFrame(pl.from_arrow(table)).with_columns(
            start=pl.col("window_start").dt.epoch("ms"), end=pl.col("window_end").dt.epoch("ms")
        )
        for name, table in collected.items()
    }


def by_spark(spark: Any, brokers: str, topic: str, records: int) -> Found:
    from pyspark.sql import functions as fn

    from benchmarks.paper import structured_streaming

    schema = "user BIGINT, country STRING, page BIGINT, at BIGINT"
    rows = structured_streaming.from_kafka(spark, brokers, topic, schema, records // BATCHES)
    visits = rows.withColumn("at", fn.timestamp_millis("at")).withWatermark("at", "1 minute")
    # Streaming has no exact count(distinct): the set of users is kept, which is the same work.
    by_country = visits.groupBy(fn.window("at", "1 hour").alias("w"), "country").agg(
        fn.count("*").alias("hits"), fn.size(fn.collect_set("user")).alias("visitors")
    )
    by_user = visits.groupBy(fn.session_window("at", "10 minutes").alias("w"), "user").agg(
        fn.count("*").alias("hits")
    )
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    queries = {
        name: frame.withColumns({"start": fn.unix_millis("w.start"), "end": fn.unix_millis("w.end")})
        .drop("w")
        .writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
        for name, frame in (("hits", by_country), ("sessions", by_user))
    }
    for query in queries.values():
        query.awaitTermination()
    found = {name: pl.DataFrame(pl.from_arrow(spark.table(name).toArrow())) for name in queries}
    for name in queries:
        spark.catalog.dropTempView(name)
    return found


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming
    from benchmarks.paper.topics import fill
    from rheos.testing.servers import KafkaBroker

    records = QUICK_RECORDS if options.quick else RECORDS
    made = Visits(records, users=round(records * USERS_PER_RECORD))
    with KafkaBroker() as broker:
        options.say(f"writing {records:,} visits")
        written = fill(broker.address, TOPIC, PARTITIONS, made.values())
        warm = fill(broker.address, WARM, PARTITIONS, Visits(WARM_RECORDS, users=1_000).values())
        record = made.frame()
        right = {"hits": hits(record), "sessions": sessions(record)}
        spark = structured_streaming.session(CORES + 1, kafka=True)

        def read(engine: str, topic: str, count: int) -> Found:
            if engine == RHEOS:
                return by_rheos(broker.address, topic)
            return by_spark(spark, broker.address, topic, count)

        for engine in (RHEOS, SPARK):
            options.say(f"warming up {engine}")
            read(engine, WARM, warm)

        def measure(cell: Cell) -> dict[str, Any]:
            began = time.perf_counter()
            with Sampler() as sampler:
                found = read(cell["engine"], TOPIC, written)
            seconds = time.perf_counter() - began
            cpu_s = sampler.samples[-1].cpu_s
            wrong = {
                # The record at the end belongs to nobody.
                name: wrong_rows(found[name].filter(pl.col(column) != nobody), right[name])
                for name, column, nobody in (("hits", "country", LAST), ("sessions", "user", -1))
            }
            return {
                "seconds": round(seconds, 2),
                "records_per_s": round(written / seconds),
                "us_per_record": round(cpu_s * 1e6 / written, 3),
                "wrong_hits": wrong["hits"],
                "wrong_sessions": wrong["sessions"],
            }

        runs = in_turns(options, [{"engine": RHEOS}, {"engine": SPARK}], measure)
    return {
        "records": written,
        "partitions": PARTITIONS,
        "rows": {name: frame.height for name, frame in right.items()},
        "runs": runs,
    }


def show(results: dict[str, Any], plots: Plots) -> str:
    runs, rows = results["runs"], results["rows"]
    engines = [(RHEOS, BLUE), (SPARK, ORANGE)]
    figure, axes = panels(2, height=2.6)
    for axis, name, title, unit in (
        (axes[0], "records_per_s", "From the topic to all results", "thousand records/s"),
        (axes[1], "us_per_record", "Processor time", "µs per record"),
    ):
        scale = 1000 if name == "records_per_s" else 1
        series: dict[str, tuple[str, list[float | None]]] = {}
        for engine, colour in engines:
            value = middle(where(runs, engine=engine), name)
            series[engine] = (colour, [None if value is None else value / scale])
        bars(axis, ["visitors and sessions"], series)
        titled(axis, title, "", unit)
    legend(figure)
    drawn = plots.save(figure, "visitors", "Visitors per country and sessions from Kafka")
    lines = [
        [
            engine,
            spread(of, "seconds", digits),
            spread(of, "records_per_s", millions),
            spread(of, "us_per_record", digits),
            f"{max(run['wrong_hits'] for run in of):,} of {rows['hits']:,}",
            f"{max(run['wrong_sessions'] for run in of):,} of {rows['sessions']:,}",
        ]
        for engine, _ in engines
        for of in [where(runs, engine=engine)]
        if of
    ]
    heads = ["engine", "s in all", "records/s", "processor µs per record"]
    heads += ["wrong rows: visitors", "wrong rows: sessions"]
    ours = where(runs, engine=RHEOS)
    wrong = sum(run["wrong_hits"] + run["wrong_sessions"] for run in ours)
    is_right = "each row is right" if wrong == 0 else f"{wrong:,} rows are wrong"
    says = (
        f"Of {results['records']:,} records Rheos computes {rows['hits']:,} hours of countries and "
        f"{rows['sessions']:,} sessions, and {is_right}."
    )
    if saved := ratio_of(where(runs, engine=SPARK), ours, "us_per_record"):
        says += f" A record costs Structured Streaming {saved} times the processor time."
    return sections(drawn, table(heads, lines), says)


EXPERIMENT = Experiment(
    "visitors",
    "visitors per country and sessions from Kafka, checked",
    run,
    show,
    seconds=0.1,
)
