"""The jobs of `plan_accuracy`: `plan_jobs.py NAME [KEYS [RATE]]`, at full load unless a rate is passed.

grouping    a running sum for each key
windows     a sum for each key and second of event time
function    a Python function for each row, then a sum for each key

At `RATE` rows per second, event time advances as fast as the clock.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import rheos as rh
from rheos.connectors.blackhole import BlackholeSink

RATE = 50_000
"""Rows per second of event time."""


class Rows:
    """Generator of rows with a random key below `keys`, a value and an event time."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def __call__(self, block: Any) -> dict[str, Any]:
        rng = block.rng()
        return {
            "k": rng.integers(0, self.keys, block.rows),
            "v": rng.integers(0, 100, block.rows),
            "at": block.number() // (RATE // 1000),
        }


@dataclass
class Row:
    k: int
    v: int
    at: int


def reverse(row: Row) -> Row:
    """Return the row with another key, computed by Python, and a larger value."""
    text = str(row.k)
    return Row(int(text[::-1]), row.v + len(text), row.at)


def build(env: rh.Environment, name: str, keys: int, rate: float | None) -> None:
    rows = env.from_source(
        rh.generator(Rows(keys), rate_per_s=rate, schema={"k": int, "v": int, "at": int}, splits=8),
        watermark=rh.Watermark.monotonic(on="at"),
        name="rows",
    )
    if name == "grouping":
        result = rows.key_by("k").running(total=rh.agg.sum("v"))
    elif name == "windows":
        result = rows.key_by("k").window(rh.Tumbling("1s")).aggregate(total=rh.agg.sum("v"))
    elif name == "function":
        result = rows.map(reverse).key_by("k").running(total=rh.agg.sum("v"))
    else:
        raise SystemExit(__doc__)
    result.sink_to(BlackholeSink())


if __name__ == "__main__":
    environment = rh.Environment(checkpoint_interval="2s")
    name, keys, rate = (*sys.argv[1:4], *("grouping", "10000", "")[len(sys.argv) - 1 :])
    build(environment, name, int(keys), float(rate) if rate else None)
    environment.execute(name)
