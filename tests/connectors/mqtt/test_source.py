"""A subscription at a real broker: when messages are acknowledged, and that none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)
from tests.connectors.mqtt.conftest import Client
from tests.connectors.ports import Probe
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json(), "schema": SCHEMA}


class Running:
    """The only subtask of a source."""

    def __init__(self, source: Any, position: bytes | None = None) -> None:
        self.probe = Probe()
        ctx = self.probe.context()
        self.client = ctx.client = source.client(ctx)
        [self.split] = source.splits()
        self.reader = source.open(self.split, position, ctx)

    def rows(self, count: int) -> list[Any]:
        """Return at least this number of values of `n`."""
        return [row["n"] for row in self.whole_rows(count)]

    def whole_rows(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        until_s = time.monotonic() + 30
        while len(found) < count:
            assert time.monotonic() < until_s, found
            polled = self.reader.poll(count - len(found))
            if isinstance(polled, pa.RecordBatch):
                found += polled.to_pylist()
            else:
                time.sleep(0.002)
        return found

    def has_skipped(self) -> bool:
        """Return whether a message was rejected. All others were read before."""
        assert not isinstance(self.reader.poll(1), pa.RecordBatch)
        return self.probe.counts == {"skipped": 1}

    def checkpoint(self) -> bytes:
        """Complete a checkpoint."""
        position: bytes = self.reader.position()
        self.client.completed({self.split.id: position})
        return position

    def close(self) -> None:
        self.reader.close()
        self.client.close()


@contextmanager
def running(source: Any, position: bytes | None = None) -> Iterator[Running]:
    job = Running(source, position)
    try:
        yield job
    finally:
        job.close()


def values(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def test_messages_are_acknowledged_when_their_checkpoint_is_complete(
    mqtt_server: Any, mqtt_client: Client, prefix: str
) -> None:
    mqtt_client.put(f"{prefix}/a", *values(0), retain=True)
    given: dict[str, Any] = {"metadata": {"topic": "topic", "retained": "kept"}, **JSON}
    source = rh.mqtt.source(mqtt_server.url, topic=f"{prefix}/#", client_id=prefix, **given)
    with running(source) as job:
        assert job.whole_rows(1) == [{"n": 0, "topic": f"{prefix}/a", "kept": True}]
        mqtt_client.put(f"{prefix}/b/c", *values(1, 2, 3))
        assert job.whole_rows(1) == [{"n": 1, "topic": f"{prefix}/b/c", "kept": False}]
        job.checkpoint()
        assert job.rows(1) == [2]
    mqtt_client.put(f"{prefix}/b", *values(4))
    with running(source) as job:
        # The checkpoint has 0 and 1; the retained message is not sent to a known session.
        assert job.rows(3) == [2, 3, 4]


def test_bad_messages_fail_the_job_or_are_rejected(
    mqtt_server: Any, mqtt_client: Client, prefix: str
) -> None:
    mqtt_client.put(f"{prefix}/a", b"no JSON", retain=True)
    mqtt_client.put(f"{prefix}/b", *values(1), retain=True)
    for on_error in ("fail", "skip"):
        source = rh.mqtt.source(
            mqtt_server.url,
            topic=f"{prefix}/#",
            client_id=prefix + on_error,
            on_error=on_error,
            **JSON,
        )
        with running(source) as job:
            if on_error == "fail":
                with pytest.raises(InputError, match=f"{prefix}fail@"):
                    job.rows(2)
            else:
                assert job.rows(1) == [1]
                wait_for(job.has_skipped, 30)
                assert [row["record"] for row in job.probe.rejected] == ["no JSON"]


@pytest.mark.slow
@pytest.mark.proves(
    "MQTT",
    faults=["the broker is killed while a source reads"],
    slow_because="the broker starts again",
)
@pytest.mark.parametrize("waits", ["checkpoint", "received"])
def test_a_broker_that_is_killed_sends_again_what_was_not_acknowledged(
    mqtt_server: Any, mqtt_client: Client, prefix: str, waits: Any
) -> None:
    source = rh.mqtt.source(mqtt_server.url, topic=prefix, client_id=prefix, acknowledge=waits, **JSON)
    with running(source) as job:
        mqtt_client.put(prefix, b"{}", retain=True)
        assert job.rows(1) == [None]
        mqtt_client.put(prefix, *values(*range(100)))
        assert job.rows(50) == [*range(50)]
        mqtt_server.kill()
        mqtt_server.start()
        mqtt_client.put(prefix, *values(*range(100, 200)))
        # The job reads on: nothing is lost. What it has is not read twice, unless the broker has
        # already forgotten an acknowledgement.
        found: list[int] = []
        while len({*found} - {*range(50)}) < 150:
            found += job.rows(1)
        if waits == "checkpoint":
            assert found == [*range(50, 200)]
        job.checkpoint()
        assert job.probe.counts["retries"] >= 1


@pytest.mark.slow
def test_two_clients_with_one_session_do_not_fight_forever(
    mqtt_server: Any, mqtt_client: Client, prefix: str
) -> None:
    mqtt_client.put(prefix, *values(1), retain=True)
    source = rh.mqtt.source(mqtt_server.url, topic=prefix, client_id=prefix, retry_for="2s", **JSON)

    def has_failed(job: Running) -> bool:
        try:
            job.reader.poll(1)
        except (ConfigurationError, UnavailableError) as error:
            return "client_id" in str(error)
        return False

    with running(source) as first, running(source) as second:
        wait_for(lambda: has_failed(first) or has_failed(second), 60)


@pytest.mark.parametrize(
    "given",
    [
        {"topic": "a/#/b"},
        {"topic": "a+/b"},
        {"topic": ""},
        {"topic": ["a", "a"]},
        {"client_id": ""},
        {"keep_for": "0s"},
        {"keep_for": "200000d"},
        {"acknowledge": "never"},
        {"metadata": {"subject": "s"}},
        {"options": {"tls_ca_file": "/ca.pem"}},
        {"options": {"user": "ada"}},
        {"url": "nats://localhost"},
        {"url": "mqtt://"},
        {"url": "mqtt://localhost/topic"},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(given: dict[str, Any]) -> None:
    fine = {"url": "mqtt://localhost", "topic": "a/+/#", "client_id": "jobs", **JSON}
    rh.mqtt.source(**fine)
    with pytest.raises(ProgramError):
        rh.mqtt.source(**{**fine, **given})


def test_columns_of_fields_have_their_types() -> None:
    given: dict[str, Any] = {**JSON, "schema": {"n": int, "kept": int}}
    metadata = {"retained": "kept"}
    with pytest.raises(SchemaError, match="the retained of a message is bool"):
        rh.mqtt.source("mqtt://localhost", topic="a", client_id="a", metadata=metadata, **given)
