"""The deployed program, and its expected results."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

RULES = '''
"""A module of the user's own."""

def band(price: int) -> str:
    return "dear" if price >= 40 else "cheap"
'''

JOB = '''
"""Two programs: one in batch, and one that runs continuously."""
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh
from pyspark import SparkContext
from rules import band


@dataclass
class Sale:
    shop: int
    at: int
    price: int


@dataclass
class Banded:
    shop: int
    at: int
    band: str


@dataclass
class Nth:
    shop: int
    at: int
    band: str
    n: int


def banded(sale: Sale) -> Banded:
    return Banded(sale.shop, sale.at, band(sale.price))


class Counted(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, sale: Banded, ctx: rh.KeyedContext) -> Iterator[Nth]:
        self.n.value += 1
        yield Nth(sale.shop, sale.at, sale.band, self.n.value)


def made(block: rh.Block):
    i = 2 * block.index() + block.split
    return {"shop": i % 7, "at": i * 1000, "price": i % 97}


out, checkpoints, fails = sys.argv[1], sys.argv[2], sys.argv[3:] == ["fail"]
for runtime in ("batch", "continuous"):
    env = rh.Environment(2, runtime=runtime, checkpoint_dir=checkpoints, checkpoint_interval="1s")
    source = rh.generator(made, count=3_000, schema=Sale, splits=2)
    sales = env.from_source(source, watermark=rh.Watermark.monotonic(on="at"))
    named = sales.map(banded)
    if fails:
        named = named.map(lambda sale: 1 // 0, returns={"n": int})
        named.sink_to(rh.files.sink(f"{out}/failed"))
    else:
        windows = named.key_by("band").window(rh.Tumbling("10m")).aggregate(n=rh.agg.count())
        windows.sink_to(rh.files.sink(f"{out}/{runtime}/windows"), name="windows")
        counted = named.key_by("shop").process(Counted(), order="event_time")
        counted.sink_to(rh.files.sink(f"{out}/{runtime}/counted"), name="counted")
    env.execute(f"sales {runtime}")
print("master", SparkContext._active_spark_context.master)
print("both have run")
'''


def written(folder: Path) -> Path:
    """Write the job's file, and the user's module next to it."""
    (folder / "rules.py").write_text(RULES)
    (folder / "job.py").write_text(JOB)
    return folder / "job.py"


def check(out: Path) -> None:
    """Check that both runs have published exactly what a loop computes."""
    sales = pl.DataFrame({"i": range(3_000)}).select(
        shop=pl.col("i") % 7,
        at=pl.col("i") * 1000,
        band=pl.when(pl.col("i") % 97 >= 40).then(pl.lit("dear")).otherwise(pl.lit("cheap")),
    )
    counted = sales.with_columns(n=pl.int_range(1, pl.len() + 1).over("shop")).sort("at")
    windows = sales.group_by("band", start=pl.col("at") // 600_000 * 600_000).agg(n=pl.len())
    for runtime in ("batch", "continuous"):
        found = pl.read_parquet(out / runtime / "counted").sort("at")
        assert found.rows() == counted.rows(), runtime
        found = pl.read_parquet(out / runtime / "windows")
        found = found.select("band", start=pl.col("window_start").dt.epoch("ms"), n="n")
        assert sorted(found.rows()) == sorted(windows.rows()), runtime


def said(output: str) -> str:
    """Return what a failed driver has printed, for people."""
    return json.dumps(output[-4000:]).replace("\\n", "\n")
