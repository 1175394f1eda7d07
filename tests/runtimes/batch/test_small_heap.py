"""Jobs whose rows are large for the driver's JVM: all rows arrive, or an error says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.spark

COLLECTING = dedent("""
    import sys

    import pyarrow.parquet as pq

    import rheos as rh

    out, rows = sys.argv[1], int(sys.argv[2])
    env = rh.Environment(2, runtime="batch")
    numbers = env.from_source(
        rh.generator(lambda block: {"i": block.index(), "x": block.rng().normal(size=block.rows)},
                     count=rows, splits=1),
        name="numbers",
    )
    numbers.collect("all")
    numbers.filter(rh.col("i") < 1000).sink_to(rh.files.sink(out), name="few")
    try:
        result = env.execute("collecting")
        print(result.collected["all"].num_rows, pq.read_table(out).num_rows)
    except rh.RheosError as error:
        print(type(error).__name__, error.operator, error.what)
""")

WINDOWS = dedent("""
    import sys

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import rheos as rh

    path, rows = sys.argv[1], int(sys.argv[2])
    rng = np.random.default_rng(1)
    at = np.arange(rows) * 96_000 + rng.integers(0, 7_200_000, rows) + 1_356_998_400_000
    table = pa.table({
        "k": pa.array([f"carrier {i}" for i in range(16)]).take(pa.array(rng.integers(0, 16, rows))),
        **{f"c{i}": rng.normal(size=rows) for i in range(12)},
        "at": pa.array(at, pa.timestamp("ms", "UTC")),
    })
    pq.write_table(table, path)
    env = rh.Environment(2, runtime="batch")
    watermark = rh.Watermark.bounded_out_of_orderness("2h", on="at")
    rows = rh.files.source(path, schema=table.schema, format="parquet")
    source = env.from_source(rows, watermark=watermark)
    for branch in range(2):
        made = source.key_by("k").window(rh.Sliding("3h", every="30m")).aggregate(n=rh.agg.count())
        made.collect(f"out {branch}")
        made.side_output("late").collect(f"late {branch}")
    found = env.execute("windows").collected
    # No row is late, and each is in six windows.
    print(*(sum(found[f"out {branch}"]["n"].to_pylist()) // 6 for branch in range(2)))
    print(*(found[f"late {branch}"].num_rows for branch in range(2)))
""")


def run(program: str, folder: Path, *arguments: str, heap: str) -> list[str]:
    path = folder / "program.py"
    path.write_text(program)
    surroundings = os.environ | {"PYSPARK_SUBMIT_ARGS": f"--driver-memory {heap} pyspark-shell"}
    done = subprocess.run(
        [sys.executable, str(path), str(folder / "rows"), *arguments],
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_collecting_too_many_rows_fails_and_publishes_nothing(tmp_path: Path) -> None:
    said = run(COLLECTING, tmp_path, "6000000", heap="512m")
    [line] = said
    assert line.startswith("ConfigurationError all the collected rows are too large for the driver")
    assert not list((tmp_path / "rows").glob("*.parquet"))


@pytest.mark.slow
def test_collected_rows_may_exceed_the_heap(tmp_path: Path) -> None:
    assert run(COLLECTING, tmp_path, "5000000", heap="1g") == ["5000000 1000"]


@pytest.mark.slow
def test_windows_over_cached_rows_fit_a_small_heap(tmp_path: Path) -> None:
    assert run(WINDOWS, tmp_path, "1000000", heap="1g") == ["1000000 1000000", "0 0"]
