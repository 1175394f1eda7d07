"""The sink on a real Pulsar: which messages the topic has after failures."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.ports import batch_of, sink_context
from tests.connectors.pulsar.conftest import Topics

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json()}
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
BECAUSE = "a server takes some 15 s of processor time to start"
pytestmark = pytest.mark.slow


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def test_the_sink_keeps_the_contract(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    made: list[str] = []

    def make(name: str, schema: pa.Schema) -> Any:
        topic = f"{prefix}{len(made)}"
        made.append(topic)

        def seen() -> list[dict[str, Any]]:
            payloads = [message.data() for message in topics.messages(topic)]
            decoded = rh.formats.json().decoder(schema).decode(pa.array(payloads, pa.binary()))
            rows: list[dict[str, Any]] = decoded.rows.to_pylist()
            return rows

        sink = rh.pulsar.sink(pulsar_server.url, topic=topic, options=topics.options, **JSON)
        return sink, seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_columns_become_parts_of_messages(
    pulsar_server: Any, topics: Topics, prefix: str, compression: Any
) -> None:
    topics.create(prefix, 3)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    schema = SCHEMA.append(pa.field("at", pa.timestamp("us", "UTC")))
    sink = rh.pulsar.sink(
        pulsar_server.url,
        topic=prefix,
        value="n",
        key="k",
        event_time="at",
        properties=["k", "n"],
        compression=compression,
        options=topics.options,
        **JSON,
    )
    sink.validate(schema)
    writer = sink.prepared(schema, ("job", "sink")).open(sink_context(schema))
    rows = [{"k": f"k{n % 5}", "n": n, "at": at} for n in range(1500)]
    writer.write(batch_of(schema, *rows, {"k": None, "n": 1500, "at": None}))
    assert writer.prepare(CheckpointId(1)) == []
    found = {
        payload["n"]: (message.partition_key(), message.event_timestamp(), message.properties())
        for message, payload in topics.decoded(prefix)
    }
    at_ms = int(at.timestamp() * 1000)
    assert found == {
        **{n: (f"k{n % 5}", at_ms, {"k": f"k{n % 5}", "n": str(n)}) for n in range(1500)},
        1500: ("", 0, {"n": "1500"}),
    }
    places: dict[str, set[str]] = {}
    for message, _ in topics.decoded(prefix):
        places.setdefault(message.partition_key(), set()).add(message.topic_name())
    assert all(len(partitions) == 1 for partitions in places.values())
    writer.close()


def test_a_message_that_is_too_large_is_shown(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    sink = rh.pulsar.sink(pulsar_server.url, topic=prefix, options=topics.options, **JSON)
    writer = sink.open(sink_context(SCHEMA))
    with pytest.raises(InputError, match="maxMessageSize") as raised:
        writer.write(batch_of(SCHEMA, {"k": "x" * (6 << 20), "n": 1}))
    assert "record: {'k': 'xxx" in str(raised.value)
    writer.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "Pulsar",
    faults=["the server is killed", "workers of a simulated job crash"],
    slow_because=BECAUSE,
)
def test_rows_arrive_after_any_crash(pulsar_server: Any, topics: Topics, prefix: str) -> None:
    topics.put(f"{prefix}in", *({"k": f"k{n % 3}", "n": n} for n in range(60)))

    def restart() -> None:
        pulsar_server.kill()
        pulsar_server.start()

    given = {"options": topics.options, "retry_for": "200s", **JSON}

    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.pulsar.source(
            pulsar_server.url, topic=f"{prefix}in", end="latest", schema=SCHEMA, **given
        )
        found = env.from_source(source).map(passed, returns=SCHEMA)
        found.sink_to(rh.pulsar.sink(pulsar_server.url, topic=f"{prefix}out", **given))
        return found

    AT_ROW[30] = restart
    faults = Faults(crash_slot=40.0, commit_error=0.2)
    done = simulate(build, seed=5, faults=faults, parallelism=2)
    gc.collect()
    assert done.crashes > 0
    assert not AT_ROW
    assert {row["n"] for row in topics.payloads(f"{prefix}out")} == {*range(60)}
