"""The sink on a real server: which messages its queues have, also after failures."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError
from rheos.core.protocol.ids import CheckpointId
from rheos.ops.servers.server import HOST
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.ports import batch_of, sink_context
from tests.connectors.rabbitmq.conftest import Queues

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json()}
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
pytestmark = pytest.mark.slow  # A server takes some 15 s of processor time to start.


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 3}", "n": n} for n in numbers))


def test_a_routing_key_is_built_from_columns(rabbitmq_server: Any, queues: Queues, prefix: str) -> None:
    assert rabbitmq_server.address.startswith(HOST)
    url = rabbitmq_server.url
    queues.bind(prefix, prefix, "k.#")
    sink = rh.rabbitmq.sink(url, exchange=prefix, routing_key="k.{k}.n-{n}", value="n", **JSON)
    sink.validate(SCHEMA)
    writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
    writer.write(rows(*range(1500)))
    assert writer.prepare(CheckpointId(1)) == []
    assert queues.taken(prefix) == [(f"k.k{n % 3}.n-{n}", {"n": n}) for n in range(1500)]
    for bad in ("a.b", "", "*", "#", None):
        with pytest.raises(InputError, match="cannot be a word of the routing_key"):
            writer.write(batch_of(SCHEMA, {"k": bad, "n": 1}))
    writer.close()
    # Messages for which there is no queue.
    for drops in (False, True):
        how: Any = "drop" if drops else "fail"
        sink = rh.rabbitmq.sink(url, exchange=prefix, routing_key="{k}", on_unrouted=how, **JSON)
        writer = sink.prepared(SCHEMA, ("job", "sink")).open(sink_context(SCHEMA))
        if drops:
            writer.write(rows(1))
        else:
            with pytest.raises(InputError, match=r"no queue receives .* 'k1'"):
                writer.write(rows(1))
        writer.close()
    for target, kind, text in (
        (
            rh.rabbitmq.sink(url, exchange=f"{prefix}-none", routing_key="k", **JSON),
            InputError,
            "NOT_FOUND",
        ),
        (
            rh.rabbitmq.sink(f"amqp://a:b@{rabbitmq_server.address}", routing_key="k", **JSON),
            ConfigurationError,
            "ACCESS_REFUSED",
        ),
    ):
        with pytest.raises(kind, match=text):
            target.prepared(SCHEMA, ("job", "sink"))


def test_the_sink_keeps_the_contract(rabbitmq_server: Any, queues: Queues, prefix: str) -> None:
    made: list[str] = []

    def make(name: str, schema: pa.Schema) -> Any:
        queue = f"{prefix}{len(made)}"
        queues.create(queue)
        made.append(queue)

        def seen() -> list[dict[str, Any]]:
            payloads = [payload for _, payload in queues.payloads(queue, keep=True)]
            decoder = rh.formats.json().decoder(schema)
            return decoder.decode(pa.array(payloads, pa.binary())).rows.to_pylist()

        return rh.rabbitmq.sink(rabbitmq_server.url, routing_key=queue, **JSON), seen

    check_sink(make, rows=pa.table({"n": list(range(8))}))
    for queue in made:
        queues.delete(queue)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.proves(
    "RabbitMQ",
    faults=["the server is killed", "workers of a simulated job crash"],
    slow_because="a server takes some 15 s of processor time to start",
)
def test_rows_arrive_after_any_crash(rabbitmq_server: Any, queues: Queues, prefix: str) -> None:
    def restart() -> None:
        rabbitmq_server.kill()
        rabbitmq_server.start()

    def build(env: rh.Environment) -> rh.DataStream:
        given = [{"k": f"k{n % 3}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(given, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.sink_to(rh.rabbitmq.sink(rabbitmq_server.url, routing_key=prefix, **JSON))
        return found

    AT_ROW[30] = restart
    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    gc.collect()  # A worker that has crashed leaves its connection open, as a killed process does.
    assert done.crashes > 0
    assert not AT_ROW
    assert {row["n"] for _, row in queues.taken(prefix)} == {*range(60)}
