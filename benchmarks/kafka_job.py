"""How many events a whole job takes from Kafka: a topic, a shuffle, and a count and sum per key and
hour.

The job and the client's own consumers read the same topics in turns, each to its end: two slots here,
two processes there, which look at no message. What the client manages is the limit where a message is
one event. Events are JSON, or raw values that are counted by the message's key; or Arrow, of which a
message holds many: there are ten times as many events. Timed is from when the job runs to its end, with
a checkpoint each second. The broker is a real one on this machine, and shares its cores.

usage: python benchmarks/kafka_job.py [--records 3000000] [--rounds 3] [--only json raw]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from kafka_source import SCHEMA, by_the_client, event, fill

import rheos as rh
from rheos.testing.servers import KafkaBroker

PARTITIONS = 4
PARALLELISM = 2
EVENTS_PER_MESSAGE = 500
MANY_TIMES = 10
"""Of Arrow: how many events a message has, and how many times as many there are in all."""
SINGLE, MANY = "single", "many"
"""The topics, by how many events a message holds."""
WAYS = ("client", "json", "raw", "arrow")
OUT_OF_ORDER = "5s"


def arrow_messages(records: int) -> Iterator[bytes]:
    for begin in range(0, records, EVENTS_PER_MESSAGE):
        n = np.arange(begin, min(begin + EVENTS_PER_MESSAGE, records))
        columns = {
            "user": n % 10_000,
            "at": 1_700_000_000_000 + n,
            "kind": ["click"] * len(n),
            "price": n % 97 + 0.25,
            "note": ["x" * 110] * len(n),
        }
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, SCHEMA) as stream:
            stream.write_batch(pa.RecordBatch.from_pydict(columns, SCHEMA))
        yield out.getvalue().to_pybytes()


def by_the_job(brokers: str, way: str, records: int) -> float:
    """Seconds."""
    env = rh.Environment(PARALLELISM, runtime="continuous", checkpoint_interval="1s")
    read = {"brokers": brokers, "end": "latest"}
    if way == "raw":
        source = rh.kafka.source(SINGLE, metadata={"key": "user", "timestamp": "at"}, **read)
    elif way == "arrow":
        source = rh.kafka.source(MANY, schema=SCHEMA, format=rh.formats.arrow(), **read)
    else:
        source = rh.kafka.source(SINGLE, schema=SCHEMA, format=rh.formats.json(), **read)
    watermark = rh.Watermark.bounded_out_of_orderness(OUT_OF_ORDER, on="at")
    events = env.from_source(source, watermark=watermark)
    sums = {} if way == "raw" else {"spent": rh.agg.sum("price")}
    hours = events.key_by("user").window(rh.Tumbling("1h"))
    hours.aggregate(events=rh.agg.count(), **sums).collect("hours")
    handle = env.execute_async(way)
    while handle.status().state is rh.JobState.STARTING:
        time.sleep(0.002)
    began_s = time.perf_counter()
    found = handle.wait().collected["hours"]
    took_s = time.perf_counter() - began_s
    assert sum(found["events"].to_pylist()) == records, way
    return took_s


def _consume(brokers: str, records: int, partitions: list[int], begin: object, done: object) -> None:
    begin.wait()  # type: ignore[attr-defined]
    by_the_client(brokers, SINGLE, records, partitions)
    done.wait()  # type: ignore[attr-defined]


def by_the_clients(brokers: str, records: int) -> float:
    """Seconds, from when both processes stand."""
    fresh = multiprocessing.get_context("spawn")
    begin, done = fresh.Barrier(PARALLELISM + 1), fresh.Barrier(PARALLELISM + 1)
    share = records // PARALLELISM
    readers = [
        fresh.Process(
            target=_consume,
            args=(brokers, share, list(range(at, PARTITIONS, PARALLELISM)), begin, done),
        )
        for at in range(PARALLELISM)
    ]
    for reader in readers:
        reader.start()
    begin.wait()
    began_s = time.perf_counter()
    done.wait()
    took_s = time.perf_counter() - began_s
    for reader in readers:
        reader.join()
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    whole = PARTITIONS * EVENTS_PER_MESSAGE
    records = max(given.records // whole, 1) * whole
    with KafkaBroker() as broker:
        fill(broker.address, SINGLE, PARTITIONS, map(event, range(records)))
        fill(broker.address, MANY, PARTITIONS, arrow_messages(records * MANY_TIMES))
        print(f"{records:,} events of {len(event(records - 1))} bytes as JSON", flush=True)
        rates: dict[str, list[float]] = {way: [] for way in given.only}
        for turn in range(given.rounds):
            for way in list(given.only)[:: 1 if turn % 2 else -1]:
                events = records * MANY_TIMES if way == "arrow" else records
                took_s = (
                    by_the_clients(broker.address, events)
                    if way == "client"
                    else by_the_job(broker.address, way, events)
                )
                rates[way].append(events / took_s)
        for way, found in rates.items():
            each = ", ".join(f"{rate:,.0f}" for rate in found)
            print(f"{way:8} {statistics.median(found):>12,.0f} events/s, median of {each}")


if __name__ == "__main__":
    main()
