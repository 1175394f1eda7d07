"""Float keys: -0.0 equals 0.0, and all NaN are equal, for every operator and in every runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh

_NEGATIVE_NAN = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
KEYS = np.concatenate([[0.0, -0.0, np.nan], _NEGATIVE_NAN, [1.5]])
ROWS = pa.schema([("k", pa.float64()), ("at", pa.int64()), ("n", pa.int64())])
NAMES = pa.table({"k": [0.0, float("nan")], "name": ["zero", "none"]})


class Count(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.n.value += 1
        yield {"k": row.k, "n": self.n.value}


def source(env: rh.Environment) -> rh.DataStream:
    def rows(block: rh.Block) -> pa.RecordBatch:
        at = block.index()
        return pa.RecordBatch.from_arrays(
            [pa.array(KEYS[at % 5]), pa.array(10 * at), pa.array(at)], schema=ROWS
        )

    generator = rh.generator(rows, count=10, splits=1, schema=ROWS)
    return env.from_source(generator, watermark=rh.Watermark.monotonic(on="at"))


def by_key(env: rh.Environment) -> Mapping[str, rh.DataStream]:
    """Return all operators that group rows by key."""
    rows = source(env)
    one, other = rows.key_by("k"), rows.select("k", "at", m="n").key_by("k")
    hour = one.window(rh.Tumbling("1h"))
    return {
        "running": one.running(c=rh.agg.count()),
        "process": one.process(Count(), returns={"k": float, "n": int}),
        "tumbling": hour.aggregate(c=rh.agg.count()),
        "session": one.window(rh.Session(gap="1h")).aggregate(c=rh.agg.count()),
        "triggered": hour.trigger(rh.triggers.event_time()).aggregate(c=rh.agg.count()),
        "interval": one.interval_join(other, between=("-1s", "1s"), suffix="_r"),
        "window": one.window_join(other, rh.Tumbling("1h"), suffix="_r"),
        "dedup": one.dedup(),
        "table": one.table(c=rh.agg.count()),
        "lookup": rows.lookup(rh.lookup_table(NAMES, key="k"), on="k"),
    }


def named(key: float) -> str:
    return "none" if np.isnan(key) else {0.0: "zero", 1.5: "other"}[key]


def shown(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    rows = table.to_pylist()
    return sorted((named(row["k"]), *(row[name] for name in columns)) for row in rows)


@pytest.mark.parametrize(
    "runtime", ["simulated", pytest.param("batch", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def test_floats_that_are_equal_are_one_key(runtime: Literal["simulated", "batch"]) -> None:
    env = rh.Environment(2, runtime=runtime)
    for name, stream in by_key(env).items():
        stream.collect(name)
    found = env.execute("floats").collected
    up_to_four = [("none", n) for n in range(1, 5)]
    counted = sorted([*up_to_four, ("other", 1), ("other", 2), *(("zero", n) for _, n in up_to_four)])
    for name, column in (("running", "c"), ("process", "n"), ("table", "c")):
        assert shown(found[name], column) == counted
    for name in ("tumbling", "session", "triggered"):
        assert shown(found[name], "c") == [("none", 4), ("other", 2), ("zero", 4)]
    of = {"zero": (0, 1, 5, 6), "none": (2, 3, 7, 8), "other": (4, 9)}
    pairs = sorted((key, left, right) for key, rows in of.items() for left in rows for right in rows)
    for name in ("interval", "window"):
        assert shown(found[name], "n", "m") == pairs
    assert shown(found["dedup"], "n") == [("none", 2), ("other", 4), ("zero", 0)]
    names = [
        (key, None if key == "other" else key) for key in ["none"] * 4 + ["other"] * 2 + ["zero"] * 4
    ]
    assert shown(found["lookup"], "name") == names
