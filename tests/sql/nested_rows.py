"""A table with arrays, maps, structs and JSON, and queries over it in one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

import rheos as rh
from tests.sql.compare import Rows, counted, key_of, rows_of
from tests.sql.data import TABLES, registered

_ITEM = pa.struct([("sku", pa.string()), ("qty", pa.int64())])
_PLACE = pa.struct([("lat", pa.float64()), ("lon", pa.float64())])
_HOME = pa.struct([("city", pa.string()), ("place", _PLACE)])
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [1, 2, 3, 4]),
    "tags": (pa.list_(pa.string()), [["a", "b"], [], None, ["c", None]]),
    "nums": (pa.list_(pa.int64()), [[1, 2, 3], [4], None, []]),
    "items": (
        pa.list_(_ITEM),
        [[{"sku": "x", "qty": 1}, {"sku": "y", "qty": 2}], [], None, [{"sku": None, "qty": 5}]],
    ),
    "deep": (pa.list_(pa.list_(pa.int64())), [[[1, 2], [3]], [[]], None, [[4], None]]),
    "attrs": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", 2)], [], None, [("m", None)]]),
    "home": (
        _HOME,
        [
            {"city": "Rome", "place": {"lat": 1.5, "lon": 2.5}},
            {"city": "Oslo", "place": None},
            None,
            {"city": None, "place": {"lat": 0.0, "lon": 1.0}},
        ],
    ),
    "doc": (
        pa.string(),
        ['{"a":1,"b":"x","c":[1,{"d":3}]}', '{"a":null}', None, '[1,"two",null,{"k":1}]'],
    ),
}
NESTED = pa.table({name: pa.array(values, of) for name, (of, values) in COLUMNS.items()})
UPDATED = "(SELECT auction, ARRAY_AGG(price) AS prices FROM bids GROUP BY auction)"
"""Lists that each bid changes, so that their rows are retracted."""


def environment() -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="simulated")
    registered(env)
    env.register("nested", env.from_source(rh.collection(NESTED), name="nested"))
    return env


def found_in_one_job(queries: Mapping[str, str]) -> dict[str, Rows]:
    """Return the rows of each query. Queries that begin with `postgres:` have its dialect."""
    env, keys = environment(), {}
    for name, text in queries.items():
        dialect = "postgres" if text.startswith("postgres:") else "spark"
        stream = env.sql(text.removeprefix("postgres:"), state_ttl="forever", dialect=dialect)
        keys[name] = key_of(stream)
        stream.collect(name)
    found = env.execute("queries").collected
    return {name: rows_of(table, keys[name]) for name, table in found.items()}


def by_duckdb(queries: Mapping[str, str]) -> dict[str, Rows]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in {**TABLES, "nested": NESTED}.items():
            connection.register(name, table)
        return {name: counted(connection.execute(text).fetchall()) for name, text in queries.items()}
