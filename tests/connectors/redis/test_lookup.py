"""Lookups in a real Redis."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.lookup import Found, LookupContext
from rheos.core.errors import ConfigurationError, InputError, SchemaError
from rheos.ops.servers.server import free_port

USER = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("age", pa.int64())])


def fetched(lookup: rh.connectors.Lookup, keys: pa.RecordBatch) -> dict[int, Any]:
    """Look up keys; return the found rows by index of the key."""
    lookup.validate(keys.schema)
    asked = lookup.open(LookupContext("users", 0, keys.schema))
    try:
        found: Found = asked.fetch(keys)
    finally:
        asked.close()
    assert found.rows.schema == lookup.schema
    return dict(zip(found.of.to_pylist(), found.rows.to_pylist(), strict=True))


def test_hashes_are_found_by_their_keys(redis_server: Any, redis: Any, prefix: str) -> None:
    redis.hset(f"{prefix}:uk:1", mapping={"name": "Ada", "age": 36, "more": "x"})
    redis.hset(f"{prefix}:se:2", mapping={"name": "Bo é"})
    redis.hset(f"{prefix}:se:4", mapping={"age": 7})
    lookup = rh.redis.lookup(redis_server.url, key=f"{prefix}:{{land}}:{{id}}", schema=USER)
    keys = pa.record_batch({"land": ["se", "uk", "uk"], "id": [2, 2, 1]})
    assert fetched(lookup, keys) == {
        0: {"name": "Bo é", "age": None},
        2: {"name": "Ada", "age": 36},
    }
    assert fetched(lookup, keys.slice(1, 1)) == {}
    with pytest.raises(InputError, match="column 'name' is missing or null") as raised:
        fetched(lookup, pa.record_batch({"land": ["se", "se"], "id": [3, 4]}))
    assert raised.value.key == f"{prefix}:se:4"


def test_values_are_found_in_their_format(redis_server: Any, redis: Any, prefix: str) -> None:
    redis.mset({f"{prefix}:1": '{"name": "Ada"}', f"{prefix}:3": '{"name": 3}'})
    given: dict[str, Any] = {"schema": USER, "format": rh.formats.json()}
    lookup = rh.redis.lookup(redis_server.url, key=f"{prefix}:{{id}}", **given)
    found = fetched(lookup, pa.record_batch({"id": [2, 1]}))
    assert found == {1: {"name": "Ada", "age": None}}
    assert fetched(lookup, pa.record_batch({"id": [2]})) == {}
    with pytest.raises(InputError, match="must be a string") as raised:
        fetched(lookup, pa.record_batch({"id": [1, 3]}))
    assert raised.value.key == f"{prefix}:3"


def test_temporary_errors_are_left_to_the_operator(redis_server: Any, redis: Any) -> None:
    import redis as client

    keys = pa.record_batch({"id": [1]})
    away = rh.redis.lookup(f"redis://127.0.0.1:{free_port()}", key="{id}", schema=USER)
    with pytest.raises(client.ConnectionError):
        fetched(away, keys)
    closed = rh.redis.lookup(f"redis://{redis_server.address}", key="{id}", schema=USER)
    with pytest.raises(ConfigurationError, match="Authentication required"):
        fetched(closed, keys)
    redis.set("a text", "no hash")
    kinds = pa.record_batch({"id": ["key", "text", "hash"]})
    with pytest.raises(InputError, match="WRONGTYPE") as raised:
        fetched(rh.redis.lookup(redis_server.url, key="a {id}", schema=USER), kinds)
    assert raised.value.key == "a text"
    redis.hset("a hash", mapping={"name": "Ada"})
    values = rh.redis.lookup(redis_server.url, key="a {id}", schema=USER, format=rh.formats.json())
    assert fetched(values, kinds.slice(2)) == {}
    with pytest.raises(SchemaError, match="'id', which is double"):
        away.validate(pa.schema([("id", pa.float64())]))
