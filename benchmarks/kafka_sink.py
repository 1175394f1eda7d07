"""What exactly once costs at a sink of Kafka: whole jobs, in turns, on one session and one broker.

usage: python benchmarks/kafka_sink.py [--parallelism 2] [--rows N] [--rounds 3] [--interval 1s]
                                  [--writers | --loop]

A generator gives rows of about 100 bytes as JSON, with keys, to a topic of two partitions. A round
runs the job once with each guarantee, and the ratio is that of a round. Timed is from when the job runs
to when all of it is committed. Exactly once writes nothing to the topic before its first checkpoint is
complete: with few rows that second is a large part, so take enough for a run of 20 s.

`--writers` has the two writers alone in one process, in turns, and prints what a record costs of the
processor's time, and of the slot's thread. `--loop` times the loop of `produce` alone: of batches that
are encoded already, with a queue that takes all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

import rheos as rh
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.producing import Producing
from rheos.core.connectors.contract import SinkContext
from rheos.runtimes.host.io import InlineIo, SystemClock
from rheos.testing.servers import KafkaBroker

GUARANTEES = ("at_least_once", "exactly_once")


def visits(block: rh.Block) -> dict[str, Any]:
    n = block.index()
    return {"user": n % 10_000, "page": n % 97, "n": n, "text": np.full(len(n), "x" * 60)}


def new_topic(brokers: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": brokers})
    for made in admin.create_topics([NewTopic(name, 2, 1)]).values():
        made.result()
    return name


def run(
    brokers: str, topic: str, guarantee: Any, *, rows: int, interval: str, parallelism: int
) -> float:
    """Rows per second."""
    env = rh.Environment(parallelism, runtime="continuous", checkpoint_interval=interval)
    sink = rh.kafka.sink(topic, brokers=brokers, key="user", guarantee=guarantee)
    env.from_source(rh.generator(visits, count=rows, splits=parallelism)).sink_to(sink)
    job = env.execute_async(guarantee)
    while job.status().state is rh.JobState.STARTING:
        time.sleep(0.002)
    began = time.perf_counter()
    job.wait()
    return rows / (time.perf_counter() - began)


def loop(brokers: str, rows: int) -> None:
    values = pa.array([b"x" * 100] * 8_192, pa.binary())
    keys = pa.array([b"%d" % n for n in range(8_192)], pa.binary())
    batch = pa.RecordBatch.from_pydict({"value": values, "key": keys})
    rounds = max(rows // batch.num_rows, 1)
    options = {"queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 2_000_000}
    producing = Producing(ClientOptions.of(brokers, options), new_topic(brokers, "loop"))
    began = time.thread_time()
    for _ in range(rounds):
        producing.produce(batch)
    took = time.thread_time() - began
    print(f"{took * 1e6 / rounds / batch.num_rows:.2f} µs of the thread for a record")
    producing.close()


def writers(brokers: str, rows: int, rounds: int) -> None:
    batch = pa.RecordBatch.from_pydict(visits(rh.Block(0, 0, 8_192, 0)))
    batches = max(rows // batch.num_rows, 1)
    topic = new_topic(brokers, "writers")
    costs: dict[str, list[tuple[float, float]]] = {guarantee: [] for guarantee in GUARANTEES}
    with tempfile.TemporaryDirectory() as folder:
        opened = {
            guarantee: rh.kafka.sink(topic, brokers=brokers, key="user", guarantee=guarantee)
            .prepared(batch.schema, ("job", "sink"))
            .staged(folder)
            .open(SinkContext("job", 1, "sink", 0, SystemClock(), InlineIo(), batch.schema))
            for guarantee in GUARANTEES
        }
        for turn in range(1, rounds + 1):
            for guarantee, writer in opened.items():
                began, began_slot = time.process_time(), time.thread_time()
                for _ in range(batches):
                    writer.write(batch)
                staged = writer.prepare(turn)
                slot = time.thread_time() - began_slot
                committer = writer.committer()
                if committer is not None:
                    committer.commit(staged)
                took = time.process_time() - began
                costs[guarantee].append((took, slot))
        for writer in opened.values():
            writer.close()
    for guarantee, found in costs.items():
        took, slot = (
            statistics.median(each) * 1e6 / batches / 8_192 for each in zip(*found, strict=True)
        )
        print(f"{guarantee}: {took:.2f} µs a record, of which {slot:.2f} in the slot's thread")


def main() -> None:
    parser = argparse.ArgumentParser(description="What exactly once costs at a sink of Kafka.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--writers", action="store_true")
    parser.add_argument("--loop", action="store_true")
    given = parser.parse_args()
    with KafkaBroker() as broker:
        if given.loop:
            return loop(broker.address, given.rows)
        if given.writers:
            return writers(broker.address, given.rows // given.rounds, given.rounds)
        job = partial(run, broker.address, interval=given.interval, parallelism=given.parallelism)
        job(new_topic(broker.address, "warm"), "exactly_once", rows=10_000)
        ratios = []
        for turn in range(given.rounds):
            rates = {}
            for guarantee in GUARANTEES[:: 1 if turn % 2 else -1]:
                topic = new_topic(broker.address, f"{guarantee}-{turn}")
                rates[guarantee] = job(topic, guarantee, rows=given.rows)
            ratios.append(rates["exactly_once"] / rates["at_least_once"])
            told = ", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in sorted(rates.items()))
            print(f"{told}; ratio {ratios[-1]:.2f}", flush=True)
        print(f"exactly once / at least once, median of {len(ratios)}: {statistics.median(ratios):.2f}")
    return None


if __name__ == "__main__":
    main()
