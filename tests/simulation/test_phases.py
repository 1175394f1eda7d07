"""Random worlds whose sources are read in phases: no split is opened early, even if processes die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.runtimes.simulated.faults import Requests
from rheos.testing import Faults, simulate
from tests.worlds.worlds import Climate, draw_world

SEEDS = 4
CHUNK = 4

START_MS = 1_700_000_000_000
WINDOW_MS = 50
STEP_MS = 4
SEAM = 100
"""History has the rows before this one; both sources have 40 more than they count."""
ROWS = 220


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_phased_sources_survive_random_worlds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        draw_world(seed, Climate.PHASES).run_and_check()


def some_rows(first: int) -> Callable[[rh.Block], dict[str, Any]]:
    def make(block: rh.Block) -> dict[str, Any]:
        n = first + block.index() * 3 + block.split
        at = START_MS + n * STEP_MS
        return {"n": n, "k": n % 7, "at": at.astype("datetime64[ms]")}

    return make


def read_one_after_the_other(env: rh.Environment) -> Mapping[str, rh.DataStream]:
    history = rh.generator(some_rows(0), count=SEAM + 41, splits=3, rate_per_s=600)
    live = rh.generator(some_rows(SEAM - 40), count=ROWS - SEAM + 41, splits=3, rate_per_s=600)
    rows = env.from_source(
        rh.hybrid(history, live, on="at", switch=START_MS + SEAM * STEP_MS),
        watermark=rh.Watermark.bounded_out_of_orderness("0s", on="at"),
    )
    counts = rows.key_by("k").window(rh.Tumbling(f"{WINDOW_MS}ms")).aggregate(n=rh.agg.count())
    return {"rows": rows.select("n"), "counts": counts, "late": counts.side_output("late")}


@pytest.mark.parametrize("seed", range(1, 4))
def test_each_row_counts_once_despite_kills_at_the_switch(seed: int) -> None:
    rng = Random(seed)
    done = simulate(
        read_one_after_the_other,
        seed=seed,
        faults=Faults(crash_slot=6.0, crash_driver=1.0, zombie=0.5, until_us=900_000),
        parallelism=3,
        parallelisms=[rng.randrange(1, 5) for _ in range(3)],
        requests=Requests(savepoint=2.0, stop=1.0, cancel=0.5, resume_from_savepoint=0.5),
    )
    assert done.status.attempt > 1
    wanted = range(ROWS + 1)
    assert sorted(done.rows["rows"]["n"].to_pylist()) == list(wanted)
    assert done.rows["late"].num_rows == 0
    windows = Counter((n % 7, (START_MS + n * STEP_MS) // WINDOW_MS) for n in wanted)
    found = {
        (row["k"], round(row["window_start"].timestamp() * 1000) // WINDOW_MS): row["n"]
        for row in done.rows["counts"].to_pylist()
    }
    assert found == windows
    assert done.rows["counts"].num_rows == len(found)
