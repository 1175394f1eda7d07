"""Lookups in ClickHouse's own engine."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.lookup import LookupContext
from rheos.core.errors import ConfigurationError, InputError, ProgramError, SchemaError
from tests.connectors.clickhouse.conftest import Tables
from tests.connectors.ports import batch_of

pytestmark = pytest.mark.slow  # The wheel with the engine has 500 MB.


def found(lookup: Any, keys: pa.Schema, *rows: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    lookup.validate(keys)
    client = lookup.open(LookupContext("lookup", 0, keys))
    answer = client.fetch(batch_of(keys, *rows))
    client.close()
    pairs = zip(answer.of.to_pylist(), answer.rows.to_pylist(), strict=True)
    return sorted(pairs, key=lambda pair: (pair[0], str(pair[1])))


def test_current_rows_are_found_by_key(tables: Tables) -> None:
    table = tables.replacing(
        "country String, id Int32, name String, at DateTime('UTC'), e Enum8('x' = 1)", "country, id"
    )
    insert = f"INSERT INTO {table} (country, id, name, at, e, deleted) VALUES"
    quoted = "it''s `\\\\`"
    for values in (
        f"('uk', 1, '{quoted}', 1000, 'x', 0), ('uk', 2, 'b', 0, 'x', 0)",
        "('uk', 2, 'c', 2000, 'x', 0), ('it''s', 1, 'd', 0, 'x', 0), ('fr', 1, 'e', 0, 'x', 1)",
    ):
        tables.run(f"{insert} {values}")
    by = rh.clickhouse.lookup(table, url=tables.url, key=["country", "id"], columns=["name", "at", "e"])
    keys = pa.schema([("country", pa.string()), ("number", pa.int64())])
    asked = [
        {"country": country, "number": number}
        for country, number in (("uk", 1), ("uk", 2), ("it's", 1), ("fr", 1), ("uk", 2**40))
    ]
    second = dt.timedelta(seconds=1)
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert found(by, keys, *asked) == [
        (0, {"name": "it's `\\`", "at": epoch + 1000 * second, "e": "x"}),
        (1, {"name": "c", "at": epoch + 2000 * second, "e": "x"}),
        (2, {"name": "d", "at": epoch, "e": "x"}),
    ]
    # More keys than one query has, and several rows of a key.
    many = tables.appended("id Int64, n Int64")
    tables.run(f"INSERT INTO {many} SELECT number % 5000, number FROM numbers(10000)")
    by = rh.clickhouse.lookup(many, url=tables.url, key="id", schema={"id": int, "n": str})
    keys = pa.schema([("id", pa.int64())])
    rows = found(by, keys, *({"id": n} for n in range(5000)))
    assert rows == sorted((n % 5000, {"n": str(n)}) for n in range(10_000))


def test_a_lookup_that_does_not_fit_is_refused(tables: Tables) -> None:
    table = tables.appended("id Int64, price Float64, name String")
    tables.run(f"INSERT INTO {table} VALUES (1, 0.5, 'a')")
    lookups: Any = rh.clickhouse.lookup
    for arguments, kind, text in (
        ({"key": "none"}, SchemaError, "no column 'none'"),
        ({"key": "price"}, SchemaError, "which is no key"),
        ({"key": "id", "columns": []}, ProgramError, "no column to look up"),
        ({"key": ()}, ProgramError, "does not name columns"),
    ):
        with pytest.raises(kind, match=text):
            lookups(table, url=tables.url, **arguments)
    with pytest.raises(ConfigurationError, match="does not exist"):
        lookups(f"{table}_none", url=tables.url, key="id")
    by = lookups(table, url=tables.url, key="id")
    with pytest.raises(SchemaError, match="but the stream's column is string"):
        by.validate(pa.schema([("id", pa.string())]))
    by = lookups(table, url=tables.url, key="id", schema={"id": int, "name": int})
    with pytest.raises(InputError, match="does not fit"):
        found(by, pa.schema([("id", pa.int64())]), {"id": 1})
