"""Measure how a job behaves while a server that it reads or writes is away, and how soon it resumes.

usage: python benchmarks/outages.py [--away SECONDS ...] [--only SERVER-FAULT ...]

One job reads a topic of Kafka and writes another (exactly once), a table of PostgreSQL (exactly once)
and keys of Redis. Each fault strikes one of the servers for a while:

    killed   SIGKILL, and started again on the same data
    frozen   SIGSTOP: it stays connected and answers nothing
    cut      its connections pass nothing on, and are open (PostgreSQL and Redis, behind a proxy)

The table has the time until a finding named the fault, and for each sink the time from the server's
return until the sink had published a row that was sent after it. The last lines count lost and doubled
rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rheos as rh
from rheos.observe.health import HealthState
from rheos.testing.freezing_proxy import FreezingProxy
from rheos.testing.servers import KafkaBroker, PostgresServer, RedisServer

RATE_PER_S = 100
SETTLE_S = 8.0
RESUMED_WITHIN_S = 180.0
AFTERWARDS_S = 10.0
SINKS = ("kafka", "postgres", "redis")


@dataclass
class Servers:
    kafka: KafkaBroker
    postgres: PostgresServer
    redis: RedisServer
    postgres_proxy: FreezingProxy
    redis_proxy: FreezingProxy

    def faults(self) -> Mapping[str, Callable[[float], None]]:
        """Return the faults by name. Each takes the seconds that it lasts, and returns once the server
        is back."""

        def killed(server: Any) -> Callable[[float], None]:
            def strike(away_s: float) -> None:
                server.kill()
                time.sleep(away_s)
                server.start()

            return strike

        def frozen(server: Any) -> Callable[[float], None]:
            def strike(away_s: float) -> None:
                server.freeze()
                time.sleep(away_s)
                server.thaw()

            return strike

        found: dict[str, Callable[[float], None]] = {}
        for name, server in (("kafka", self.kafka), ("postgres", self.postgres), ("redis", self.redis)):
            found[f"{name}-killed"] = killed(server)
            found[f"{name}-frozen"] = frozen(server)
        found["postgres-cut"] = frozen(self.postgres_proxy)
        found["redis-cut"] = frozen(self.redis_proxy)
        return found


@contextmanager
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker())
        postgres = stack.enter_context(PostgresServer())
        stored = stack.enter_context(RedisServer())
        ports = [int(server.address.rpartition(":")[2]) for server in (postgres, stored)]
        proxies = [stack.enter_context(FreezingProxy(port)) for port in ports]
        yield Servers(kafka, postgres, stored, *proxies)


@dataclass
class Published:
    """The numbers that each sink has published, as its readers see them."""

    counts: dict[str, Counter[int]] = field(default_factory=lambda: {s: Counter() for s in SINKS})

    def newest(self, sink: str) -> int:
        return max(self.counts[sink], default=-1)


class Watch:
    """Reads what was published, and feeds the topic, in threads of its own."""

    def __init__(self, at: Servers, url: str, store: str) -> None:
        self.published = Published()
        self.sent = 0
        self._at = at
        self._url = url
        self._store = store
        self._ending = threading.Event()
        self._feeding = threading.Event()
        self._feeding.set()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        parts = (self._feed, self._kafka, self._postgres, self._redis)
        threads = [threading.Thread(target=part, daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            for thread in threads:
                thread.join(30)

    def stop_feeding(self) -> None:
        self._feeding.clear()

    def _feed(self) -> None:
        settings = {"message.timeout.ms": 1_200_000, "enable.idempotence": True, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._at.kafka.address, **settings})
        began = time.monotonic()
        while not self._ending.wait(0.05):
            due = int((time.monotonic() - began) * RATE_PER_S)
            while self._feeding.is_set() and self.sent < due:
                producer.produce("in", json.dumps({"n": self.sent}))
                self.sent += 1
            producer.poll(0)
        producer.flush(30)

    def _kafka(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._at.kafka.address,
                "group.id": "watch",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition("out", 0, OFFSET_BEGINNING)])
        while not self._ending.is_set():
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                self.published.counts["kafka"][json.loads(message.value())["n"]] += 1
        consumer.close()

    def _postgres(self) -> None:
        def look() -> None:
            with psycopg.connect(self._url, connect_timeout=3) as session:
                session.execute("SET statement_timeout TO '3s'")
                rows = session.execute("SELECT n, count(*) FROM published GROUP BY n").fetchall()
            self.published.counts["postgres"] = Counter(dict(rows))

        self._repeatedly(look)

    def _redis(self) -> None:
        client = redis.from_url(self._store, socket_timeout=3, socket_connect_timeout=3)

        def look() -> None:
            found = {int(key[2:]): 1 for key in client.scan_iter("n:*", count=10_000)}
            self.published.counts["redis"] = Counter(found)

        self._repeatedly(look)

    def _repeatedly(self, look: Callable[[], None]) -> None:
        while not self._ending.wait(0.5):
            try:
                look()
            except Exception:  # The server is away.
                continue


def submit(at: Servers, folder: str) -> rh.JobHandle:
    env = rh.Environment(
        parallelism=2,
        runtime="continuous",
        checkpoint_dir=f"{folder}/checkpoints",
        checkpoint_interval="1s",
    )
    source = rh.kafka.source(
        "in",
        brokers=at.kafka.address,
        schema=pa.schema([("n", pa.int64())]),
        format=rh.formats.json(),
    )
    rows = env.from_source(source, uid="in")
    proxied = f"127.0.0.1:{at.postgres_proxy.port}"
    url = at.postgres.url.replace(at.postgres.address, proxied)
    store = at.redis.url.replace(at.redis.address, f"127.0.0.1:{at.redis_proxy.port}")
    rows.sink_to(rh.kafka.sink("out", brokers=at.kafka.address), name="kafka", uid="kafka")
    rows.sink_to(rh.postgres.sink("published", url=url), name="postgres", uid="postgres")
    rows.sink_to(rh.redis.sink(store, key="n:{n}"), name="redis", uid="redis")
    return env.execute_async("outages")


@dataclass
class Outcome:
    fault: str
    away_s: float
    shown_s: float | None
    resumed_s: dict[str, float | None]

    def line(self) -> str:
        cells = [self.fault, f"{self.away_s:.0f} s", _seconds(self.shown_s)]
        return " | ".join(["", *cells, *(_seconds(self.resumed_s[sink]) for sink in SINKS), ""]).strip()


def _seconds(seconds: float | None) -> str:
    return "no" if seconds is None else f"{seconds:.0f} s"


class Drill:
    def __init__(self, at: Servers, watch: Watch, job: rh.JobHandle) -> None:
        self._at = at
        self._watch = watch
        self._job = job

    def wait_for(self, reached: Callable[[], bool], within_s: float) -> float | None:
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > within_s:
                return None
            time.sleep(0.2)
        return time.monotonic() - began

    def strike(self, fault: str, away_s: float) -> Outcome:
        time.sleep(SETTLE_S)
        began, returned = time.monotonic(), threading.Event()
        shown: list[float] = []

        def look() -> None:
            while not returned.wait(0.5):
                if self._is_shown() and not shown:
                    shown.append(time.monotonic() - began)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        self._at.faults()[fault](away_s)
        returned.set()
        back, mark = time.monotonic(), self._watch.sent
        resumed: dict[str, float | None] = {}
        for sink in SINKS:
            newest = lambda sink=sink: self._watch.published.newest(sink) >= mark  # noqa: E731
            found = self.wait_for(newest, RESUMED_WITHIN_S)
            resumed[sink] = None if found is None else time.monotonic() - back
        looking.join()
        return Outcome(fault, away_s, shown[0] if shown else None, resumed)

    def _is_shown(self) -> bool:
        health = self._job.status().health
        return health is not None and health.state in (HealthState.STUCK, HealthState.FAILING)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    given.add_argument("--away", type=float, nargs="+", default=[5.0, 60.0])
    given.add_argument("--only", nargs="+")
    options = given.parse_args()
    with servers() as at, tempfile.TemporaryDirectory(prefix="outages-") as folder:
        admin = AdminClient({"bootstrap.servers": at.kafka.address})
        for made in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 1, 1)]).values():
            made.result(60)
        with psycopg.connect(at.postgres.url) as session:
            session.execute("CREATE TABLE published (n bigint)")
        job = submit(at, folder)
        watch = Watch(at, at.postgres.url, at.redis.url)
        with watch.watching():
            drill = Drill(at, watch, job)
            if drill.wait_for(lambda: all(watch.published.newest(s) > 0 for s in SINKS), 300) is None:
                sys.exit("the job published nothing within 300 s")
            faults = options.only or list(at.faults())
            print("| fault | away | shown after | Kafka resumed | PostgreSQL resumed | Redis resumed |")
            print("|---|---|---|---|---|---|", flush=True)
            for fault, away_s in itertools.product(faults, options.away):
                print(drill.strike(fault, away_s).line(), flush=True)
            watch.stop_feeding()
            everything = range(watch.sent)

            def complete() -> bool:
                return all(len(watch.published.counts[sink]) >= len(everything) for sink in SINKS)

            drill.wait_for(complete, RESUMED_WITHIN_S)
            time.sleep(AFTERWARDS_S)
            for sink in SINKS:
                counts = watch.published.counts[sink]
                lost = len(set(everything) - set(counts))
                doubled = sum(count > 1 for count in counts.values())
                print(f"{sink}: {len(everything):,} rows sent, {lost:,} lost, {doubled:,} doubled")
            print(f"restarts: {job.status().restarts}")
        job.cancel()


if __name__ == "__main__":
    main()
