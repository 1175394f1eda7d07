"""A source returns only the columns that the program uses, if it can leave others unread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos.core.connectors import capabilities
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.source import SourceSpec
from rheos.formats import csv

SCHEMA = pa.schema(
    [
        ("page", pa.string()),
        ("ms", pa.int64()),
        ("at", pa.timestamp("ms", "UTC")),
        ("agent", pa.string()),
    ]
)
ROWS = [{"page": f"/{i % 3}", "ms": i, "at": 1_000 * i, "agent": "x"} for i in range(9)]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS, schema=SCHEMA), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


Program = Callable[[rh.DataStream], rh.DataStream]


def given(file: Path, *programs: Program, watermark: rh.Watermark | None = None) -> list[str]:
    """Return the columns that are read."""
    env = rh.Environment(runtime="simulated")
    rows = env.from_source(rh.files.source(str(file), schema=SCHEMA), watermark=watermark)
    for place, each in enumerate(programs):
        each(rows).collect(str(place))
    source = next(each for each in env.plan().operators() if each.id == "source-1")
    assert isinstance(source.spec, SourceSpec)
    read = source.spec.columns_to_read
    assert set(source.outputs[MAIN].type.schema.names) <= read
    return [name for name in SCHEMA.names if name in read]


LATE = rh.Watermark.bounded_out_of_orderness("5s", on="at")


@pytest.mark.parametrize(
    ("programs", "watermark", "columns"),
    [
        ([lambda rows: rows.select("page")], None, ["page"]),
        ([lambda rows: rows.filter(pl.col("ms") > 3).select("page")], None, ["page", "ms"]),
        ([lambda rows: rows.select("page")], LATE, ["page", "at"]),
        ([lambda rows: rows.select(n=pl.lit(1))], None, ["page"]),
        ([lambda rows: rows.select(pl.col("page").alias("ms"))], None, ["page"]),
        (
            [lambda rows: rows.select("page"), lambda rows: rows.select("agent")],
            None,
            ["page", "agent"],
        ),
        # What asks for whole rows has them.
        ([lambda rows: rows.select("page"), lambda rows: rows], None, SCHEMA.names),
        ([lambda rows: rows.map(lambda row: {"n": row.ms}, returns={"n": int})], None, SCHEMA.names),
        ([lambda rows: rows.select(pl.all())], None, SCHEMA.names),
        ([lambda rows: rows.with_columns(pl.col("ms") + 1).select("ms")], None, ["ms"]),
    ],
)
def test_used_columns_are_read(
    file: Path, programs: list[Program], watermark: rh.Watermark | None, columns: list[str]
) -> None:
    assert given(file, *programs, watermark=watermark) == columns


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        (lambda file: rh.files.source(file, schema=SCHEMA), {"ms"}),
        (lambda file: rh.files.source(file, schema=SCHEMA, on_error="skip"), None),
        (lambda file: rh.files.source(file, schema=SCHEMA, format=csv()), {"ms"}),
        # Fields without a header are found by their places.
        (lambda file: rh.files.source(file, schema=SCHEMA, format=csv(header=False)), None),
        (
            lambda file: rh.files.source(file, schema=SCHEMA, replay=rh.Replay(on="at", speed=60)),
            {"ms", "at"},
        ),
        (lambda file: rh.collection(ROWS), None),
    ],
)
def test_a_source_declares_whether_it_can_read_fewer_columns(
    file: Path, source: Callable[[str], rh.Source], columns: set[str] | None
) -> None:
    less = capabilities.reading(source(str(file)), frozenset({"ms"}))
    assert (None if less is None else {*less.schema.names}) == columns


def test_rows_are_the_same_and_other_columns_are_not_read(file: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist(ROWS, schema=SCHEMA).drop_columns(["agent"]), file.with_name("old.parquet")
    )
    env = rh.Environment(runtime="simulated", parallelism=2)
    source = rh.files.source(str(file.parent / "*.parquet"), schema=SCHEMA)
    rows = env.from_source(source, watermark=LATE)
    rows.filter(pl.col("ms") > 4).select("page").collect("pages")
    found = env.execute("pages").collected["pages"].to_pylist()
    pages = [row["page"] for row in found]
    assert sorted(pages) == sorted([row["page"] for row in ROWS if row["ms"] > 4] * 2)


def shuffled(runtime: Any, window: rh.Tumbling | rh.Session, source: rh.Source) -> list[str]:
    """Return the visible columns that are sent to windows which sum a column."""
    env = rh.Environment(2, runtime=runtime)
    rows = env.from_source(source, watermark=LATE)
    rows.key_by("page").window(window).aggregate(total=rh.agg.sum("ms")).collect("out")
    (schema,) = (each for each in env.plan().edge_schemas().values() if "ms" in each.names)
    return [name for name in schema.names if not name.startswith("__")]


@pytest.mark.parametrize("runtime", ["simulated", "continuous", "batch"])
def test_keyed_windows_are_pruned_in_every_runtime(runtime: Any, file: Path) -> None:
    for source in (rh.files.source(str(file), schema=SCHEMA), rh.collection(TABLE)):
        assert shuffled(runtime, rh.Tumbling("5s"), source) == ["page", "ms"]


@pytest.mark.parametrize(
    ("runtime", "columns"), [("continuous", SCHEMA.names), ("batch", ["page", "ms"])]
)
def test_state_of_rows_keeps_all_columns(runtime: Any, columns: list[str]) -> None:
    """Check this because a changed program may need other columns of the rows."""
    source = rh.collection(TABLE)
    assert shuffled(runtime, rh.Session("5s"), source) == columns


def test_a_query_is_pruned_by_the_same_pass() -> None:
    env = rh.Environment(2, runtime="simulated")
    env.register("log", env.from_source(rh.collection(TABLE), watermark=LATE))
    env.sql(
        "SELECT page, SUM(ms) AS total "
        "FROM TABLE(TUMBLE(TABLE log, DESCRIPTOR(at), INTERVAL '5' SECOND)) "
        "GROUP BY page, window_start, window_end"
    ).collect("out")
    source = next(each for each in env.plan().operators() if each.id == "source-1")
    assert "agent" not in source.outputs[MAIN].type.schema.names
