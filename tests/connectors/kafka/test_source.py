"""The source on a real broker: which records it reads, where it resumes, and that it skips none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)

import rheos as rh
from rheos.connectors.kafka import cluster, consumer, topic_watch
from rheos.connectors.kafka.partition import PartitionSplit
from rheos.core.errors import ConfigurationError, InputError, UnavailableError
from rheos.testing.servers import KafkaBroker
from tests.connectors.kafka.reading import Reading, Topic, read_whole
from tests.waiting import wait_for


@dataclass
class Order:
    user: str
    amount: int
    sent_at: datetime


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


def values(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in rows]


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Topic:
    return Topic(kafka_broker.address, 2)


def whole(topic: Topic, **more: Any) -> rh.kafka.KafkaSource:
    """Read all existing records of a source with an end."""
    return rh.kafka.source(topic.name, brokers=topic.address, **{"end": "latest", **more})


def test_records_become_rows_with_metadata(topic: Topic) -> None:
    at_ms = 1_700_000_000_000
    first = {"value": b'{"user": "ada", "amount": 3}', "timestamp": at_ms, "key": b"k"}
    topic.write({0: [first, b'{"user": "bob", "amount": 4}'], 1: [{**first, "headers": {"h": b"v"}}]})
    source = whole(
        topic,
        schema=Order,
        format=rh.formats.json(),
        metadata={
            "timestamp": "sent_at", "key": "key", "headers": "headers", "topic": "topic",
            "partition": "partition", "offset": "offset",
        },
    )  # fmt: skip
    assert source.record_class() is Order
    found = read_whole(source)
    ada = {
        "user": "ada", "amount": 3, "sent_at": datetime.fromtimestamp(at_ms / 1000, UTC), "key": b"k",
        "topic": topic.name,
    }  # fmt: skip
    bob_at = found[f"{topic.name}/0"][1]["sent_at"]
    assert found == {
        f"{topic.name}/0": [
            {**ada, "headers": [], "partition": 0, "offset": 0},
            {
                "user": "bob", "amount": 4, "sent_at": bob_at, "key": None, "headers": [],
                "topic": topic.name, "partition": 0, "offset": 1,
            },
        ],
        f"{topic.name}/1": [
            {**ada, "headers": [{"name": "h", "value": b"v"}], "partition": 1, "offset": 0}
        ],
    }  # fmt: skip


def test_a_reader_resumes_at_any_position_in_any_subtask(topic: Topic) -> None:
    topic.write({0: numbered(0, 40), 1: numbered(100, 130)})
    source = whole(topic)
    expected = {f"{topic.name}/0": numbered(0, 40), f"{topic.name}/1": numbered(100, 130)}
    with Reading(source) as first:
        first.read(23, max_rows=5)
    positions = first.positions()
    # Two subtasks from here on, where there was one.
    with (
        Reading(source, positions, first.splits[:1]) as one,
        Reading(source, positions, first.splits[1:]) as other,
    ):
        rest = {**one.read(), **other.read(max_rows=3)}
    assert {id: values(first.rows[id] + rest[id]) for id in rest} == expected


def test_uncommitted_records_are_left_out_and_markers_may_end_a_topic(topic: Topic) -> None:
    topic.write({0: [b"plain"]})
    topic.write_in_transaction({0: [b"aborted"], 1: [b"aborted"]}, commit=False)
    topic.write_in_transaction({0: [b"committed", b"too"]}, commit=True)
    topic.write_in_transaction({0: [b"last"]}, commit=False)
    committed = read_whole(whole(topic))
    assert {id: values(rows) for id, rows in committed.items()} == {
        f"{topic.name}/0": [b"plain", b"committed", b"too"],
        f"{topic.name}/1": [],
    }
    all_of_it = read_whole(whole(topic, isolation="read_uncommitted"))
    assert {id: values(rows) for id, rows in all_of_it.items()} == {
        f"{topic.name}/0": [b"plain", b"aborted", b"committed", b"too", b"last"],
        f"{topic.name}/1": [b"aborted"],
    }


def test_reading_has_a_start_and_an_end(topic: Topic) -> None:
    topic.write({0: [{"value": b"%d" % ms, "timestamp": ms} for ms in (1000, 2000, 3000, 4000)]})

    def read(**bounds: Any) -> list[bytes]:
        return values(read_whole(whole(topic, **bounds))[f"{topic.name}/0"])

    assert read() == [b"1000", b"2000", b"3000", b"4000"]
    assert read(start=1500) == [b"2000", b"3000", b"4000"]
    assert read(start=datetime.fromtimestamp(2, UTC), end=4000) == [b"2000", b"3000"]
    assert read(start=9000) == []
    assert read(start="latest") == []
    assert read(start={topic.name: {0: 3}}) == [b"4000"]
    assert read(end={topic.name: {0: 2, 1: 0}}) == [b"1000", b"2000"]


def test_offsets_are_committed_to_the_group_which_may_be_the_start(topic: Topic) -> None:
    topic.write({0: numbered(0, 5), 1: numbered(10, 15)})
    group = f"{topic.name}-group"
    with Reading(whole(topic, group=group)) as reading:
        reading.read(3, max_rows=3)
        assert reading.ctx.client is not None
        at = f"{topic.name}/{'0' if reading.rows[f'{topic.name}/0'] else '1'}"
        reading.ctx.client.completed({at: reading.positions()[at]})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic.name, int(at[-1]))])
    (found,) = topic.admin.list_consumer_group_offsets([asked])[group].result(60).topic_partitions
    assert found.offset == 3
    rest = read_whole(whole(topic, start="group", group=group))
    assert sum(map(len, rest.values())) == 7
    assert values(rest[at]) == numbered(0, 5)[3:] if at.endswith("0") else numbered(10, 15)[3:]


def test_offsets_are_committed_while_the_topic_is_idle(topic: Topic) -> None:
    topic.write({0: numbered(0, 5)})
    group = f"{topic.name}-idle"
    with Reading(whole(topic, group=group, end=None)) as reading:
        reading.read(5)
        at = f"{topic.name}/0"
        assert reading.ctx.client is not None
        reading.ctx.client.completed({at: reading.positions()[at]})
        # Not the admin client: it crashes where the broker has had no group before.
        onlooker = Consumer({"bootstrap.servers": topic.address, "group.id": group})

        def is_committed() -> bool:
            try:
                return bool(onlooker.committed([TopicPartition(topic.name, 0)], 60)[0].offset == 5)
            except KafkaException:
                return False  # The broker makes the place for the offsets just now.

        try:
            wait_for(is_committed)
        finally:
            onlooker.close()


def test_a_start_after_the_last_record_is_refused_on_the_driver(topic: Topic) -> None:
    topic.write({0: numbered(0, 3)})
    assert whole(topic, start={topic.name: {0: 3}}).splits()
    with pytest.raises(InputError, match=r"but its next record will have offset 3") as raised:
        whole(topic, start={topic.name: {0: 4}}).splits()
    assert 'start="latest"' in str(raised.value.hint)


def test_bad_records_fail_the_job_or_are_rejected_once(topic: Topic) -> None:
    topic.write({0: [b'{"n": 1}', b"no json", b'{"n": 2}', b"neither"]})
    json = {"schema": pa.schema([("n", pa.int64())]), "format": rh.formats.json()}
    with (
        Reading(whole(topic, **json)) as failing,
        pytest.raises(InputError, match=re.escape(f"{topic.name}[0]@1")),
    ):
        failing.read()
    source = whole(topic, **json, on_error="skip")
    with Reading(source) as first:
        first.read(1, max_rows=1)
    with Reading(source, first.positions(), first.splits) as rest:
        rest.read()
    id = f"{topic.name}/0"
    assert first.rows[id] + rest.rows[id] == [{"n": 1}, {"n": 2}]
    rejected = first.probe.rejected + rest.probe.rejected
    assert [(row["offset"], row["payload"]) for row in rejected] == [(1, b"no json"), (3, b"neither")]


def test_a_key_that_does_not_fit_its_column_makes_a_bad_record(topic: Topic) -> None:
    good, no_text, none = {"key": "ada"}, {"key": b"\xff"}, {}
    topic.write({0: [{"value": b"%d" % n, **key} for n, key in enumerate([good, no_text, none, good])]})
    schema = pa.schema([("value", pa.binary()), pa.field("user", pa.string(), nullable=False)])
    with Reading(whole(topic, schema=schema, metadata={"key": "user"}, on_error="skip")) as reading:
        rows = reading.read()[f"{topic.name}/0"]
    assert rows == [{"value": b"0", "user": "ada"}, {"value": b"3", "user": "ada"}]
    assert [(row["offset"], row["payload"]) for row in reading.probe.rejected] == [(1, b"1"), (2, b"2")]
    assert "UTF8" in reading.probe.rejected[0]["error"]
    assert "it has no key, but column" in reading.probe.rejected[1]["error"]


def test_a_pattern_without_topics_waits_with_a_warning_or_is_refused(
    topic: Topic,
) -> None:
    pattern = re.compile(f"{re.escape(topic.name)}-.+")
    source = rh.kafka.source(pattern, brokers=topic.address, discover="1s")
    assert (source.splits(), source.discover()) == ([], [])
    said = f"no topic at {topic.address} matches '{pattern.pattern}'"
    warning = source.nothing_found()
    assert (warning.what, warning.hint) == (
        said,
        (
            "check the pattern, which must match the whole name; the job continues, "
            "and looks for topics again"
        ),
    )
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        rh.kafka.source(pattern, brokers=topic.address, end="latest").splits()


def test_new_partitions_and_topics_are_discovered(topic: Topic) -> None:
    source = rh.kafka.source(
        re.compile(re.escape(topic.name) + ".*"), brokers=topic.address, start="latest", discover="1s"
    )
    topic.write({0: [b"before"]})
    known = {split.id: split.payload for split in source.splits()}
    assert sorted(known) == [f"{topic.name}/0", f"{topic.name}/1"]
    other = Topic(topic.address, 1, name=f"{topic.name}-more")
    topic.widen(3)
    topic.write({2: [b"new"]})
    other.write({0: [b"newer"]})
    found = list(source.discover())
    assert [split.id for split in found] == [*sorted(known), f"{topic.name}/2", f"{other.name}/0"]
    new = [split for split in found if split.id not in known]
    with Reading(source, splits=new) as reading:
        rows = reading.read(2)
    assert {id: values(each) for id, each in rows.items()} == {
        f"{topic.name}/2": [b"new"],
        f"{other.name}/0": [b"newer"],
    }
    # Who goes on from a checkpoint that did not know them begins with their first record, too, and what
    # it knew keeps its own start.
    resumed = {split.id: split.payload for split in source.resumed(source.splits(), known)}
    assert {id: resumed[id] for id in known} == known
    starts = {id: msgspec.msgpack.decode(p, type=PartitionSplit).start for id, p in resumed.items()}
    assert starts[f"{topic.name}/0"] == 1
    assert starts[f"{topic.name}/2"] == 0


def test_records_that_were_deleted_before_they_were_read_are_an_error(topic: Topic) -> None:
    topic.write({0: numbered(0, 10), 1: [b"x"]})
    with Reading(whole(topic)) as first:
        first.read(2, max_rows=1)
    topic.truncate(0, 8)
    topic.truncate(1, 1)
    with (
        Reading(whole(topic), first.positions(), first.splits) as rest,
        pytest.raises(InputError, match="on were deleted before the job read them"),
    ):
        rest.read()


def test_a_recreated_topic_is_an_error(topic: Topic) -> None:
    topic.write({0: numbered(0, 5)})
    with Reading(whole(topic)) as first:
        first.read(3, max_rows=1)
    topic.delete()
    again = Topic(topic.address, 2, name=topic.name)
    again.write({0: numbered(50, 60)})
    with (
        Reading(whole(topic), first.positions(), first.splits) as rest,
        pytest.raises(InputError, match="was deleted and recreated since the job last read it"),
    ):
        rest.read()


def test_a_topic_that_is_deleted_while_it_is_read_ends_the_job(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_watch, "EVERY_S", 0.2)
    topic.write({0: [b"x"]})
    with Reading(whole(topic, end=None)) as reading:
        reading.read(1)
        topic.delete()
        with pytest.raises(InputError, match=f"{topic.name}' no longer exists"):
            reading.read(2)


def test_reading_continues_after_a_broker_was_killed(topic: Topic, kafka_broker: KafkaBroker) -> None:
    topic.write({0: numbered(0, 3), 1: numbered(10, 13)})
    with Reading(whole(topic, end=None)) as reading:
        reading.read(6)
        kafka_broker.kill()
        try:
            while not reading.probe.counts.get(consumer.AWAY):
                reading._woken.wait(1)
                for reader in reading.readers.values():
                    reader.poll(1)
        finally:
            kafka_broker.start()
        topic.write({0: numbered(3, 5), 1: numbered(13, 15)})
        rows = reading.read(10)
    assert {id: values(each) for id, each in rows.items()} == {
        f"{topic.name}/0": numbered(0, 5),
        f"{topic.name}/1": numbered(10, 15),
    }


def test_the_error_for_a_missing_topic_suggests_a_similar_one(topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{topic.name}'"):
        rh.kafka.source(topic.name + "s", brokers=topic.address).splits()


def test_an_unpolled_partition_does_not_block_the_others(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "AHEAD_BYTES", 20_000)
    expected = [b"%05d" % number + b"x" * 200 for number in range(3000)]
    topic.write({0: expected, 1: expected})
    zero, one = f"{topic.name}/0", f"{topic.name}/1"
    with Reading(whole(topic, options={"queued.min.messages": 100})) as reading:
        reading.open = {one}
        assert values(reading.read()[one]) == expected
        assert reading.rows[zero] == []
        reading.open = {zero}
        assert values(reading.read()[zero]) == expected


def test_sasl_admits_users_and_no_error_shows_a_password(
    topic: Topic, kafka_broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic.write({0: [b"x"]})
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}

    def source(password: str) -> rh.kafka.KafkaSource:
        options = {**sasl, "sasl.password": password}
        return rh.kafka.source(
            topic.name, brokers=kafka_broker.sasl_address, end="latest", options=options
        )

    # A password of this test's own: what a client with the same options has logged within half a
    # minute, as that of the sink's test may have, is not logged again.
    known, stranger = source("lovelace"), source(f"geheim-{topic.name}")
    splits = known.splits()
    with Reading(known, splits=splits) as reading:
        assert values(reading.read()[f"{topic.name}/0"]) == [b"x"]
    with pytest.raises(ConfigurationError, match="Invalid username or password") as on_driver:
        stranger.splits()
    # A password that was changed since is refused in the workers.
    with (
        Reading(stranger, splits=splits) as refused,
        pytest.raises(ConfigurationError, match="Invalid username or password") as in_worker,
    ):
        refused.read()
    shown = f"{on_driver.value}{in_worker.value}{stranger!r}{stranger.describe()}{caplog.text}"
    assert "Authentication failed" in caplog.text
    assert "geheim" not in shown
    assert b"lovelace" not in b"".join([split.payload for split in splits])
    assert b"lovelace" not in b"".join(reading.positions().values())


def test_records_are_read_over_tls(topic: Topic, kafka_broker: KafkaBroker) -> None:
    topic.write({0: [b"x"]})

    def source(trusted: Path | None) -> rh.kafka.KafkaSource:
        options = {"security.protocol": "SSL"}
        if trusted is not None:
            options["ssl.ca.location"] = str(trusted)
        return rh.kafka.source(
            topic.name, brokers=kafka_broker.tls_address, end="latest", options=options
        )

    known = source(kafka_broker.certificate)
    splits = known.splits()
    with Reading(known, splits=splits) as reading:
        assert values(reading.read()[f"{topic.name}/0"]) == [b"x"]
    # Who trusts the well-known authorities only does not take this broker for its own.
    stranger = source(None)
    with pytest.raises(ConfigurationError, match="certificate verify failed") as on_driver:
        stranger.splits()
    assert "the certificates" in str(on_driver.value.hint)
    with (
        Reading(stranger, splits=splits) as refused,
        pytest.raises(ConfigurationError, match="certificate verify failed"),
    ):
        refused.read()


def test_an_unreachable_broker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REACHED_WITHIN_S", 0.0)
    source = rh.kafka.source("orders", brokers="127.0.0.1:9", options={"sasl.password": "geheim"})
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9") as raised:
        source.splits()
    assert "geheim" not in str(raised.value)
    assert "geheim" not in repr(source)
