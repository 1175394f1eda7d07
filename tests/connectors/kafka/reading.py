"""Topics of the real broker, one per test, and sources that the test drives by hand."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from rheos.core.connectors.contract import EndOfSplit, Pending, Source, Split, SplitReader
from tests.connectors.kafka.topics import make_topic
from tests.connectors.ports import Probe

WITHIN_S = 120.0


class Topic:
    """Topic with a unique name, on the broker at an address."""

    def __init__(self, address: str, partitions: int = 1, name: str | None = None) -> None:
        self.address = address
        self.name = name or f"t-{uuid.uuid4().hex[:12]}"
        self.admin = AdminClient({"bootstrap.servers": address})
        make_topic(self.admin, self.name, partitions)

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(WITHIN_S)

    def widen(self, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result(WITHIN_S)

    def truncate(self, partition: int, before: int) -> None:
        """Delete the records before an offset."""
        at = TopicPartition(self.name, partition, before)
        self.admin.delete_records([at])[at].result(WITHIN_S)

    def write(self, records: Mapping[int, Sequence[Any]]) -> None:
        """Write values by partition: bytes, or a dict of arguments of `produce`."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        self._produce(producer, records)
        assert producer.flush(WITHIN_S) == 0

    def write_in_transaction(self, records: Mapping[int, Sequence[Any]], *, commit: bool) -> None:
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": f"{self.name}-{uuid.uuid4().hex}"}
        )
        producer.init_transactions(WITHIN_S)
        producer.begin_transaction()
        self._produce(producer, records)
        assert producer.flush(WITHIN_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(WITHIN_S)

    def _produce(self, producer: Producer, records: Mapping[int, Sequence[Any]]) -> None:
        for partition, values in records.items():
            for value in values:
                given = value if isinstance(value, dict) else {"value": value}
                producer.produce(self.name, partition=partition, **given)


class Reading:
    """One subtask of a source: its client, and a reader for each of some splits."""

    def __init__(
        self, source: Source, positions: Mapping[str, bytes] | None = None, splits: Any = None
    ) -> None:
        self.probe = Probe()
        self.ctx = self.probe.context()
        self._woken = threading.Event()
        self.ctx.wake = self._woken.set
        self.ctx.client = source.client(self.ctx)
        self.splits: Sequence[Split] = source.splits() if splits is None else splits
        known = positions or {}
        self.readers: dict[str, SplitReader] = {
            split.id: source.open(split, known.get(split.id), self.ctx) for split in self.splits
        }
        self.open = set(self.readers)
        self.rows: dict[str, list[dict[str, Any]]] = {id: [] for id in self.readers}

    def read(self, rows: int | None = None, max_rows: int = 1000) -> dict[str, list[dict[str, Any]]]:
        """Read this number of rows in total, or all to the end; return them by split id."""
        while self.open and (rows is None or self.count() < rows):
            self._woken.clear()
            polled = False
            for id in sorted(self.open):
                left = max_rows if rows is None else min(max_rows, rows - self.count())
                if left > 0:
                    polled |= self._poll(id, left)
            if not polled:
                assert self._woken.wait(WITHIN_S), "nothing more came"
        return self.rows

    def _poll(self, id: str, max_rows: int) -> bool:
        match self.readers[id].poll(max_rows):
            case EndOfSplit():
                self.open.remove(id)
                return True
            case Pending():
                return False
            case batch:
                assert isinstance(batch, pa.RecordBatch)
                self.rows[id] += batch.to_pylist()
                return True

    def count(self) -> int:
        return sum(map(len, self.rows.values()))

    def positions(self) -> dict[str, bytes]:
        return {id: reader.position() for id, reader in self.readers.items()}

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        assert self.ctx.client is not None
        self.ctx.client.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def read_whole(source: Source) -> dict[str, list[dict[str, Any]]]:
    with Reading(source) as reading:
        return reading.read()
