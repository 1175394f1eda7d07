"""Programs for the engines' tests, and what must come of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.graph import aggregates as agg
from rheos.graph.windows import Watermark
from rheos.testing import programs
from rheos.testing.programs import Arrived, Program, same
from rheos.testing.worlds import Input


def made(rows: int = 400, splits: int = 3, seed: int = 1, rate_per_s: float = 1e6) -> Input:
    return Input(
        splits=splits,
        rows=rows,
        rate_per_s=rate_per_s,
        block_rows=20,
        keys=20,
        hot_keys=3,
        jitter_ms=30,
        bound_ms=15,
        first=0,
        seed=seed,
    )


def _twice_keyed(rows: DataStream) -> Mapping[str, DataStream]:
    """Two hash exchanges behind each other."""
    counted = rows.key_by("k").running(n=agg.count(), i=agg.max("i"))
    return {"out": counted.with_columns(g=pl.col("n") % 5).key_by("g").running(m=agg.count())}


def _check_twice_keyed(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    per_key = Counter(row.k for row in rows)
    per_group = Counter(n % 5 for count in per_key.values() for n in range(1, count + 1))
    wanted = [(g, m) for g, count in per_group.items() for m in range(1, count + 1)]
    same(((out["g"], out["m"]) for out in outputs["out"]), wanted, "counts by group")


TWICE_KEYED = Program("twice keyed", _twice_keyed, _check_twice_keyed)


def _joined_streams(rows: DataStream) -> Mapping[str, DataStream]:
    """Forward edges: a union of two branches, and one of the branches behind an exchange."""
    counted = rows.filter(pl.col("i") % 2 == 0).key_by("k").running(n=agg.count(), i=agg.max("i"))
    others = rows.filter(pl.col("i") % 2 == 1).key_by("k").running(n=agg.count(), i=agg.max("i"))
    return {"out": counted.union(others).with_columns(odd=pl.col("i") % 2)}


def _check_joined(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    per_key = Counter((row.k, row.i % 2) for row in rows)
    wanted = [(k, n) for (k, _), count in per_key.items() for n in range(1, count + 1)]
    same(((out["k"], out["n"]) for out in outputs["out"]), wanted, "counts by key and branch")


JOINED = Program("joined", _joined_streams, _check_joined)


def _in_order(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.key_by("k").running(n=agg.count(), i=agg.max("i"), s=agg.sum("i"))}


def _check_in_order(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    """Of one split, whose rows are numbered in their order."""
    wanted: list[tuple[int, int, int, int]] = []
    sums: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    for row in sorted(rows, key=lambda row: row.i):
        sums[row.k] += row.i
        counts[row.k] += 1
        wanted.append((row.k, counts[row.k], row.i, sums[row.k]))
    got = ((out["k"], out["n"], out["i"], out["s"]) for out in outputs["out"])
    same(got, wanted, "rows in their order")


RUNNING_IN_ORDER = Program("in order", _in_order, _check_in_order)

WINDOWS = programs.windows(100, 50, 0)
LATE_WINDOWS = programs.windows(100, 50, 60)


def build(program: Program, of: Input) -> Any:
    def built(env: Environment) -> Mapping[str, DataStream]:
        rows = env.from_source(
            of.source(), watermark=Watermark.bounded_out_of_orderness(f"{of.bound_ms}ms", on="at")
        )
        return program.build(rows)

    return built
