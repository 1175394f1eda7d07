"""Brokers that fail while a job reads and writes: a leader is lost, and a disk is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import rheos as rh
from rheos.connectors.kafka import marks
from rheos.core.errors import ConfigurationError, UnavailableError
from rheos.testing.servers import KafkaBroker
from tests.connectors.kafka.reading import WITHIN_S, Reading, Topic
from tests.connectors.kafka.test_sink import SCHEMA, _commit, epoch, prepared, seen
from tests.connectors.ports import sink_context
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proves(
        "Kafka",
        faults=["the leader of a partition is lost", "the disk is full"],
        slow_because="it starts several brokers",
    ),
]


def installed(broker: KafkaBroker) -> KafkaBroker:
    pytest.importorskip("confluent_kafka", reason="the extra rheos[kafka] is not installed")
    try:
        broker.install()
    except ConfigurationError as error:
        pytest.skip(f"there is no Kafka: {error.what}")
    return broker


@pytest.fixture
def two_brokers() -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """Run two brokers. The second has no controller, so it may be killed while the first continues."""
    copied = {"transaction.state.log.replication.factor": 2, "offsets.topic.replication.factor": 2}
    first = installed(KafkaBroker(settings=copied))
    second = KafkaBroker(joins=first, settings=copied)
    with first, second:
        yield first, second


def leader(admin: Any, topic: str) -> int:
    return int(admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions[0].leader)


def test_reading_and_writing_continue_with_a_new_leader(
    two_brokers: tuple[KafkaBroker, KafkaBroker], tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    first, second = two_brokers
    admin = AdminClient({"bootstrap.servers": first.address})
    wait_for(lambda: set(admin.list_topics(timeout=WITHIN_S).brokers) == {1, 2})
    name = "followed"
    made = NewTopic(name, 1, replica_assignment=[[second.node, first.node]])
    admin.create_topics([made])[name].result(WITHIN_S)
    wait_for(lambda: leader(admin, name) == second.node)
    writer = prepared(first, tmp_path, name).open(sink_context(SCHEMA))
    _commit(writer, epoch(writer, 1, *range(100)))
    with Reading(rh.kafka.source(name, brokers=first.address)) as reading:
        reading.read(100)
        staged = epoch(writer, 2, *range(100, 200))
        second.kill()
        _commit(writer, staged)
        assert leader(admin, name) == first.node
        rows = reading.read(200)
    assert [int(row["value"][5:-1]) for row in rows[f"{name}/0"]] == list(range(200))
    assert seen(first, name) == list(range(200))
    writer.close()


def java_of(broker: KafkaBroker) -> int:
    folder = str(broker.log.parent)
    found = [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if process.name() == "java" and folder in " ".join(process.cmdline())
    ]
    return found[0]


def test_a_full_disk_is_reported_and_the_epoch_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check this with a broker whose files may not grow: each write fails as on a full disk, and the
    broker stops."""
    monkeypatch.setattr(marks, "REACH_S", 2.0)
    monkeypatch.setattr("rheos.connectors.kafka.epoch_commits.PAUSES_MS", (10,))
    with installed(KafkaBroker()) as broker:
        topic = Topic(broker.address).name
        writer = prepared(broker, tmp_path, topic).open(sink_context(SCHEMA))
        _commit(writer, epoch(writer, 1, 1))
        staged = epoch(writer, 2, *range(2, 100))
        resource.prlimit(java_of(broker), resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        with pytest.raises(UnavailableError) as raised:
            _commit(writer, staged)
        assert "check that the brokers are up at that" in " ".join(str(raised.value.hint).split())
        broker.kill()
        broker.start()
        monkeypatch.undo()
        _commit(writer, staged)
        assert seen(broker, topic) == list(range(1, 100))
        writer.close()
