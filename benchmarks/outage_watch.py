"""What feeds the job of `outages.py`, and what reads its output as anybody would."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from outage_faults import SERVERS, Servers

RATE_PER_S = 100


class Watch:
    """Feeds the topic with numbers, and reads what each sink has published, in threads of its own."""

    def __init__(self, at: Servers) -> None:
        self.counts: dict[str, Counter[int]] = {sink: Counter() for sink in SERVERS}
        """How often each number was published, by sink."""
        self.sent = 0
        self._at = at
        self._ending = threading.Event()

    def newest(self, sink: str) -> int:
        return max(list(self.counts[sink]), default=-1)  # Others write it meanwhile.

    def lost(self, sink: str, below: int) -> int:
        """Return how many of the numbers below `below` are not published."""
        counts = self.counts[sink]
        return sum(number not in counts for number in range(below))

    def doubled(self, sink: str) -> int:
        return sum(count > 1 for count in list(self.counts[sink].values()))

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

    def _feed(self) -> None:
        settings = {"message.timeout.ms": 1_800_000, "enable.idempotence": True, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._at.kafka.address, **settings})
        began = time.monotonic()
        while not self._ending.wait(0.05):
            due = int((time.monotonic() - began) * RATE_PER_S)
            while self.sent < due:
                producer.produce("in", json.dumps({"n": self.sent}))
                self.sent += 1
            producer.poll(0)
        producer.purge()

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
            for message in consumer.consume(1000, 0.2):
                if not message.error():
                    self.counts["kafka"][json.loads(message.value())["n"]] += 1
        consumer.close()

    def _postgres(self) -> None:
        def look() -> None:
            with psycopg.connect(self._at.postgres.url, connect_timeout=3) as session:
                session.execute("SET statement_timeout TO '10s'")
                rows = session.execute("SELECT n, count(*) FROM published GROUP BY n").fetchall()
            self.counts["postgres"] = Counter(dict(rows))

        self._repeatedly(look)

    def _redis(self) -> None:
        client = redis.from_url(self._at.redis.url, socket_timeout=10, socket_connect_timeout=3)

        def look() -> None:
            found = {int(key[2:]): 1 for key in client.scan_iter("n:*", count=10_000)}
            self.counts["redis"] = Counter(found)

        self._repeatedly(look)

    def _repeatedly(self, look: Callable[[], None]) -> None:
        while not self._ending.wait(0.5):
            try:
                look()
            except Exception:  # The server is away.
                continue


class Pauses:
    """The longest time in which each sink published nothing, while somebody asks now and then."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._newest = {sink: watch.newest(sink) for sink in SERVERS}
        self._since = dict.fromkeys(SERVERS, time.monotonic())
        self.longest_s = dict.fromkeys(SERVERS, 0.0)

    def look(self) -> None:
        now = time.monotonic()
        for sink in SERVERS:
            newest = self._watch.newest(sink)
            if newest > self._newest[sink]:
                self._newest[sink], self._since[sink] = newest, now
            self.longest_s[sink] = max(self.longest_s[sink], now - self._since[sink])
