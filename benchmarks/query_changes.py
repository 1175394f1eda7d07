"""Cost of changes to the tables of a query, for the 22 queries of TPC-H.

Each query is computed twice in the simulated runtime, in one process: over the tables as they are
loaded, and over the same tables with further changes, which replace orders and their items. The
difference is the cost of the changes. DuckDB computes the same query once over the final tables.

columns:
    load        processor time for the first result
    change      processor time for each changed row, in and out
    of load     cost of changing 1 % of the rows, as a share of the load; 2 % if a change costs as much
                as a row, since a changed row is retracted and added
    DuckDB      processor time to compute the result once
    state       size of the operators' state at the end

usage: python -m benchmarks.query_changes [--scale 20] [--query 3 ...]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from random import Random

import duckdb
import pyarrow as pa

import rheos as rh
from tests.sql.tpch import KEYS, Row, draw_row, final_tables, table_of
from tests.sql.tpch_queries import QUERIES

SEED = 11
CHANGED = ("orders", "lineitem")
SHARE = 0.1
"""Share of the orders that is changed."""
REPEATS = 3

Tables = Mapping[str, Sequence[Row]]


def changed(
    tables: Tables, scale: int
) -> tuple[dict[str, list[tuple[Row, Row]]], dict[str, list[Row]]]:
    """Return the changed rows of each table, each before and after, and the resulting tables."""
    rng = Random(SEED + 1)
    orders = {n for n in range(len(tables["orders"])) if rng.random() < SHARE}
    changes: dict[str, list[tuple[Row, Row]]] = {}
    after = {name: [*rows] for name, rows in tables.items()}
    for name in CHANGED:
        width = len(KEYS[name])
        for place, row in enumerate(tables[name]):
            if row[0] in orders:
                drawn = draw_row(rng, name, place, scale)
                after[name][place] = (*row[:width], *drawn[width:])
        both = zip(tables[name], after[name], strict=True)
        changes[name] = [(old, new) for old, new in both if old != new]
    return changes, after


def log_of(name: str, rows: Sequence[Row], changes: Sequence[tuple[Row, Row]]) -> pa.Table:
    """Return the change log of a table: its rows, then the changes."""
    pairs = [row for pair in changes for row in pair]
    ops = ["insert"] * len(rows) + ["update_before", "update_after"] * len(changes)
    return table_of(name, [*rows, *pairs]).append_column("op", pa.array(ops))


def run(query: str, logs: Mapping[str, pa.Table]) -> tuple[float, int]:
    """Run a query over change logs. Return its processor time in ms, and the size of its state in
    bytes.
    """
    env = rh.Environment(parallelism=1, runtime="simulated")
    for name, log in logs.items():
        env.register(name, env.from_source(rh.collection(log), name=name).upserts(key=KEYS[name]))
    with redirect_stdout(StringIO()):  # A note says that ORDER BY has no effect.
        env.sql(query, state_ttl="forever").collect("rows")
    begin = time.process_time()
    result = env.execute("query")
    return (time.process_time() - begin) * 1e3, result.status.last_checkpoint_bytes or 0


def duckdb_ms(query: str, tables: Tables) -> float:
    """Return the processor time that DuckDB takes to compute the result, in ms."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, rows in tables.items():
            connection.register("given", table_of(name, list(rows)))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        spent = []
        for _ in range(REPEATS):
            begin = time.process_time()
            connection.execute(query).fetchall()
            spent.append((time.process_time() - begin) * 1e3)
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of changes to the tables of TPC-H queries.")
    parser.add_argument("--scale", type=int, default=20, help="240 lineitems each (default: 20)")
    parser.add_argument("--query", type=int, nargs="*", default=[*QUERIES], help="(default: all)")
    given = parser.parse_args()
    tables = final_tables(Random(SEED), given.scale)
    changes, after = changed(tables, given.scale)
    loaded = {name: log_of(name, rows, ()) for name, rows in tables.items()}
    updated = {name: log_of(name, rows, changes.get(name, ())) for name, rows in tables.items()}
    rows, count = sum(map(len, tables.values())), sum(map(len, changes.values()))
    print(f"{rows:,} rows, of which {count:,} are changed")
    print(
        f"query{'load, ms':>10}{'change, us':>12}{'of load, %':>12}{'DuckDB, ms':>12}{'state, kB':>11}"
    )
    shares = []
    for number in given.query:
        query = QUERIES[number]
        load, change, size = [], [], 0
        for _ in range(REPEATS):
            before, _ = run(query, loaded)
            both, size = run(query, updated)
            load.append(before)
            change.append(both - before)
        load_ms, change_ms = statistics.median(load), statistics.median(change)
        share = change_ms / count * (rows / 100) / load_ms * 100
        shares.append(share)
        print(
            f"{number:>5}{load_ms:>10.0f}{change_ms / count * 1e3:>12.0f}{share:>12.1f}"
            f"{duckdb_ms(query, after):>12.1f}{size / 1e3:>11.0f}",
            flush=True,
        )
    print(f"median share of the load: {statistics.median(shares):.1f} %")


if __name__ == "__main__":
    main()
