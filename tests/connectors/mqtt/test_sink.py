"""The sink at a real broker: which messages it has, also after failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, ProgramError
from rheos.core.protocol.ids import CheckpointId
from rheos.ops.servers.server import HOST, development_server
from rheos.testing import Faults, check_sink, simulate
from rheos.testing.servers import MosquittoServer
from tests.connectors.mqtt.conftest import Client
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json()}
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


def test_a_topic_is_built_from_columns(mqtt_server: Any, mqtt_client: Client, prefix: str) -> None:
    assert mqtt_server.address.startswith(HOST)
    mqtt_client.subscribe(f"{prefix}/#")
    sink = rh.mqtt.sink(mqtt_server.url, topic=f"{prefix}/{{k}}/n-{{n}}", value="n", **JSON)
    sink.validate(SCHEMA)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    writer.write(rows(*range(1500)))
    assert writer.prepare(CheckpointId(1)) == []
    sent = [(f"{prefix}/k{n % 3}/n-{n}", {"n": n}, False) for n in range(1500)]
    assert mqtt_client.received(1500) == sent
    for bad in ("a/b", "", "+", "#", None):
        with pytest.raises(InputError, match="cannot be a level of the topic"):
            writer.write(batch_of(SCHEMA, {"k": bad, "n": 1}))
    writer.close()
    # The broker keeps the last message of each topic.
    sink = rh.mqtt.sink(mqtt_server.url, topic=f"{prefix}-kept", retain=True, **JSON)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    writer.write(rows(1, 2))
    writer.close()
    mqtt_client.subscribe(f"{prefix}-kept")
    assert mqtt_client.received(1501)[1500:] == [(f"{prefix}-kept", {"k": "k2", "n": 2}, True)]
    # Nobody else may connect.
    for url in (f"mqtt://{mqtt_server.address}", f"mqtt://ada:guess@{mqtt_server.address}"):
        with pytest.raises(ConfigurationError, match="Not authorized"):
            rh.mqtt.sink(url, topic="t", **JSON).prepared(SCHEMA, ("job", "sink"))


@pytest.mark.slow
@pytest.mark.proves(
    "MQTT",
    faults=["the broker is killed", "workers of a simulated job crash"],
    slow_because="the broker starts again",
)
def test_rows_arrive_after_any_crash(mqtt_server: Any, mqtt_client: Client, prefix: str) -> None:
    mqtt_client.subscribe(f"{prefix}/#")

    def restart() -> None:
        mqtt_server.kill()
        mqtt_server.start()
        # The client's own session has ended with its connection.
        mqtt_client.subscribe(f"{prefix}/#")

    def build(env: rh.Environment) -> rh.DataStream:
        given = [{"k": f"k{n % 3}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(given, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.sink_to(rh.mqtt.sink(mqtt_server.url, topic=f"{prefix}/{{k}}", **JSON))
        return found

    AT_ROW[30] = restart
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    assert done.crashes > 0
    assert not AT_ROW
    assert {row["n"] for _, row, _ in mqtt_client.received(60)} == {*range(60)}


@pytest.mark.slow
def test_the_sink_keeps_the_contract(mqtt_server: Any, prefix: str) -> None:
    made: list[Client] = []

    def make(name: str, schema: pa.Schema) -> Any:
        topic = f"{prefix}{len(made)}"
        client = Client(mqtt_server.url)
        client.subscribe(topic)
        made.append(client)

        def seen() -> list[dict[str, Any]]:
            decoder = rh.formats.json().decoder(schema)
            return decoder.decode(pa.array(client.payloads(topic), pa.binary())).rows.to_pylist()

        return rh.mqtt.sink(mqtt_server.url, topic=topic, **JSON), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))
    for client in made:
        client.close()


@pytest.mark.slow
def test_small_limits_of_a_broker_are_respected(prefix: str) -> None:
    settings = {"max_inflight_messages": 3, "max_packet_size": 300}
    assert development_server("mqtt") is MosquittoServer
    with MosquittoServer(settings=settings) as server:
        client = Client(server.url)
        client.subscribe(prefix)
        sink = rh.mqtt.sink(server.url, topic=prefix, **JSON)
        writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
        writer.write(rows(*range(50)))
        assert [row["n"] for _, row, _ in client.received(50)] == [*range(50)]
        with pytest.raises(InputError, match="the broker accepts 300"):
            writer.write(batch_of(SCHEMA, {"k": "x" * 300, "n": 1}))
        writer.close()
        client.close()


@pytest.mark.parametrize("topic", ["a/+", "a/#", "", "$SYS/a", "a/{n", 5], ids=str)
def test_wrong_topics_are_refused(topic: Any) -> None:
    with pytest.raises(ProgramError, match="is not a topic"):
        rh.mqtt.sink("mqtt://a", topic=topic, **JSON)


def test_a_machine_without_mosquitto_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ConfigurationError, match="mosquitto is not installed"):
        MosquittoServer().install()
