"""The sink on a real Redis: stored values after failures of the server and the job."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors import outage_patience
from rheos.connectors.redis.text import from_bytes
from rheos.core.connectors.contract import SinkWriter
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)
from rheos.core.protocol.ids import CheckpointId
from rheos.ops.servers.server import free_port
from rheos.testing import Faults, check_sink, simulate
from tests.connectors.ports import Probe, batch_of, sink_context

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def opened(sink: rh.connectors.Sink, probe: Probe | None = None) -> SinkWriter:
    sink.validate(SCHEMA)
    ctx = sink_context(SCHEMA)
    ctx.count = (probe or Probe()).context().count
    return sink.prepared(SCHEMA, ("job", "sink")).open(ctx)


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n % 10}", "n": n} for n in numbers))


def test_the_newest_row_of_a_key_remains(redis_server: Any, redis: Any, prefix: str) -> None:
    writer = opened(rh.redis.sink(redis_server.url, key=f"{prefix}:{{k}}"))
    writer.write(rows(*range(10_000)))
    writer.write(rows(10_003))
    assert writer.prepare(CheckpointId(1)) == []
    writer.close()
    assert redis.hgetall(f"{prefix}:k3") == {"k": "k3", "n": "10003"}
    assert redis.hgetall(f"{prefix}:k9") == {"k": "k9", "n": "9999"}


@pytest.mark.proves("Redis", faults=["the server restarts without its data"])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_server_that_restarted_without_its_data_is_noticed(
    redis_server: Any,
    redis: Any,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    emptied: bool,
) -> None:
    probe = Probe()
    writer = opened(rh.redis.sink(redis_server.url, key=f"{prefix}:{{k}}"), probe)
    writer.write(rows(*range(100)))
    writer.prepare(CheckpointId(1))
    monkeypatch.setattr(outage_patience, "sleep", lambda seconds: redis_server.start())
    if emptied:
        redis.flushall()
    redis_server.kill()
    writer.write(rows(2, 12))
    writer.prepare(CheckpointId(2))
    writer.close()
    assert probe.counts.pop("retries") >= 1
    assert probe.counts == ({"lost_data": 1} if emptied else {})
    assert ("has lost rows that were delivered" in caplog.text) is emptied


def test_a_server_that_restarts_is_waited_for(
    redis_server: Any, redis: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = Probe()
    writer = opened(rh.redis.sink(redis_server.url, key=f"{prefix}:{{k}}"), probe)
    writer.write(rows(1))
    writer.prepare(CheckpointId(1))
    # It starts again while the writer waits for the second time.
    waits = iter([lambda: None, redis_server.start])
    monkeypatch.setattr(outage_patience, "sleep", lambda seconds: next(waits)())
    redis_server.kill()
    writer.write(rows(2, 12))
    writer.prepare(CheckpointId(2))
    assert probe.counts == {"retries": 2}
    writer.close()
    assert {k: redis.hget(f"{prefix}:{k}", "n") for k in ("k1", "k2")} == {"k1": "1", "k2": "12"}


def test_a_server_that_stays_away_is_an_error_without_its_password() -> None:
    url = f"redis://:open%20sesame@127.0.0.1:{free_port()}/3"
    sink = rh.redis.sink(url, key="{k}", retry_for="1ms")
    with pytest.raises(
        UnavailableError, match=r"rows cannot be written to Redis, at 127.0.0.1"
    ) as raised:
        opened(sink)
    shown = f"{raised.value}{sink!r}{sink.describe()}"
    assert "sesame" not in shown
    assert "restarted by its restart strategy" in shown
    assert pickle.loads(pickle.dumps(sink)) == sink


def test_refused_passwords_and_kinds_of_keys_are_errors_at_once(
    redis_server: Any, redis: Any, prefix: str
) -> None:
    wrong = f"redis://:hearts@{redis_server.address}"
    with pytest.raises(ConfigurationError, match="invalid username") as raised:
        opened(rh.redis.sink(wrong, key="{k}"))
    assert "hearts@" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="Authentication required"):
        opened(rh.redis.sink(f"redis://{redis_server.address}", key="{k}"))
    redis.set(f"{prefix}:k2", "no hash")
    writer = opened(rh.redis.sink(redis_server.url, key=f"{prefix}:{{k}}"))
    writer.write(rows(1, 2, 3))
    with pytest.raises(InputError, match="WRONGTYPE") as refused:
        writer.prepare(CheckpointId(1))
    writer.close()
    assert refused.value.record == "{'k': 'k2', 'n': 2}"


def test_values_expire_after_their_time_to_live(redis_server: Any, redis: Any, prefix: str) -> None:
    for name, form in (("hash", None), ("json", rh.formats.json())):
        given: dict[str, Any] = {"format": form, "ttl": "1h", "value": "n"}
        writer = opened(rh.redis.sink(redis_server.url, key=f"{prefix}:{name}:{{k}}", **given))
        writer.write(rows(5))
        writer.prepare(CheckpointId(1))
        writer.close()
        assert 3_500_000 < redis.pttl(f"{prefix}:{name}:k5") <= 3_600_000
    assert redis.get(f"{prefix}:json:k5") == '{"n":5}'


def test_the_sink_keeps_the_contract(redis_server: Any, prefix: str) -> None:
    import redis

    client = redis.Redis.from_url(redis_server.url)

    def make(name: str, schema: pa.Schema) -> Any:
        of_rule = f"{prefix}:{name}"

        def seen() -> pa.Table:
            found = [client.hgetall(key) for key in sorted(client.keys(f"{of_rule}:*"))]
            columns = {
                name: pa.array([row.get(name.encode()) for row in found], pa.binary())
                for name in schema.names
            }
            decoded, _, bad = from_bytes(columns, len(found), schema)
            assert not bad
            return pa.Table.from_batches([decoded])

        return rh.redis.sink(redis_server.url, key=f"{of_rule}:{{n}}"), seen

    types = check_sink(make)
    assert {"bool", "float64", "decimal", "timestamp", "binary"} <= set(types)
    assert "list" not in types


def test_a_job_with_faults_leaves_the_newest_counts(redis_server: Any, redis: Any, prefix: str) -> None:
    def pages(block: Any) -> Any:
        return {"page": [f"page-{n % 7}" for n in block.number()]}

    def build(env: rh.Environment) -> rh.DataStream:
        made = env.from_source(rh.generator(pages, count=140, rate_per_s=100))
        counts = made.key_by("page").running(visits=rh.agg.count())
        counts.sink_to(rh.redis.sink(redis_server.url, key=f"{prefix}:{{page}}", value="visits"))
        return counts

    done = simulate(build, seed=3, faults=Faults(crash_slot=4.0))
    assert done.crashes > 0
    found = {key: redis.hgetall(key) for key in redis.keys(f"{prefix}:*")}
    assert found == {f"{prefix}:page-{n}": {"visits": "20"} for n in range(7)}


def test_unwritable_columns_are_refused_when_the_program_is_built() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    env = rh.Environment(1, runtime="simulated")
    stream = env.from_source(rh.collection([{"k": "a", "n": [1], "x": 0.5, "at": at}]))
    url = "redis://localhost"
    for given, what in (
        ({"key": "{x}"}, "'x', which is double"),
        ({"key": "{k}"}, "'n' of type list"),
        ({"key": "{z}"}, "'z', which the stream does not have"),
        ({"key": "{k}", "value": ["z"]}, "'z', which the stream does not have"),
        ({"key": "{k}", "delete": "x"}, "must be true or false"),
        ({"key": "{k}", "format": rh.formats.arrow()}, "puts several rows into one value, but each"),
    ):
        with pytest.raises(SchemaError, match=what):
            stream.sink_to(rh.redis.sink(url, **given))
    for bad, options, what in (
        ("localhost:6379", None, "not a valid URL for a Redis"),
        (url, {"protocol": 3}, "'protocol' is set by Rheos"),
        (url, {"sock_timeout": 3}, "sock_timeout"),
    ):
        with pytest.raises(ProgramError, match=what):
            rh.redis.sink(bad, key="{k}", options=options)
