"""A watermark on a view counts the rows that its query leaves."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.sql.test_errors import place

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WATERMARK = "WATERMARK FOR at AS at - INTERVAL '5' SECOND"
SANE = "at < received + INTERVAL '1' HOUR"
COUNTS = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(at), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
)


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Return a file of clicks, one of which comes from a clock that is a day ahead."""
    times = [NOON + timedelta(seconds=7 * n) for n in range(20)]
    rows = [{"id": n, "at": at, "received": at} for n, at in enumerate(times)]
    rows.insert(3, {"id": 99, "at": NOON + timedelta(days=1), "received": times[3]})
    path = tmp_path / "clicks.jsonl"
    path.write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows))
    return path


def environment(clicks: Path, table: str = "", parallelism: int = 1) -> rh.Environment:
    env = rh.Environment(parallelism, runtime="simulated")
    env.sql_script(
        f"CREATE TABLE clicks (id BIGINT, at TIMESTAMP(3), received TIMESTAMP(3) {table}) "
        f"WITH ('connector' = 'files', 'path' = '{clicks}', 'format' = 'jsonl')"
    )
    return env


def counted(env: rh.Environment) -> tuple[list[int], Any]:
    env.sql(COUNTS).collect("counts")
    result = env.execute("counts")
    rows = sorted(result.collected["counts"].to_pylist(), key=lambda row: row["window_start"])
    return [row["n"] for row in rows], result.dropped


@pytest.mark.parametrize("table", ["", f", {WATERMARK}"])
@pytest.mark.parametrize("view", [WATERMARK, f"id, at, {WATERMARK}"])
def test_a_wrong_clock_that_the_view_filters_out_makes_no_row_late(
    clicks: Path, table: str, view: str
) -> None:
    columns = "id, at" if view.startswith("id") else "*"
    for parallelism in (1, 2):
        env = environment(clicks, table, parallelism)
        env.sql_script(f"CREATE VIEW v ({view}) AS SELECT {columns} FROM clicks WHERE {SANE}")
        assert counted(env) == ([9, 9, 2], None)


def test_a_watermark_of_the_table_counts_the_wrong_clock(clicks: Path) -> None:
    env = environment(clicks, f", {WATERMARK}")
    env.sql_script(f"CREATE VIEW v AS SELECT * FROM clicks WHERE {SANE}")
    [first], dropped = counted(env)
    assert first == 3
    assert dropped.startswith("17 rows were late at ")


def test_a_filter_above_the_view_does_not_change_its_watermark(clicks: Path) -> None:
    env = environment(clicks)
    env.sql_script(f"CREATE VIEW w ({WATERMARK}) AS SELECT * FROM clicks")
    env.sql_script(f"CREATE VIEW v AS SELECT * FROM w WHERE {SANE}")
    assert counted(env)[0] == [3]


def test_a_filter_in_python_comes_before_the_watermark(clicks: Path) -> None:
    env = rh.Environment(1, runtime="simulated")
    schema = {"id": int, "at": datetime, "received": datetime}
    rows = env.from_source(rh.files.source(clicks, format="jsonl", schema=schema), name="clicks")
    sane = rows.filter(rh.col("at") < rh.col("received") + timedelta(hours=1))
    env.register("v", sane.with_event_time(rh.Watermark.bounded_out_of_orderness("5s", on="at")))
    assert counted(env) == ([9, 9, 2], None)


@pytest.mark.parametrize(
    ("view", "query", "what", "underlined"),
    [
        (WATERMARK, "SELECT id, COUNT(*) AS n FROM clicks GROUP BY id", "needs append-only rows", "at"),
        (WATERMARK, "SELECT id FROM clicks", "unknown column 'at'", "at"),
        (WATERMARK.replace("at", "id", 1), "SELECT * FROM clicks", "needs a TIMESTAMP", "id"),
    ],
)
def test_a_wrong_watermark_is_refused_at_its_place(
    clicks: Path, view: str, query: str, what: str, underlined: str
) -> None:
    with pytest.raises(rh.RheosError) as caught:
        environment(clicks).sql_script(f"CREATE VIEW v ({view}) AS {query}")
    assert what in str(caught.value)
    assert place(caught.value) == underlined
