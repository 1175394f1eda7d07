"""Records that are produced in batches equal those that are produced one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rheos.connectors.kafka import arrow_producing
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.producing import Producing
from tests.connectors.kafka.topics import Record, fence, new_topic, read

kafka = pytest.importorskip("confluent_kafka")

VALUES = [b"a", b"", None, b"long" * 50, b"e", b""]
KEYS = [b"k1", None, b"k3", b"", b"k5", b"k1"]


def as_batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


BATCHES = {
    "keys, nulls and empty texts": as_batch(value=pa.array(VALUES), key=pa.array(KEYS)),
    "a slice": as_batch(value=pa.array([b"no", *VALUES]), key=pa.array([b"no", *KEYS])).slice(1, 4),
    "large texts": as_batch(
        value=pa.array(["ä", "", "c"], pa.large_string()),
        key=pa.array([b"1", b"2", b"3"], pa.large_binary()),
    ),
    "nothing but empty values": as_batch(value=pa.array([b"", b""])),
    "places": as_batch(
        value=pa.array([b"0", b"1", b"any"]),
        key=pa.array([b"k", b"k", b"k"]),
        partition=pa.array([0, 1, None], pa.int32()),
    ),
    "none": as_batch(value=pa.array([], pa.binary()), key=pa.array([], pa.binary())),
}


def written(
    broker: Any, batches: list[pa.RecordBatch], *, reported: bool, **options: Any
) -> list[Record]:
    topic = new_topic(broker.address, partitions=2)
    known = {"transaction.timeout.ms": 30_000, **options}
    producing = Producing(ClientOptions.of(broker.address, known), topic, transactional_id=topic)
    fence(producing)
    producing.client.begin_transaction()
    for batch in batches:
        (producing.produce if reported else producing.produce_unreported)(batch)
    producing.client.commit_transaction()
    producing.close()
    found = read(broker.address, topic)
    return [Record(each.value, each.key, each.partition) for each in found]


def test_the_installed_client_is_known() -> None:
    """Check the installed client. If this fails, find out how this version of the client stores its
    handle."""
    producer = kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert arrow_producing.ArrowProducing.of(producer, "t") is not None


def test_with_an_unknown_client_records_are_sent_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_producing, "_KNOWN_SIZES", ())
    producing = Producing(ClientOptions.of("127.0.0.1:1"), "t", transactional_id="t")
    one_by_one = []
    monkeypatch.setattr(producing, "produce", one_by_one.append)
    producing.produce_unreported(BATCHES["places"])
    assert one_by_one == [BATCHES["places"]]
    producing.close()


def test_batches_become_the_records_of_their_rows(kafka_broker: Any) -> None:
    """Compare values, keys and partitions. Without a key the partition is random, so it is not
    compared."""
    batches = list(BATCHES.values())
    by_batch, one_by_one = (written(kafka_broker, batches, reported=each) for each in (False, True))
    assert len(by_batch) == sum(batch.num_rows for batch in batches)
    compared = [
        sorted(
            (each.value or b"", each.value is None, each.key or b"", each.partition if each.key else 0)
            for each in records
        )
        for records in (by_batch, one_by_one)
    ]
    assert compared[0] == compared[1]


def test_if_the_queue_is_full_the_rest_waits_and_order_is_kept(kafka_broker: Any) -> None:
    values = [b"%05d" % n for n in range(3_000)]
    batch = as_batch(value=pa.array(values), key=pa.array([b"k"] * len(values)))
    options = {"queue.buffering.max.messages": 100, "linger.ms": 0}
    found = written(kafka_broker, [batch], reported=False, **options)
    assert [each.value for each in found] == values


def test_a_record_that_the_client_refuses_is_an_error(kafka_broker: Any) -> None:
    batch = as_batch(value=pa.array([b"small", b"x" * 5_000, b"small"]))
    with pytest.raises(kafka.KafkaException, match="MSG_SIZE_TOO_LARGE"):
        written(kafka_broker, [batch], reported=False, **{"message.max.bytes": 2_000})


def test_records_with_headers_times_or_partitions_are_sent_one_by_one() -> None:
    producer = kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    producing = arrow_producing.ArrowProducing.of(producer, "t")
    assert producing is not None
    value = pa.field("value", pa.binary())
    assert producing.takes(pa.schema([value, ("key", pa.string())]))
    assert not producing.takes(pa.schema([value, ("partition", pa.int32())]))
    assert not producing.takes(pa.schema([value, ("timestamp", pa.int64())]))
    assert not producing.takes(pa.schema([value, ("header:a", pa.binary())]))
