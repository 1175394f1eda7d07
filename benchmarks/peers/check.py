"""Checks that programs of Rheos and Flink compute the same: same rows in, same count and sums out.

usage: python -m benchmarks.peers.check [NAME ...]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import rheos as rh
from benchmarks.peers.flink import Flink
from rheos.cli.benchmarks.programs import PROGRAMS, SINCE, BenchRows, Load

ROWS, KEYS, PARALLELISM = 20_000, 1_000, 2
_WINDOWS_MS, _JOINS_MS = 60_000, 400
"""Event time of the rows. A key has about 20 rows, and a row of a join about one partner in two."""
_SUMS = ("k", "window_start", "window_end", "count", "sum", "max")
_PAIRS = ("k", "v", "at", "v_right", "at_right")


@dataclass(frozen=True)
class Compared:
    """A checked program. `columns` are those of its results, in the order of the Java program."""

    name: str
    columns: tuple[str, ...]
    span_ms: int = _WINDOWS_MS
    inputs: tuple[str, ...] = ("visits",)


COMPARED = (
    Compared("tumbling", _SUMS),
    Compared("sliding", _SUMS),
    Compared("sql-tumbling", _SUMS),
    Compared("sql-sliding", _SUMS),
    Compared("session", _SUMS),
    Compared("top-n", ("k", "window_start", "rank", "v", "at"), inputs=("measurements",)),
    Compared("dedup", ("k", "v", "at"), inputs=("measurements",)),
    Compared("interval-join", _PAIRS, _JOINS_MS, ("left", "right")),
    Compared("window-join", _PAIRS, _JOINS_MS, ("left", "right")),
)


@dataclass(frozen=True)
class Totals:
    """The number of results of a program, and the sum of each column."""

    results: int
    sums: tuple[float, ...]

    def agrees(self, other: Totals) -> bool:
        """Return whether both are the same, apart from the rounding of sums."""
        return (
            self.results == other.results
            and len(self.sums) == len(other.sums)
            and all(
                math.isclose(a, b, rel_tol=1e-7) for a, b in zip(self.sums, other.sums, strict=True)
            )
        )


@dataclass(frozen=True)
class _GivenRows(BenchRows):
    """Creates sources of given tables, by the names of the sources."""

    tables: dict[str, pa.Table]

    def of(self, fn: Any, name: str, *, on: str | None = None, **columns: pa.DataType) -> rh.DataStream:
        source = rh.collection(self.tables[name])
        return self.env.from_source(source, rh.Watermark.monotonic(on=on or "at"), name=name)


def tables(compared: Compared) -> dict[str, pa.Table]:
    """Return the rows of each input: random keys and values, in the order of their times."""
    rng = np.random.default_rng(7)
    return {
        name: pa.table(
            {
                "k": rng.integers(0, KEYS, ROWS),
                "v": rng.random(ROWS),
                "at": np.sort(rng.integers(0, compared.span_ms, ROWS)),
                SINCE: np.zeros(ROWS, np.int64),
            }
        )
        for name in compared.inputs
    }


def by_rheos(compared: Compared, given: dict[str, pa.Table]) -> Totals:
    """Run the program of `rheos bench` over the rows in the simulated runtime."""
    env = rh.Environment(PARALLELISM, runtime="simulated")
    load = Load(PARALLELISM, KEYS, None, 1_000, "")
    PROGRAMS[compared.name].write(_GivenRows(env, load, False, given)).collect("out")
    rows = pl.DataFrame(env.execute(compared.name).collected["out"])
    times = pl.selectors.datetime().dt.epoch("ms")
    totals = rows.with_columns(times).select(compared.columns).cast(pl.Float64).sum()
    return Totals(rows.height, totals.row(0))


def by_flink(compared: Compared, given: dict[str, pa.Table], flink: Flink) -> Totals:
    """Run the Java program over the rows. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="rheos-peer-") as folder:
        for name, table in given.items():
            rows = zip(*(table[column].to_pylist() for column in ("k", "v", "at")), strict=True)
            lines = (f"{key},{value!r},{at}" for key, value, at in rows)
            Path(folder, f"{name}.csv").write_text("\n".join(lines))
        cell = f"{compared.name} --parallelism {PARALLELISM} --keys {KEYS} --inputs {folder}"
        found = flink.run(cell)
    return Totals(found["results"], tuple(found["sums"]))


def main(argv: Sequence[str]) -> int:
    """Return the number of programs whose results differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all programs if left out")
    names = parser.parse_args(argv).names
    wrong = 0
    flink = Flink()
    try:
        for compared in COMPARED:
            if names and compared.name not in names:
                continue
            given = tables(compared)
            ours, theirs = by_rheos(compared, given), by_flink(compared, given, flink)
            if ours.agrees(theirs):
                print(f"{compared.name}: {ours.results:,} results are the same", flush=True)
            else:
                wrong += 1
                print(f"{compared.name}: DIFFERS. Rheos {ours}, Flink {theirs}", flush=True)
    finally:
        flink.close()
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
