"""A real job while each of its servers is killed or frozen: the other sinks continue, the job does not
restart, and each row is published once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.kafka.topics import new_topic, values
from tests.connectors.postgres.databases import new_database
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.proves(
        "Kafka",
        faults=["the server is killed and frozen while a job runs"],
        slow_because="in every run the sinks have outages, and so have simulated jobs",
    ),
    pytest.mark.proves(
        "PostgreSQL",
        faults=["the server is killed and frozen while a job runs"],
        slow_because="in every run the sinks have outages, and so have simulated jobs",
    ),
    pytest.mark.proves(
        "Redis",
        faults=["the server is killed and frozen while a job runs"],
        slow_because="in every run the sinks have outages, and so have simulated jobs",
    ),
]
# Every run has the sinks of each server under drawn outages, by themselves and in simulated jobs.


def test_the_other_sinks_continue_while_a_server_is_killed_or_frozen(
    spark: Any, kafka_broker: Any, postgres_server: Any, redis_server: Any, tmp_path: Path
) -> None:
    import redis

    topic, database = new_topic(kafka_broker.address), new_database(postgres_server)
    database.run("CREATE TABLE published (n bigint)")
    store = redis.Redis.from_url(redis_server.url, socket_timeout=20)

    def in_kafka() -> Counter[int]:
        found = values(kafka_broker.address, topic)
        return Counter(json.loads(value or b"")["n"] for value in found)

    def in_postgres() -> Counter[int]:
        return Counter(n for (n,) in database.rows("SELECT n FROM published"))

    def in_redis() -> Counter[int]:
        return Counter(int(key.rpartition(b":")[2]) for key in store.scan_iter("outage:*", 10_000))

    published: dict[str, Callable[[], Counter[int]]] = {
        "kafka": in_kafka,
        "postgres": in_postgres,
        "redis": in_redis,
    }
    servers = {"kafka": kafka_broker, "postgres": postgres_server, "redis": redis_server}

    env = rh.Environment(
        1,
        runtime="continuous",
        spark=spark,
        checkpoint_dir=str(tmp_path),
        checkpoint_interval="500ms",
    )
    numbers = env.from_source(
        rh.generator(lambda block: {"n": block.number()}, rate_per_s=50), uid="numbers"
    )
    numbers.sink_to(rh.kafka.sink(topic, brokers=kafka_broker.address), uid="kafka")
    numbers.sink_to(rh.postgres.sink("published", url=database.url), uid="postgres")
    numbers.sink_to(rh.redis.sink(redis_server.url, key="outage:{n}"), uid="redis")
    job = env.execute_async("outages")

    def newest(sink: str) -> int:
        return max(published[sink](), default=-1)

    def publishes_more(sinks: list[str]) -> None:
        marks = {sink: newest(sink) for sink in sinks}
        wait_for(lambda: all(newest(sink) > mark + 50 for sink, mark in marks.items()))

    try:
        publishes_more([*servers])
        for struck, server in servers.items():
            others = [sink for sink in servers if sink != struck]
            for begin, end in ((server.kill, server.start), (server.freeze, server.thaw)):
                begin()
                try:
                    publishes_more(others)
                finally:
                    end()
                publishes_more([*servers])
        assert job.status().restarts == 0
        job.stop()
        job.wait(120)
    finally:
        job.cancel()
        store.close()
    counts = {sink: look() for sink, look in published.items()}
    rows = max(counts["kafka"]) + 1
    for sink in ("kafka", "postgres"):
        assert counts[sink] == Counter(range(rows)), sink
    assert counts["redis"].keys() >= set(range(rows))  # It has rows before their checkpoint, too.
