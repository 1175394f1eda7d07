"""Rows of two engines, compared as multisets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import rheos as rh
from tests.sql.corpus import VIEWS
from tests.sql.data import TABLES, registered

Rows = Counter[tuple[Any, ...]]


def _plain(value: Any) -> Any:
    """Return the value without its engine's type: numbers by their first 12 digits."""
    match value:
        case bool() | None | str():
            return value
        case float() if math.isnan(value):
            return "NaN"
        case int() | float() | Decimal():
            return float(f"{float(value):.12g}") + 0.0
        case datetime():
            return value.replace(tzinfo=None)
        case list() | tuple():
            return tuple(_plain(each) for each in value)
        case dict():
            return tuple(_plain(each) for each in value.values())
    return value


def counted(rows: Iterable[Iterable[Any]]) -> Rows:
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def key_of(stream: rh.DataStream) -> tuple[str, ...]:
    """Return the columns by which rows replace each other, for a stream of upserts."""
    changes = stream._type.changes
    return changes.key if changes is not None and not changes.retracts else ()


def rows_of(table: pa.Table, key: tuple[str, ...] = ()) -> Rows:
    """Return the final rows: changes are applied, and upserts by their key."""
    names = table.column_names
    if "op" not in names:
        return counted(zip(*(table[name].to_pylist() for name in names), strict=True))
    at = names.index("op")
    left: Rows = Counter()
    newest: dict[Any, Any] = {}
    for row in zip(*(table[name].to_pylist() for name in names), strict=True):
        values = tuple(_plain(value) for place, value in enumerate(row) if place != at)
        if key:
            known = tuple(_plain(row[names.index(name)]) for name in key)
            newest.pop(known, None)
            if row[at] in ("insert", "update_after"):
                newest[known] = values
        else:
            left[values] += 1 if row[at] in ("insert", "update_after") else -1
            assert left[values] >= 0, f"{values} is taken back and was not there"
    return Counter(newest.values()) if key else +left


def found_by_rheos(queries: Mapping[str, str], runtime: str = "simulated") -> dict[str, Rows]:
    """Return the results of all queries, which run in one job."""
    env = rh.Environment(parallelism=2, runtime=runtime)
    registered(env)
    keys = {}
    for name, text in queries.items():
        stream = env.sql(text, state_ttl="forever")
        keys[name] = key_of(stream)
        stream.collect(name)
    found = env.execute("queries").collected
    return {name: rows_of(table, keys[name]) for name, table in found.items()}


def found_by_duckdb(queries: Mapping[str, str]) -> dict[str, Rows]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET error_on_division_by_zero = false")
        for name, table in TABLES.items():
            connection.register(name, table)
        for view, query in VIEWS.values():
            connection.execute(f"CREATE VIEW {view} AS {query}")
        return {name: counted(connection.execute(text).fetchall()) for name, text in queries.items()}
