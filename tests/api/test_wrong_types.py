"""Values of wrong types, in place of each argument of each public constructor: the error is Rheos's own
and begins with the user's line. A value may also be accepted, and checked where it is used."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InternalError, RheosError

WRONG = [None, True, -1, 2.5, "wrong", b"wrong", [], ["wrong"], {}, {"wrong": 1}, object(), int, len]
CALLS: dict[Callable[..., Any], dict[str, Any]] = {
    rh.Environment: {},
    rh.Tumbling: {"size": "1m"},
    rh.Sliding: {"size": "1h", "every": "10m"},
    rh.Cumulating: {"max": "1h", "step": "10m"},
    rh.Session: {"gap": "1m"},
    rh.CountTumbling: {"size": 3},
    rh.CountSliding: {"size": 3, "every": 1},
    rh.Watermark.bounded_out_of_orderness: {"bound": "5s", "on": "at"},
    rh.Watermark.monotonic: {"on": "at"},
    rh.ValueState: {"type": int},
    rh.ListState: {"type": int},
    rh.MapState: {"key_type": str, "value_type": int},
    rh.TimeToLive: {"duration": "1h"},
    rh.Replay: {"on": "at", "speed": "60x"},
    rh.Checkpoints: {},
    rh.StateConfig: {},
    rh.duration: {"value": "5s"},
    rh.retry: {},
    rh.load_once: {"loader": dict},
    rh.collection: {"rows": [{"n": 1}]},
    rh.generator: {"fn": lambda block: {"n": block.index()}, "count": 3},
    rh.hybrid: {"first": rh.collection([{"n": 1}])},
    rh.lookup_table: {"table": pa.table({"id": [1], "n": [2]}), "key": "id"},
    rh.restart.fixed_delay: {"attempts": 3},
    rh.restart.failure_rate: {"failures": 3, "interval": "1m"},
    rh.restart.exponential_delay: {},
    rh.triggers.count: {"n": 3},
    rh.evictors.count: {"n": 3},
    rh.agg.sum: {"column": "n"},
    rh.agg.quantile: {"column": "n", "q": 0.5},
    rh.agg.top_k: {"column": "n", "k": 3},
    rh.files.source: {"path": "in", "schema": {"n": int}},
    rh.files.sink: {"path": "out"},
    rh.kafka.source: {"topics": "t", "brokers": "a:1", "schema": {"n": int}, "format": "json"},
    rh.kafka.sink: {"topic": "t", "brokers": "a:1"},
    rh.redis.source: {"url": "redis://a", "stream": "s", "schema": {"n": int}},
    rh.redis.sink: {"url": "redis://a", "key": "k:{n}"},
    rh.postgres.sink: {"table": "t", "url": "postgresql://a/b"},
    rh.clickhouse.sink: {"table": "t", "url": "http://a:8123"},
    rh.mongodb.sink: {"collection": "t", "url": "mongodb://a/b", "id": "n"},
    rh.opensearch.sink: {"url": "http://a:9200", "index": "t", "id": "n"},
    rh.cassandra.sink: {"table": "k.t", "hosts": "a"},
    rh.tables.sink: {"target": "t"},
    rh.delta.sink: {"path": "out"},
    rh.iceberg.source: {"table": "a.t", "catalog": {"type": "in-memory"}},
    rh.sql_database.sink: {"table": "t", "url": "sqlite:////tmp/t.db"},
    rh.iceberg.sink: {"table": "a.t", "catalog": {"type": "in-memory"}},
    rh.socket.source: {"address": "a:1"},
    rh.http.source: {"port": 8080, "schema": {"n": int}},
    rh.formats.csv: {},
    rh.formats.arrow: {},
}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_a_value_of_a_wrong_type_is_refused_at_its_line(call: Callable[..., Any]) -> None:
    weak = []
    parameters = inspect.signature(call).parameters.values()
    for name in [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]:
        for value in WRONG:
            try:
                call(**{**CALLS[call], name: value})
            except RheosError as error:
                if isinstance(error, InternalError) or not str(error).startswith(f"{__file__}:"):
                    weak.append((name, value, repr(error)))
            except Exception as error:
                weak.append((name, value, repr(error)))
    assert not weak
