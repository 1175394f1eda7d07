"""Bounds in a footer exclude a file only if no row of it fulfils the condition."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rheos.connectors.files.parquet_bounds import footer_bounds, may_hold
from rheos.core.operators.row_expressions import RowExpressions

SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "s": pa.string(),
        "d": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "fine": pa.timestamp("ns"),
        "x": pa.float64(),
        "b": pa.bool_(),
        "none": pa.int64(),
        "k": pa.string(),
    }
)
VALUES = {"k": pa.scalar("a", pa.string())}


def at(hour: int) -> datetime:
    return datetime(2026, 1, 1, hour, tzinfo=UTC)


def written(*rows: dict[str, object]) -> tuple[pa.Table, pq.FileMetaData]:
    """Return the rows, and the footer of a file with one row per row group."""
    table = pa.Table.from_pylist([{"k": "a", **row} for row in rows], SCHEMA)
    file = io.BytesIO()
    pq.write_table(table.drop_columns(["k"]), file, row_group_size=1)
    return table, pq.read_metadata(file)


TABLE, FOOTER = written(
    {"n": 7, "s": "é", "d": date(2026, 1, 1), "at": at(3), "x": float("nan"), "b": True},
    {"n": -3, "s": "a", "d": date(1900, 1, 1), "at": at(1), "x": 1.0, "b": True},
    {"n": 5, "s": "zz", "d": date(9999, 1, 1), "at": at(2), "x": 2.0, "b": True},
)
n, s, d, time, x, b, none, k = (pl.col(each) for each in ("n", "s", "d", "at", "x", "b", "none", "k"))
EXCLUDES = [
    n > 7,
    n < -3,
    pl.lit(7) < n,
    n == 8,
    n.is_between(8, 9),
    (n > 5) & (s > "é"),
    (n > 9) | (s < "a"),
    (n > 9) | (k == "b"),
    (n > 0) & k.is_null(),
    k == "b",
    s == "\U0010ffff",
    d < date(1900, 1, 1),
    time > at(3),
    time < pl.lit(at(1)),
    n > 7.5,
    b == False,  # noqa: E712
]
READS = [
    n >= 7,
    n <= -3,
    n == 6,
    n != 7,
    n.is_in([9]),
    n * 2 > 100,
    n > pl.col("x"),
    (n > 9) | (s >= "é"),
    (n > 9) | n.is_null(),
    s > "zz",
    x > 5,
    none > 1,
    none.is_null(),
    time >= at(3),
    ~(n > 9),
    k == "a",
    pl.lit(True),
    n > pl.lit(None, pl.Int64),
]


def holds(condition: pl.Expr, schema: pa.Schema = SCHEMA) -> bool:
    names = {name: name for name in SCHEMA.names if name != "k"}
    return may_hold(condition, schema, VALUES, footer_bounds(FOOTER, names, schema))


@pytest.mark.parametrize("condition", EXCLUDES, ids=str)
def test_a_file_without_a_row_is_excluded(condition: pl.Expr) -> None:
    assert not holds(condition)
    [(rows)] = RowExpressions([condition], SCHEMA).values(TABLE.combine_chunks().to_batches()[0])
    assert not any(rows)


@pytest.mark.parametrize("condition", READS, ids=str)
def test_another_file_is_read(condition: pl.Expr) -> None:
    assert holds(condition)


def test_bounds_of_other_types_than_declared_are_not_used() -> None:
    declared = SCHEMA.set(0, pa.field("n", pa.string())).set(1, pa.field("s", pa.int64()))
    names = {"n": "n", "s": "s", "fine": "fine", "d": "missing"}
    assert footer_bounds(FOOTER, names, declared) == {}


def test_a_file_without_rows_or_statistics_is_read() -> None:
    file = io.BytesIO()
    pq.write_table(TABLE.select(["n"]), file, write_statistics=False)
    assert footer_bounds(pq.read_metadata(file), {"n": "n"}, SCHEMA) == {}
    _, empty = written()
    assert footer_bounds(empty, {"n": "n"}, SCHEMA) == {}
