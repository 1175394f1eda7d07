"""A program of SQL aggregates OVER rows, and its snapshots.

`over_rows.zip` holds a savepoint of `program` that Rheos wrote while the state of OVER was pickled
tuples. The file is never written again.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import rheos as rh
from tests.compat.programs import Outputs
from tests.compat.worlds import Kept, Rows, begin

ARCHIVE = Path(__file__).parent / "over_rows.zip"
PLACE = "savepoints/kept"
ROWS = 240
SPLITS = 2
MIDDLE_US = 150_000
"""Virtual time at which the source has emitted about half of its rows."""

_CALLS = {
    "n": "COUNT(x)",
    "total": "SUM(i)",
    "floats": "SUM(x)",
    "mean": "AVG(x)",
    "cents": "SUM(CAST(i AS DECIMAL(20, 2)))",
    "average": "AVG(CAST(i AS DECIMAL(20, 2)))",
    "least": "MIN(name)",
    "greatest": "MAX(x)",
    "spread": "VARIANCE(x)",
    "names": "COUNT(DISTINCT name)",
    "first": "FIRST_VALUE(x)",
    "last": "LAST_VALUE(name)",
}
_FRAMES = {
    "rows": "ROWS 6 PRECEDING",
    "times": "RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW",
    "growing": "ROWS UNBOUNDED PRECEDING",
    "peers": "RANGE UNBOUNDED PRECEDING",
    "forward": "ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING",
}


def made(block: rh.Block) -> dict[str, Any]:
    """Return two rows of each time per split. Values need few bits, so no sum is rounded."""
    index = block.index()
    number = index * SPLITS + block.split
    return {
        "k": [f"key {n % 5}" for n in number],
        "i": number,
        "x": pa.array([None if n % 7 == 3 else (n * 37 % 16) * 0.25 for n in number], pa.float64()),
        "name": [None if n % 11 == 4 else f"name {n * 13 % 9}" for n in number],
        "at": pa.array([1_700_000_000_000_000 + int(n) // 2 * 100_000 for n in index]).cast(
            pa.timestamp("us", "UTC")
        ),
    }


SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "i": pa.int64(),
        "x": pa.float64(),
        "name": pa.string(),
        "at": pa.timestamp("us", "UTC"),
    }
)


def program(env: rh.Environment) -> Outputs:
    """Return a query for each kind of frame, and one of ranks and neighbours."""
    source = rh.generator(
        made, count=ROWS, rate_per_s=1000, splits=SPLITS, schema=SCHEMA, block_rows=16
    )
    watermark = rh.Watermark.bounded_out_of_orderness("300ms", on="at")
    env.register("t", env.from_source(source, watermark=watermark, name="rows", uid="rows"))
    found = {
        name: env.sql(_query(*(f"{call} OVER w AS {to}" for to, call in _CALLS.items()), frame=frame))
        for name, frame in _FRAMES.items()
    }
    places = ("RANK() OVER w AS rank", "DENSE_RANK() OVER w AS dense", "LAG(name, 2) OVER w AS before")
    return found | {"places": env.sql(_query(*places)), "ahead": env.sql(_query("LEAD(x) OVER w AS y"))}


def _query(*calls: str, frame: str = "") -> str:
    shown = ", ".join(_shown(call) for call in calls)
    return f"SELECT k, i, {shown} FROM t WINDOW w AS (PARTITION BY k ORDER BY at {frame})"


def _shown(call: str) -> str:
    """Cast decimals, as the sinks of the stored program write JSON, which has none."""
    if "DECIMAL" not in call:
        return call
    value, name = call.rsplit(" AS ", 1)
    return f"CAST({value} AS STRING) AS {name}"


def until_middle(kept: Kept) -> None:
    clock = kept.world.clock
    kept.world.run_until(lambda: clock.monotonic_us() >= MIDDLE_US)
    assert not kept.world.master.done


def snapshot() -> tuple[dict[str, bytes], dict[str, dict[str, Rows]]]:
    """Return the files of the stored savepoint, and the rows that each output had published."""
    with zipfile.ZipFile(ARCHIVE) as packed:
        files = {path: packed.read(path) for path in packed.namelist()}
    return files, json.loads(files.pop("published.json"))


def write() -> None:
    """Write the snapshot of this version."""
    kept = begin(program)
    until_middle(kept)
    directory = kept.job().savepoint("savepoints")
    published = {name: sink.published for name, sink in kept.sinks.items()}
    with zipfile.ZipFile(ARCHIVE, "x", zipfile.ZIP_DEFLATED) as packed:
        for path, data in kept.world.store.files.items():
            if path.startswith(f"{directory}/"):
                packed.writestr(path.removeprefix(f"{directory}/"), data)
        packed.writestr("published.json", json.dumps(published))


if __name__ == "__main__":
    write()
