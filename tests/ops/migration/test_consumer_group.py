"""A job continues where a Kafka consumer group has stopped: with a real broker."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

import rheos as rh
from rheos.cli.main import app
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.checkpoint.savepoint import read_savepoint
from rheos.core.errors import ConfigurationError, InputError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.state import format as state_format
from rheos.ops.migration.consumer_group import import_group
from rheos.runtimes.host.stores import open_store
from rheos.testing.servers import KafkaBroker

reading_of_topics: Any = import_module("tests.connectors.kafka.reading")
Topic: TypeAlias = Any


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Topic:
    return reading_of_topics.Topic(kafka_broker.address, 3)


def plan_of(topic: Topic, **more: Any) -> PhysicalPlan:
    env = rh.Environment(parallelism=2)
    source = rh.kafka.source(topic.name, brokers=topic.address, **more)
    env.from_source(source, uid="orders").sink_to(rh.collect_sink(), name="out")
    return env.plan()


def commit(topic: Topic, group: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": group})
    at = [TopicPartition(topic.name, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()


def stored_rows(folder: str) -> list[dict[str, Any]]:
    store = open_store(folder, make=False)
    (handle,) = read_savepoint(store, folder).entry.handles
    table: pa.Table = state_format.decode(read_part(store, handle), None)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


def test_a_job_continues_at_the_committed_offsets(topic: Topic, tmp_path: Path) -> None:
    topic.write({0: numbered(0, 5), 1: numbered(10, 15), 2: numbered(20, 22)})
    commit(topic, f"{topic.name}-g", {0: 3, 1: 5})
    job = tmp_path / "job.py"
    job.write_text(
        "import rheos as rh\n"
        "env = rh.Environment(parallelism=2)\n"
        f"source = rh.kafka.source({topic.name!r}, brokers={topic.address!r})\n"
        "env.from_source(source, uid='orders').sink_to(rh.collect_sink(), name='out')\n"
        "env.execute('moved')\n"
    )
    target = tmp_path / "savepoint"
    ran = CliRunner().invoke(app, ["migrate", f"group:{topic.name}-g", str(job), "--to", str(target)])
    assert ran.exit_code == 0, ran.output
    assert f"{topic.name}[0] continues at offset 3" in ran.stdout
    assert f"{topic.name}/2 has no committed offset: it begins with its first record" in ran.stdout
    assert f"--from-savepoint {target}" in ran.stdout

    # A source with an end is enough to see which records are left.
    source = rh.kafka.source(topic.name, brokers=topic.address, end="latest")
    ends = {split.id: split for split in source.splits()}
    rows = stored_rows(str(target))
    assert {row["split"] for row in rows} == ends.keys()
    assert not any(row["finished"] for row in rows)
    splits = source.splits_at({(topic.name, 0): 3, (topic.name, 1): 5})
    with reading_of_topics.Reading(source, splits=splits) as reading:
        left = reading.read()
    assert {id: [row["value"] for row in read] for id, read in left.items()} == {
        f"{topic.name}/0": numbered(3, 5),
        f"{topic.name}/1": [],
        f"{topic.name}/2": numbered(20, 22),
    }
    resumed = rh.kafka.source(topic.name, brokers=topic.address)
    known = {row["split"]: row["payload"] for row in rows}
    assert {s.id: s.payload for s in resumed.resumed(resumed.splits(), known)} == known


def test_a_group_without_offsets_is_refused(topic: Topic) -> None:
    with pytest.raises(ConfigurationError, match=rf"'nobody' has committed no offset of {topic.name}"):
        import_group(plan_of(topic), "nobody")
    env = rh.Environment()
    env.from_source(rh.collection([{"a": 1}])).sink_to(rh.collect_sink(), name="out")
    with pytest.raises(ConfigurationError, match="the job has no Kafka source"):
        import_group(env.plan(), "nobody")


def test_deleted_records_are_not_skipped_silently(topic: Topic) -> None:
    topic.write({0: numbered(0, 5)})
    commit(topic, f"{topic.name}-g", {0: 1})
    topic.truncate(0, 4)
    with pytest.raises(InputError, match=r"from offset 1 are deleted: its first record has offset 4"):
        import_group(plan_of(topic), f"{topic.name}-g")
