"""Rows of a table, looked up at the real server."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.connectors.lookup import LookupContext
from rheos.core.errors import (
    ConfigurationError,
    ProgramError,
    RheosError,
    SchemaError,
    UnavailableError,
)
from tests.connectors.postgres.databases import Database


def asked(lookup: Any, keys: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Look up keys; return the indexes of the keys, and the rows found for them."""
    lookup.validate(keys.schema)
    client = pickle.loads(pickle.dumps(lookup)).open(LookupContext("users", 0, keys.schema))
    try:
        found = client.fetch(keys)
    finally:
        client.close()
    rows = [tuple(row.values()) for row in found.rows.to_pylist()]
    return sorted(zip(found.of.to_pylist(), rows, strict=True), key=repr)


def test_rows_are_found_by_one_column_or_several(database: Database) -> None:
    database.run(
        "CREATE TABLE users (id int PRIMARY KEY, name varchar(3), joined timestamptz, "
        "score numeric(6, 2))",
        "INSERT INTO users VALUES (1, 'ada', '2026-03-01 12:00+00', 1.5), (2, 'bob', NULL, NULL), "
        "(3, 'ada', NULL, 3)",
    )
    by_id = rh.postgres.lookup("users", url=database.url, key="id", columns=["name", "joined"])
    assert asked(by_id, pa.record_batch({"user": pa.array([3, 9, 1, 2**40])})) == [
        (0, ("ada", None)),
        (2, ("ada", datetime(2026, 3, 1, 12, tzinfo=UTC))),
    ]
    by_name = rh.postgres.lookup("users", url=database.url, key=["name", "score"])
    assert by_name.schema.names == ["id", "joined"]
    names = ["ada", "ada", 'b"o\\b', "a\0", "adalbert"]
    keys = pa.record_batch({"n": names, "s": pa.array([3.0, 1.5, 0.0, 0.0, 1.5])})
    assert asked(by_name, keys) == [
        (0, (3, None)),
        (1, (1, datetime(2026, 3, 1, 12, tzinfo=UTC))),
    ]
    several = rh.postgres.lookup("users", url=database.url, key="name", columns="id")
    assert asked(several, pa.record_batch({"n": ["bob", "ada"]})) == [(0, (2,)), (1, (1,)), (1, (3,))]


def test_a_stream_looks_rows_up(database: Database) -> None:
    database.run(
        "CREATE TABLE pages (page text PRIMARY KEY, topic jsonb)",
        "INSERT INTO pages VALUES ('a', '{\"of\": 1}'), ('b', NULL)",
    )
    env = rh.Environment(runtime="simulated")
    visits = env.from_source(rh.collection([{"page": page} for page in "abca"]))
    visits.lookup(rh.postgres.lookup("pages", url=database.url, key="page"), on="page").collect("out")
    found = env.execute("lookups").collected["out"].to_pylist()
    assert sorted(map(repr, found)) == sorted(
        repr({"page": page, "topic": topic})
        for page, topic in [("a", '{"of": 1}'), ("a", '{"of": 1}'), ("b", None), ("c", None)]
    )


def test_a_lookup_is_retried_if_the_server_is_unavailable(database: Database) -> None:
    database.run("CREATE TABLE away (id int PRIMARY KEY, a text)", "INSERT INTO away VALUES (1, 'a')")
    lookup = rh.postgres.lookup("away", url=database.url, key="id")
    keys = pa.record_batch({"id": pa.array([1])})
    client = lookup.open(LookupContext("away", 0, keys.schema))
    assert client.fetch(keys).rows.to_pylist() == [{"a": "a"}]
    database.server.kill()
    for _ in range(2):
        with pytest.raises(UnavailableError) as raised:
            client.fetch(keys)
        assert database.password not in str(raised.value)
    database.server.start()
    assert client.fetch(keys).rows.to_pylist() == [{"a": "a"}]
    client.close()
    database.run("DROP TABLE away")
    with pytest.raises(ConfigurationError, match=r'"public\.away" does not exist'):
        asked(lookup, keys)


def test_invalid_arguments_are_refused_at_their_line(database: Database) -> None:
    database.run("CREATE TABLE right_one (id int PRIMARY KEY, a text)")
    url = database.url
    wrong: list[tuple[Any, type[RheosError], str]] = [
        (
            lambda: rh.postgres.lookup("nowhere", url=url, key="id"),
            ConfigurationError,
            "does not exist",
        ),
        (lambda: rh.postgres.lookup("right_one", url=url, key="no"), SchemaError, "no column 'no'"),
        (
            lambda: rh.postgres.lookup("right_one", url=url, key=[]),
            ProgramError,
            "does not name columns",
        ),
        (
            lambda: rh.postgres.lookup("right_one", url=url, key=["id", "a"]),
            ProgramError,
            "no column to look up is named",
        ),
    ]
    for build, kind, message in wrong:
        with pytest.raises(kind, match=message) as raised:
            build()
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
    lookup = rh.postgres.lookup("right_one", url=url, key="id")
    with pytest.raises(SchemaError, match=r"is integer, but the stream's column is string"):
        lookup.validate(pa.schema({"user": pa.string()}))
    assert database.password not in f"{lookup!r} {lookup.describe()}"
