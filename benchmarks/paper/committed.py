"""Topics of a run, and what a reader of committed records sees of one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

Take = Callable[[Sequence[Any], int], None]
"""Called with messages of the client, in the order of their partitions, and the wall-clock time in ns
at which they were there."""

_POLL_S = 0.05
_AT_ONCE = 10_000
_QUIET_S = 2.0
"""A transaction's end is in a partition a little after its commit has returned."""


def make_topics(
    brokers: str, partitions: Mapping[str, int], config: Mapping[str, str] | None = None
) -> None:
    """Makes each topic, with so many partitions."""
    admin = AdminClient({"bootstrap.servers": brokers})
    wanted = [NewTopic(name, n, 1, config=dict(config or {})) for name, n in partitions.items()]
    for done in admin.create_topics(wanted).values():
        done.result()


class Committed:
    """Reads a topic from its beginning in a thread, as `isolation.level=read_committed` shows it."""

    def __init__(self, brokers: str, topic: str, partitions: int, take: Take) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"committed-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._take = take
        self._behind = set(range(partitions))
        """Partitions that have not been read to their ends."""
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"committed {topic}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """To be called when nobody writes any more: returns when all has been read. Raises what the
        thread has raised."""
        self._ending.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        quiet_since = time.monotonic()
        try:
            while True:
                given = self._consumed()
                now_ns = time.time_ns()
                messages = [message for message in given if self._is_record(message)]
                if messages:
                    quiet_since = time.monotonic()
                    self._take(messages, now_ns)
                at_end = self._ending.is_set() and not self._behind
                if at_end and time.monotonic() - quiet_since > _QUIET_S:
                    return
        except BaseException as error:
            self._failure = error
        finally:
            self._consumer.close()

    def _consumed(self) -> list[Any]:
        """What is there, at once: `consume` alone waits for so many, or for all of its time."""
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_AT_ONCE - 1, 0)]

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            self._behind.add(message.partition())
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._behind.discard(message.partition())
        elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
            raise RuntimeError(f"the topic cannot be read: {error}")
        return False
