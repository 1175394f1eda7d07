"""A topic of ten partitions read at full speed into a keyed aggregate, by workers of 1 GiB each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK
from benchmarks.paper.plots import OTHERS, Plots, legend, level, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.sampling import Sampler, workers
from benchmarks.paper.tables import digits, millions, percent, sections, spread, table

CORES = 2
TOPIC, PARTITIONS = "events", 10
RECORDS, QUICK_RECORDS = 6_000_000, 200_000
WARM, WARM_RECORDS = "warm", 20_000
"""A topic that both read first: the JVM compiles what it has seen."""
KEYS = 1_000_000
LIMIT_MIB = 1024
WATCH_S = 0.25
ROWS_PER_BATCH = 1_000_000
"""Of Structured Streaming."""
NOTE = "x" * 120
SCHEMA = pa.schema(
    [("user", pa.int64()), ("at", pa.int64()), ("price", pa.float64()), ("note", pa.string())]
)
_CHUNK = 200_000


def values(records: int) -> Iterator[list[bytes]]:
    """Events of some 180 bytes, as JSON."""
    rng = np.random.default_rng(0)
    for begin in range(0, records, _CHUNK):
        count = min(_CHUNK, records - begin)
        events = pl.DataFrame(
            {
                "user": rng.integers(0, KEYS, count),
                "at": np.arange(begin, begin + count) + 1_700_000_000_000,
                "price": rng.integers(0, 10_000, count) / 100,
                "note": [NOTE] * count,
            }
        )
        made = events.select(pl.struct(pl.all()).struct.json_encode().alias("value"))
        yield made["value"].cast(pl.Binary).to_list()


def by_rheos(brokers: str, topic: str) -> int:
    """Reads the topic to its end. Gives how often the job was restarted."""
    import rheos as rh

    env = rh.Environment(CORES, runtime="continuous", checkpoint_interval="5s")
    events = env.from_source(
        rh.kafka.source(
            topic, brokers=brokers, schema=SCHEMA, format=rh.formats.json(), end="latest", discover=None
        )
    )
    totals = events.select("user", "price").key_by("user")
    running = totals.running(events=rh.agg.count(), spent=rh.agg.sum("price"))
    # One row in a million is kept: what is measured is the way to it.
    running.filter(pl.col("user") == 0).collect("some")
    return env.execute("stress").status.restarts


def by_spark(spark: Any, brokers: str, topic: str) -> int:
    from pyspark.sql import functions as fn

    from benchmarks.paper import structured_streaming

    schema = "user BIGINT, at BIGINT, price DOUBLE, note STRING"
    rows = structured_streaming.from_kafka(spark, brokers, topic, schema, ROWS_PER_BATCH)
    totals = rows.groupBy("user").agg(fn.count("*").alias("events"), fn.sum("price").alias("spent"))
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    query = totals.writeStream.format("noop").outputMode("update").trigger(availableNow=True).start()
    query.awaitTermination()
    return 0


class Limit:
    """Holds workers to their memory as a container does: one that has more is killed."""

    def __init__(self, mib: int) -> None:
        self._bytes = mib << 20
        self.killed = 0

    def watch(self) -> dict[str, float]:
        """Memory of the largest worker and of the JVM, in MiB."""
        largest = 0
        for worker in workers():
            memory = worker.memory_info().rss
            largest = max(largest, memory)
            if memory > self._bytes:
                worker.kill()
                self.killed += 1
        return {"worker_mib": round(largest / 2**20, 1)}


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming
    from benchmarks.paper.topics import fill
    from rheos.testing.servers import KafkaBroker

    with KafkaBroker() as broker:
        records = QUICK_RECORDS if options.quick else RECORDS
        options.say(f"writing {records:,} events")
        written = fill(broker.address, TOPIC, PARTITIONS, values(records))
        fill(broker.address, WARM, PARTITIONS, values(WARM_RECORDS))
        # Structured Streaming works in the JVM: that gets what two workers have.
        heap = {"spark__driver__memory": f"{CORES * LIMIT_MIB}m"}
        spark = structured_streaming.session(CORES + 1, kafka=True, **heap)

        def read(engine: str, topic: str) -> int:
            if engine == RHEOS:
                return by_rheos(broker.address, topic)
            return by_spark(spark, broker.address, topic)

        for engine in (RHEOS, SPARK):
            options.say(f"warming up {engine}")
            read(engine, WARM)

        def measure(cell: Cell) -> dict[str, Any]:
            limit = Limit(LIMIT_MIB)
            began = time.perf_counter()
            with Sampler(WATCH_S, also=limit.watch) as sampler:
                restarts = read(cell["engine"], TOPIC)
            seconds = time.perf_counter() - began
            cpu_s = sampler.samples[-1].cpu_s
            return {
                "seconds": round(seconds, 2),
                "records_per_s": round(written / seconds),
                "records_per_s_per_core": round(written / seconds / CORES),
                "us_per_record": round(cpu_s * 1e6 / written, 3),
                "cpu_share": round(cpu_s / seconds / CORES, 3),
                "restarts": restarts,
                "killed": limit.killed,
                "peak_worker_mib": max(each.measurements["worker_mib"] for each in sampler.samples),
                "peak_process_mib": max(max(each.rss_mib.values()) for each in sampler.samples),
                "memory": [
                    [each.at_s, each.measurements["worker_mib"], max(each.rss_mib.values())]
                    for each in sampler.samples
                ],
            }

        runs = in_turns(options, [{"engine": RHEOS}, {"engine": SPARK}], measure)
    return {
        "records": written,
        "partitions": PARTITIONS,
        "keys": KEYS,
        "limit_mib": LIMIT_MIB,
        "cores": CORES,
        "runs": runs,
    }


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    figure, (axes,) = panels()
    first = {engine: where(runs, engine=engine)[0]["memory"] for engine in (RHEOS, SPARK)}
    for engine, column, colour, label in (
        (RHEOS, 1, BLUE, "Rheos: the largest worker"),
        (RHEOS, 2, OTHERS[0], "Rheos: the JVM beside it, which does none of the work"),
        (SPARK, 2, ORANGE, f"{SPARK}: the JVM"),
    ):
        at = [sample[0] for sample in first[engine]]
        axes.plot(at, [sample[column] for sample in first[engine]], color=colour, label=label)
    level(axes, results["limit_mib"], "the limit of a worker")
    axes.set_ylim(bottom=0)
    titled(axes, "Memory while the topic is read at full speed", "s", "MiB")
    legend(figure)
    drawn = plots.save(figure, "stress", "Memory of the workers over time")
    rows = [
        [
            engine,
            spread(of, "records_per_s_per_core", millions),
            spread(of, "us_per_record", digits),
            spread(of, "cpu_share", percent),
            spread(of, "peak_worker_mib" if engine == RHEOS else "peak_process_mib", digits),
            f"{sum(run['killed'] for run in of)}",
            f"{sum(run['restarts'] for run in of)}",
        ]
        for engine in (RHEOS, SPARK)
        for of in [where(runs, engine=engine)]
    ]
    heads = ["engine", "records/s per core", "processor µs per record", "share of its cores"]
    heads += ["peak, MiB", "workers killed", "restarts"]
    ours = where(runs, engine=RHEOS)
    killed = sum(run["killed"] for run in ours)
    peak = digits(max(run["peak_worker_mib"] for run in ours))
    says = (
        f"A worker never had more than {peak} MiB of its {results['limit_mib']:,} MiB, and "
        f"{killed or 'none'} had to be killed, while {results['records']:,} records went through."
    )
    return sections(drawn, table(heads, rows), says)


EXPERIMENT = Experiment(
    "stress", "ten partitions at full speed, workers of 1 GiB", run, show, seconds=0.1
)
