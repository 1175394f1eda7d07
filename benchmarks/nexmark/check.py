"""Compares what the programs find with what DuckDB finds in the same events."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import polars as pl
from polars.testing import assert_frame_equal

import rheos as rh
from benchmarks.nexmark import sql
from benchmarks.nexmark.events import SCHEMA, Events, frames
from benchmarks.nexmark.market import market
from benchmarks.nexmark.query import Query

Found = dict[str, pl.DataFrame]
"""Rows, by the name of the query that has found them."""

OP = "op"
BEFORE, DELETE = "update_before", "delete"


def found_by_rheos(
    queries: Iterable[Query],
    events: int,
    per_second: float,
    *,
    runtime: str = "simulated",
    parallelism: int = 2,
) -> Found:
    """What is there in the end, by the name of the query. All of them are one job."""
    env = rh.Environment(parallelism=parallelism, runtime=runtime)
    source = rh.generator(Events(per_second), count=events, splits=3, schema=SCHEMA, block_rows=500)
    house = market(env, source)
    checked = [query for query in queries if query.sql is not None]
    for query in checked:
        query.program(house).collect(query.name)
    collected = env.execute("nexmark").collected
    return {
        query.name: final_table(pl.DataFrame(collected[query.name]), query.key) for query in checked
    }


def found_by_sql(
    names: Iterable[str], events: int, per_second: float, *, parallelism: int = 2
) -> Found:
    """The same of the queries in SQL."""
    env = rh.Environment(parallelism=parallelism, runtime="simulated")
    source = rh.generator(Events(per_second), count=events, splits=3, schema=SCHEMA, block_rows=500)
    sql.registered(env, market(env, source))
    keys = {}
    for name in names:
        stream = sql.stream_of(env, name)
        changes = stream._type.changes
        keys[name] = () if changes is None else changes.key
        stream.collect(name)
    collected = env.execute("nexmark in SQL").collected
    return {name: final_table(pl.DataFrame(rows), keys[name]) for name, rows in collected.items()}


def found_by_duckdb(queries: Iterable[Query], events: int, per_second: float) -> Found:
    with duckdb.connect() as connection:
        for name, frame in frames(events, per_second).items():
            connection.register(name, _without_zones(frame).to_arrow())
        return {
            query.name: pl.DataFrame(connection.sql(query.sql).to_arrow_table())
            for query in queries
            if query.sql is not None
        }


def check(name: str, ours: Found, theirs: Found) -> int:
    """Raises AssertionError where a query's rows are others. Gives how many there are."""
    expected = theirs[name]
    found = ours[name].select(expected.columns)
    assert expected.height > 0, f"{name}: DuckDB finds nothing, so nothing is compared"
    types = {column: type for column, type in found.schema.items() if type != expected[column].dtype}
    assert_frame_equal(
        found, expected.cast(types), check_row_order=False, check_exact=False, rel_tol=1e-12
    )
    return found.height


def final_table(rows: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """The table that changes leave: of each key the last row, unless that says it is gone."""
    if key:
        changes = rows.filter(pl.col(OP) != BEFORE)
        last = changes.group_by(key, maintain_order=True).last()
        rows = last.filter(pl.col(OP) != DELETE).drop(OP)
    return _without_zones(rows)


def _without_zones(frame: pl.DataFrame) -> pl.DataFrame:
    """Times as SQL has them; all of them are in UTC."""
    return frame.with_columns(
        pl.selectors.datetime().dt.replace_time_zone(None).dt.cast_time_unit("us")
    )
