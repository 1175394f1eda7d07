"""Checks that Rheos and Flink find the same in the same events of Nexmark."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

import rheos as rh
from benchmarks.nexmark import sql
from benchmarks.nexmark.check import OP, final_table
from benchmarks.nexmark.events import SCHEMA, Events, pools
from benchmarks.nexmark.market import market
from benchmarks.nexmark.statements import FLINK_TABLES, STATEMENTS
from benchmarks.peers.check import Totals
from benchmarks.peers.rheos_nexmark import stream_of

EVENTS, PER_SECOND, PARALLELISM = 20_000, 100.0, 2
"""Events of a check are ten milliseconds apart, because SQL does not order simultaneous ones."""
BY_CLOCK = {"q12"}
"""Queries whose results depend on the clock."""


def write_folder(folder: Path) -> None:
    """Write what the Java program reads: the pools of strings, the tables, and the statements."""
    for name, pool in pools().items():
        Path(folder, f"{name}.txt").write_text("\n".join(pool.to_pylist()))
    Path(folder, "tables.sql").write_text(FLINK_TABLES.strip())
    for name, statement in STATEMENTS.items():
        Path(folder, f"{name}.sql").write_text(statement)


def by_rheos(names: Iterable[str], events: int = EVENTS) -> dict[str, Totals]:
    """Return the totals of each final table, from one job in the simulated runtime."""
    env = rh.Environment(parallelism=PARALLELISM, runtime="simulated")
    source = rh.generator(Events(PER_SECOND), count=events, splits=3, schema=SCHEMA, block_rows=500)
    sql.registered(env, market(env, source))
    keys = {}
    for name in names:
        stream = stream_of(name, env)
        changes = stream._type.changes
        keys[name] = () if changes is None else changes.key
        stream.collect(name)
    collected = env.execute("nexmark").collected
    return {name: _totals(pl.DataFrame(collected[name]), key) for name, key in keys.items()}


def command(name: str, folder: Path, events: int, warm_up: int = 0) -> str:
    """Return a line of the input for a check, or for a run whose results are dropped."""
    return (
        f"nexmark --query {name} --folder {folder} --events {events} --warm-up {warm_up} "
        f"--parallelism {PARALLELISM}"
    )


def check_command(name: str, folder: Path, events: int = EVENTS) -> str:
    return f"{command(name, folder, events)} --per-second {PER_SECOND:g} --check yes"


def totals_of(found: dict[str, Any]) -> Totals:
    """Return the totals that the Java program has printed."""
    return Totals(found["results"], tuple(found["sums"]))


def _totals(changes: pl.DataFrame, key: tuple[str, ...]) -> Totals:
    """Return the number of rows of the final table, the sum of each column, and that of the CRCs of
    rows."""
    rows = final_table(changes, key).select(name for name in changes.columns if name != OP or not key)
    times = pl.selectors.datetime().dt.epoch("ms")
    rows = rows.with_columns(times, pl.selectors.boolean().cast(pl.Int64))
    exact = rows.select(~pl.selectors.by_dtype(pl.Float64, pl.Decimal))
    lines = exact.select(pl.concat_str(pl.all().cast(pl.String).fill_null("null") + "|"))
    sums = [_sum(column) for column in rows]
    return Totals(rows.height, (*sums, _crcs(lines.to_series())))


def _sum(column: pl.Series) -> float:
    return _crcs(column) if column.dtype == pl.String else float(column.cast(pl.Float64).sum())


def _crcs(texts: pl.Series) -> float:
    return float(sum(zlib.crc32(text.encode()) for text in texts.drop_nulls()))
