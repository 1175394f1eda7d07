"""Programs for the tests of engines, and their expected results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.core import aggregates as agg
from rheos.core.graph.watermark import Watermark
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from tests.worlds import programs
from tests.worlds.programs import Arrived, CheckedProgram, same

_START_MS = 1_700_000_000_000
_JITTER_MS = 30
_BOUND_MS = 15


@dataclass(frozen=True)
class Rows:
    """Numbered rows of few keys, out of order by more than the watermark's bound."""

    rows: int
    splits: int
    seed: int
    rate_per_s: float

    def source(self) -> GeneratorSource:
        return generator(
            self._make,
            count=self.rows,
            rate_per_s=self.rate_per_s,
            splits=self.splits,
            block_rows=20,
            seed=self.seed,
        )

    def _make(self, block: Block) -> dict[str, Any]:
        order = block.index() * self.splits + block.split
        rng = block.rng()
        behind = rng.integers(0, _JITTER_MS + 1, block.rows)
        return {
            "k": rng.integers(0, 20, block.rows),
            "i": order,
            "v": rng.integers(1, 10, block.rows).astype(np.float64),
            "at": (_START_MS + order * 2 - behind).astype("datetime64[ms]"),
        }

    def arrived(self) -> list[Arrived]:
        """Return the rows, each with the watermark of its split before it."""
        source, rows = self.source(), []
        for split in range(self.splits):
            start, watermark = 0, MIN_TIMESTAMP_MS
            while (block := source.block(split, start)).rows:
                made = self._make(block)
                columns = [made[name].tolist() for name in ("k", "i", "v")]
                times = made["at"].astype(np.int64).tolist()
                for k, i, v, at in zip(*columns, times, strict=True):
                    rows.append(Arrived(k, i, v, at, watermark))
                    watermark = max(watermark, at - _BOUND_MS - 1)
                start += block.rows
        return rows


def made(rows: int = 400, splits: int = 3, seed: int = 1, rate_per_s: float = 1e6) -> Rows:
    return Rows(rows, splits, seed, rate_per_s)


def _twice_keyed(rows: DataStream) -> Mapping[str, DataStream]:
    """Return a program with two consecutive hash exchanges."""
    counted = rows.key_by("k").running(n=agg.count(), i=agg.max("i"))
    return {"out": counted.with_columns(g=pl.col("n") % 5).key_by("g").running(m=agg.count())}


def _check_twice_keyed(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    per_key = Counter(row.k for row in rows)
    per_group = Counter(n % 5 for count in per_key.values() for n in range(1, count + 1))
    wanted = [(g, m) for g, count in per_group.items() for m in range(1, count + 1)]
    same(((out["g"], out["m"]) for out in outputs["out"]), wanted, "counts by group")


TWICE_KEYED = CheckedProgram("twice keyed", _twice_keyed, _check_twice_keyed)


def _joined_streams(rows: DataStream) -> Mapping[str, DataStream]:
    """Return a program with forward edges: a union of two branches, one of them after an exchange."""
    counted = rows.filter(pl.col("i") % 2 == 0).key_by("k").running(n=agg.count(), i=agg.max("i"))
    others = rows.filter(pl.col("i") % 2 == 1).key_by("k").running(n=agg.count(), i=agg.max("i"))
    return {"out": counted.union(others).with_columns(odd=pl.col("i") % 2)}


def _check_joined(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    per_key = Counter((row.k, row.i % 2) for row in rows)
    wanted = [(k, n) for (k, _), count in per_key.items() for n in range(1, count + 1)]
    same(((out["k"], out["n"]) for out in outputs["out"]), wanted, "counts by key and branch")


JOINED = CheckedProgram("joined", _joined_streams, _check_joined)


def _in_order(rows: DataStream) -> Mapping[str, DataStream]:
    """Return sums of running sums: they show in which order the rows of a key were added, twice."""
    once = rows.key_by("k").running(i=agg.max("i"), s=agg.sum("i"))
    return {"out": once.key_by("k").running(n=agg.count(), i=agg.max("i"), s=agg.sum("s"))}


def _check_in_order(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    """Check the order for one split, whose rows are numbered."""
    wanted: list[tuple[int, int, int, int]] = []
    sums: Counter[int] = Counter()
    sums_of_sums: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    for row in sorted(rows, key=lambda row: row.i):
        sums[row.k] += row.i
        sums_of_sums[row.k] += sums[row.k]
        counts[row.k] += 1
        wanted.append((row.k, counts[row.k], row.i, sums_of_sums[row.k]))
    got = ((out["k"], out["n"], out["i"], out["s"]) for out in outputs["out"])
    same(got, wanted, "rows in their order")


RUNNING_IN_ORDER = CheckedProgram("in order", _in_order, _check_in_order)

WINDOWS = programs.windows(100, 50, 0)
LATE_WINDOWS = programs.windows(100, 50, 60)


def build(program: CheckedProgram, of: Rows) -> Callable[[Environment], Mapping[str, DataStream]]:
    def built(env: Environment) -> Mapping[str, DataStream]:
        rows = env.from_source(
            of.source(), watermark=Watermark.bounded_out_of_orderness(f"{_BOUND_MS}ms", on="at")
        )
        return program.build(rows)

    return built
