"""Each exported function declares columns in the same forms: a dataclass, an Arrow schema or a dict."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import SchemaError


@dataclass
class Visit:
    user: int
    at: datetime


ARGUMENTS: dict[str, dict[str, Any]] = {
    "clickhouse.lookup": {"table": "visits", "url": "http://127.0.0.1:1", "key": "id"},
    "collection": {"rows": []},
    "delta.changes": {"path": "lake/visits"},
    "delta.source": {"path": "lake/visits"},
    "duckdb.lookup": {"table": "visits", "path": "visits.duckdb", "key": "id"},
    "duckdb.source": {"table": "visits", "path": "visits.duckdb"},
    "files.source": {"path": ".", "format": "jsonl"},
    "generator": {"fn": lambda block: pa.table({"user": block.rows})},
    "hbase.lookup": {"table": "visits", "gateway": "127.0.0.1:1", "key": "user", "family": "cf"},
    "hbase.source": {
        "table": "visits",
        "gateway": "127.0.0.1:1",
        "key_columns": "user",
        "family": "cf",
    },
    "http.source": {"port": 8080},
    "iceberg.changes": {"table": "shop.visits", "catalog": {"type": "sql", "uri": "sqlite://"}},
    "iceberg.source": {"table": "shop.visits", "catalog": {"type": "sql", "uri": "sqlite://"}},
    "kafka.source": {"topics": "visits", "brokers": "127.0.0.1:1", "format": rh.formats.json()},
    "kinesis.source": {
        "stream": "visits",
        "format": rh.formats.json(),
        "retry_for": "0s",
        "region": "us-east-1",
        "endpoint": "http://127.0.0.1:1",
        "options": {"aws_access_key_id": "a", "aws_secret_access_key": "b"},
    },
    "lookup_table": {"table": list, "key": "user", "reload_every": "1m"},
    "mongodb.changes": {"collection": "visits", "url": "mongodb://127.0.0.1:1/x"},
    "mongodb.lookup": {"collection": "visits", "url": "mongodb://127.0.0.1:1/x", "key": "_id"},
    "mqtt.source": {
        "url": "mqtt://127.0.0.1:1",
        "topic": "visits",
        "client_id": "job",
        "format": rh.formats.json(),
    },
    "mysql.changes": {"table": "visits", "url": "mysql://127.0.0.1:1/x"},
    "nats.source": {"url": "nats://127.0.0.1:1", "stream": "VISITS", "format": rh.formats.json()},
    "postgres.changes": {"table": "visits", "url": "postgresql://127.0.0.1:1/x"},
    "pulsar.source": {
        "url": "pulsar://127.0.0.1:1",
        "topic": "visits",
        "format": rh.formats.json(),
    },
    "rabbitmq.source": {
        "url": "amqp://127.0.0.1:1",
        "queue": "visits",
        "format": rh.formats.json(),
    },
    "redis.lookup": {"url": "redis://127.0.0.1:1", "key": "user:{id}"},
    "redis.source": {"url": "redis://127.0.0.1:1", "stream": "visits", "format": rh.formats.json()},
    "sql_database.lookup": {"table": "visits", "url": "mysql://ada@127.0.0.1:1/x", "key": "id"},
    "sqs.source": {"queue": "visits", "format": rh.formats.json()},
    "sql_database.source": {"table": "visits", "url": "mysql://ada@127.0.0.1:1/x"},
    "socket.source": {"address": "127.0.0.1:1", "format": rh.formats.json()},
}
NEEDS_ITS_SERVER = {
    "clickhouse.lookup",
    "delta.changes",
    "delta.source",
    "duckdb.lookup",
    "duckdb.source",
    "iceberg.changes",
    "iceberg.source",
    "mongodb.changes",
    "mysql.changes",
    "postgres.changes",
    "sql_database.lookup",
    "sql_database.source",
}
"""Functions that ask the server, or the table, for columns when they are called."""


def functions_with_a_schema() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name in rh.__all__:
        value = getattr(rh, name)
        of = inspect.getmembers(value, inspect.isfunction) if inspect.ismodule(value) else [("", value)]
        for member, fn in of:
            if inspect.isfunction(fn) and not member.startswith("_"):
                schema = inspect.signature(fn).parameters.get("schema")
                if schema is not None and schema.annotation == "Any":
                    found[f"{name}.{member}".rstrip(".")] = fn
    return found


FUNCTIONS = functions_with_a_schema()


def test_every_function_with_a_schema_has_arguments_here() -> None:
    assert {*FUNCTIONS} == {*ARGUMENTS}


@pytest.mark.parametrize("name", sorted({*ARGUMENTS} - NEEDS_ITS_SERVER))
def test_a_dict_declares_the_same_columns_as_a_dataclass(name: str) -> None:
    schemas = [
        FUNCTIONS[name](**ARGUMENTS[name], schema=each).schema
        for each in (Visit, {"user": int, "at": datetime}, {"user": pa.int64(), "at": datetime})
    ]
    columns = [[(field.name, field.type) for field in schema] for schema in schemas]
    assert columns[0] == columns[1] == columns[2]
    assert columns[0]


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@pytest.mark.parametrize("wrong", [{"user": object()}, {1: int}, {}, "user: int", 5, int])
def test_an_invalid_declaration_of_columns_is_refused_with_a_hint(name: str, wrong: Any) -> None:
    with pytest.raises(SchemaError) as raised:
        FUNCTIONS[name](**ARGUMENTS[name], schema=wrong)
    assert raised.value.hint is not None
    assert str(raised.value).startswith(f"{__file__}:")
    if not isinstance(wrong, dict) or "user" not in wrong:
        assert "dict such as" in raised.value.hint


def test_rows_of_files_arrive_by_a_dict(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"user": 1, "at": "2026-01-01T12:00:00Z"}\n')
    env = rh.Environment(1, runtime="simulated")
    source = rh.files.source(tmp_path, schema={"user": int, "at": datetime})
    env.from_source(source, watermark=rh.Watermark.monotonic(on="at")).collect("rows")
    assert env.execute("visits").collected["rows"].column("user").to_pylist() == [1]
