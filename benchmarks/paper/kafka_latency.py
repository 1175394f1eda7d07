"""From Kafka to Kafka at a given rate: how long a record takes, in Rheos, in micro-batches, and in the
real-time mode of Structured Streaming; without state, and with a count for each user."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK
from benchmarks.paper.plots import OTHERS, Plots, legend, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.sampling import Sampler
from benchmarks.paper.tables import are_enough, digits, middle, sections, spread, table

CORES = 2
PARTITIONS = 2
RATE_PER_S = 5_000
TRICKLE_PER_S = 50
REAL_TIME = f"{SPARK}, real-time mode"
ENGINES = (RHEOS, SPARK, REAL_TIME)
FILTER, COUNT = "filter", "count by user"
PERCENTILES = (50, 90, 99)
_PAUSE_S = 0.005
_START_WITHIN_S = 120.0
_SCHEMA = "sent_us BIGINT, user BIGINT, kind STRING"


class Producer:
    """Sends few records at first, so that a job that starts has no backlog, and then `rate_per_s`."""

    def __init__(self, brokers: str, topic: str) -> None:
        from confluent_kafka import Producer as Client

        self._client = Client({"bootstrap.servers": brokers, "linger.ms": 0})
        self._topic = topic
        self.rate_per_s = TRICKLE_PER_S
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        last, due, sent = time.perf_counter(), 0.0, 0
        while not self._stop.wait(_PAUSE_S):
            now = time.perf_counter()
            due += (now - last) * self.rate_per_s
            last = now
            for number in range(sent, int(due)):
                kind = "click" if number % 2 else "view"
                record = {"sent_us": time.time_ns() // 1000, "user": number % 1000, "kind": kind}
                self._client.produce(self._topic, json.dumps(record), partition=number % PARTITIONS)
            self._client.poll(0)
            sent = int(due)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.flush()


class Reader:
    """Reads what comes out, from now on, and notes how old each record is when it is there."""

    def __init__(self, brokers: str, topic: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._client = Consumer(
            {"bootstrap.servers": brokers, "group.id": topic, "fetch.wait.max.ms": 5}
        )
        self._client.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
        self.ages_us: list[int] = []
        """Ages in µs of the results: each is that of the newest record in the result."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._client.consume(1_000, 0.005)
            now = time.time_ns() // 1000
            self.ages_us += [
                now - json.loads(message.value())["sent_us"]
                for message in messages
                if message.error() is None
            ]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()


@contextmanager
def rheos_job(brokers: str, source: str, target: str, work: str) -> Iterator[None]:
    import polars as pl
    import pyarrow as pa

    import rheos as rh

    schema = pa.schema([("sent_us", pa.int64()), ("user", pa.int64()), ("kind", pa.string())])
    env = rh.Environment(CORES, runtime="continuous", checkpoint_interval="5s", buffer_timeout=0)
    read = rh.kafka.source(source, brokers=brokers, schema=schema, format=rh.formats.json())
    rows = env.from_source(read)
    if work == FILTER:
        results = rows.filter(pl.col("kind") == "click")
    else:
        results = rows.key_by("user").running(sent_us=rh.agg.max("sent_us"), count=rh.agg.count())
    results.sink_to(rh.kafka.sink(target, brokers=brokers, guarantee="at_least_once"))
    job = env.execute_async("kafka to kafka")
    try:
        yield
    finally:
        job.cancel()


@contextmanager
def spark_query(
    spark: Any, brokers: str, source: str, target: str, work: str, real_time: bool
) -> Iterator[None]:
    from pyspark.sql import functions as fn

    from benchmarks.paper import structured_streaming

    rows = structured_streaming.from_kafka(spark, brokers, source, _SCHEMA, None)
    if work == FILTER:
        results = rows.where("kind = 'click'")
    else:
        results = rows.groupBy("user").agg(
            fn.max("sent_us").alias("sent_us"), fn.count("*").alias("count")
        )
    folder = tempfile.mkdtemp(prefix="rheos-paper-")
    writer = (
        results.select(fn.to_json(fn.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("topic", target)
        .option("checkpointLocation", folder)
        .outputMode("update")
    )
    # A batch of the real-time mode is what lies between two checkpoints.
    query = (writer.trigger(realTime="5 seconds") if real_time else writer).start()
    try:
        yield
        if query.exception() is not None:
            raise query.exception()
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming
    from benchmarks.paper.committed import make_topics
    from rheos.testing.servers import KafkaBroker

    with KafkaBroker() as broker:
        # In the real-time mode all tasks of both stages run at the same time.
        spark = structured_streaming.session(
            CORES * 2, kafka=True, spark__sql__shuffle__partitions=str(CORES)
        )
        brokers = broker.address

        def measure(cell: Cell) -> dict[str, Any]:
            engine, work = cell["engine"], cell["work"]
            name = f"{engine}-{time.time_ns()}".replace(" ", "-").replace(",", "")
            source, target = f"in-{name}", f"out-{name}"
            make_topics(brokers, {source: PARTITIONS, target: PARTITIONS})
            if engine == RHEOS:
                job = rheos_job(brokers, source, target, work)
            else:
                job = spark_query(spark, brokers, source, target, work, engine == REAL_TIME)
            producer, reader = Producer(brokers, source), Reader(brokers, target)
            try:
                with job:
                    _until(lambda: len(reader.ages_us) > TRICKLE_PER_S)
                    producer.rate_per_s = RATE_PER_S
                    time.sleep(options.warmup_s)
                    before, began = len(reader.ages_us), time.perf_counter()
                    with Sampler() as sampler:
                        time.sleep(options.seconds)
                        # A micro-batch may take longer than that on a machine that has other work.
                        _until(lambda: len(reader.ages_us) > before)
                    seconds = time.perf_counter() - began
                    ages = np.array(reader.ages_us[before:])
            finally:
                producer.stop()
                reader.stop()
            quantiles = np.percentile(ages, PERCENTILES) / 1000
            return {
                "results_per_s": round(len(ages) / seconds),
                "latency_ms": {
                    f"p{n}": round(float(q), 2) for n, q in zip(PERCENTILES, quantiles, strict=True)
                },
                "us_per_record": round(sampler.samples[-1].cpu_s * 1e6 / seconds / RATE_PER_S, 1),
            }

        cells = [{"work": work, "engine": engine} for work in (FILTER, COUNT) for engine in ENGINES]
        runs = in_turns(options, cells, measure)
    return {"rate_per_s": RATE_PER_S, "runs": runs}


def _until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _START_WITHIN_S
    while not is_so():
        if time.monotonic() > give_up:
            raise TimeoutError(f"no records came out within {_START_WITHIN_S:.0f} s")
        time.sleep(0.05)


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    figure, axes = panels(2, height=2.8)
    rows, says = [], []
    for work, each in zip((FILTER, COUNT), axes, strict=True):
        for engine, colour in zip(ENGINES, (BLUE, ORANGE, OTHERS[0]), strict=True):
            of = where(runs, work=work, engine=engine)
            ms = [middle(of, f"latency_ms.p{n}") for n in PERCENTILES]
            each.plot([f"p{n}" for n in PERCENTILES], ms, color=colour, marker="o", label=engine)
            rows.append(
                [
                    work,
                    engine,
                    spread(of, "results_per_s", lambda rate: f"{rate:,.0f}"),
                    *(spread(of, f"latency_ms.p{n}", digits) for n in PERCENTILES),
                    spread(of, "us_per_record", digits),
                ]
            )
        each.set_yscale("log")
        titled(each, f"{work} at {results['rate_per_s']:,} records/s", "", "latency, ms")
        if are_enough(*(where(runs, work=work, engine=engine) for engine in ENGINES)):
            says.append(_sentences(runs, work))
    legend(figure)
    drawn = plots.save(figure, "kafka-latency", "Latency from Kafka to Kafka of three engines")
    heads = [
        "work",
        "engine",
        "results/s",
        *(f"p{n}, ms" for n in PERCENTILES),
        "processor µs per record",
    ]
    return sections(drawn, table(heads, rows), " ".join(says))


def _sentences(runs: Sequence[dict[str, Any]], work: str) -> str:
    def p(engine: str, n: int) -> str:
        return spread(where(runs, work=work, engine=engine), f"latency_ms.p{n}")

    return (
        f"With the {work}, a result is in the other topic after {p(RHEOS, 50)} ms at the median and "
        f"{p(RHEOS, 99)} ms at the 99th percentile. In micro-batches it is there after "
        f"{p(SPARK, 50)} and {p(SPARK, 99)} ms, in the real-time mode after {p(REAL_TIME, 50)} and "
        f"{p(REAL_TIME, 99)} ms."
    )


EXPERIMENT = Experiment(
    "kafka-latency",
    "from Kafka to Kafka, compared with Spark's real-time mode",
    run,
    show,
    seconds=8,
)
