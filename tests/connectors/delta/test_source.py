"""Rows of a Delta table are read, each once: those of a version, and those that are appended later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos import col
from rheos.connectors.delta.source import DeltaSource
from rheos.core.connectors import capabilities
from rheos.core.errors import ConfigurationError
from rheos.testing import check_source
from tests.connectors.ports import read_all

ROWS = pa.table({"n": [1, 2, 3, 4], "k": ["a/b %20", "é", None, "a/b %20"], "x": [0.5, 1.0, 1.5, 2.0]})


@pytest.fixture(params=[[], ["k"]], ids=["flat", "partitioned"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    write_deltalake(tmp_path / "t", ROWS, partition_by=request.param)
    return tmp_path / "t"


def append(table: Path, n: int, **more: Any) -> None:
    rows = pa.table({"n": [n], "k": ["é"], "x": [9.0], **more})
    write_deltalake(table, rows, mode="append", schema_mode="merge")


def numbers(source: DeltaSource, splits: Any = None) -> list[int]:
    """Return the numbers in the splits, all of them by default."""
    wanted = source.splits() if splits is None else splits
    ids = {split.id for split in wanted}
    bounded = rh.delta.source(source.location, version=source.version)
    rows = check_source(bounded if splits is None else source)
    return sorted(row["n"] for split_id, found in rows.items() if split_id in ids for row in found)


def test_the_source_keeps_the_contract(table: Path) -> None:
    read = check_source(rh.delta.source(table))
    rows = sorted((row for split in read.values() for row in split), key=lambda row: row["n"])
    assert [{name: row[name] for name in ("n", "k", "x")} for row in rows] == ROWS.to_pylist()
    followed = check_source(rh.delta.source(table, version=0, discover="1s"))
    assert sum(map(len, followed.values())) == 4


def test_a_version_is_read_although_the_table_has_newer_ones(table: Path) -> None:
    source = rh.delta.source(table)
    append(table, 5)
    assert numbers(source) == [1, 2, 3, 4]
    assert numbers(rh.delta.source(table)) == [1, 2, 3, 4, 5]


def test_a_bounded_job_that_resumes_reads_no_newer_files(table: Path) -> None:
    first = {split.id: split.payload for split in rh.delta.source(table).splits()}
    append(table, 5)
    newer = rh.delta.source(table)
    assert {split.id for split in newer.resumed(newer.splits(), first)} == set(first)


def test_appended_files_are_discovered_once_and_compaction_is_not(table: Path) -> None:
    source = rh.delta.source(table, version=0, discover="1s")
    first = {split.id for split in source.splits()}
    append(table, 5)
    append(table, 6, more=["m"])
    DeltaTable(table).optimize.compact()
    append(table, 7)
    found = {split.id for split in capabilities.discovered(source)}
    assert first < found
    assert len(found - first) == 3
    # A new driver finds the same splits, although other files have their rows now.
    again = rh.delta.source(table, version=0, discover="1s", schema={"n": int})
    assert {split.id for split in again.splits()} == found
    rows = check_source(again)
    assert sorted(row["n"] for split in rows.values() for row in split) == [1, 2, 3, 4, 5, 6, 7]


def test_a_version_that_removes_rows_is_an_error(table: Path) -> None:
    source = rh.delta.source(table, version=0, discover="1s")
    DeltaTable(table).delete("n = 2")
    with pytest.raises(rh.InputError, match=r"version 1 of the table .* deletes or replaces rows"):
        source.splits()
    assert numbers(rh.delta.source(table)) == [1, 3, 4]


def test_a_version_that_is_not_in_the_log_is_an_error(table: Path) -> None:
    source = rh.delta.source(table, version=0, discover="1s")
    append(table, 5)
    append(table, 6)
    (table / "_delta_log" / f"{1:020}.json").rename(table / "gone")
    DeltaTable(table, version=0)
    with pytest.raises((rh.InputError, rh.ConfigurationError), match=r"version 1 |could not be"):
        source.splits()


def test_columns_that_an_older_file_lacks_are_null(table: Path) -> None:
    append(table, 5, more=["m"])
    rows = [row for split in check_source(rh.delta.source(table)).values() for row in split]
    assert sorted((row["n"], row["more"]) for row in rows if row["n"] > 3) == [(4, None), (5, "m")]
    pruned = rh.delta.source(table).reading(frozenset(["more"]))
    assert pruned is not None
    only = check_source(pruned)
    assert sum(map(len, only.values())) == 5


def test_sql_reads_and_skips_partitions(table: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(
        f"CREATE TABLE lake (n BIGINT, k STRING) WITH ('connector' = 'delta', 'path' = '{table}')"
    )
    env.sql("SELECT n FROM lake WHERE k = 'a/b %20'").collect("found")
    assert sorted(env.execute("sql from a table").collected["found"]["n"].to_pylist()) == [1, 4]
    source = rh.delta.source(table)
    if source.split_columns:
        skips = source.skipping(col("k") == "é")
        assert sorted(row["n"] for split in check_source(skips).values() for row in split) == [2]


def test_bounds_skip_files(tmp_path: Path) -> None:
    """A file of which no row can pass the filter is not read, in programs and SQL."""
    table = tmp_path / "t"
    for n in range(4):
        rows = pa.table({"n": [10 * n, 10 * n + 9], "k": ["a", "b"]})
        write_deltalake(table, rows, mode="append")
    source = rh.delta.source(table)
    assert {*source.bounded_columns} == {"n", "k"}
    for condition, read in (
        (col("n") > 15, [10, 19, 20, 29, 30, 39]),
        (pl.col("n").is_between(5, 8), [0, 9]),
        ((col("n") == 30) & (col("k") == "c"), []),
        (col("n") % 10 == 0, [0, 9, 10, 19, 20, 29, 30, 39]),
    ):
        skips = source.skipping(condition)
        assert sorted(row["n"] for row in read_all(skips)) == read
    check_source(rh.delta.source(table, schema={"n": int}), max_rows=(1,), positions=2)
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(f"CREATE TABLE lake (n BIGINT) WITH ('connector' = 'delta', 'path' = '{table}')")
    query = "SELECT n FROM lake WHERE n >= 20 AND n <> 29"
    assert "skips splits without" in str(env.explain_sql(query))
    env.sql(query).collect("found")
    assert sorted(env.execute("bounds").collected["found"]["n"].to_pylist()) == [20, 30, 39]


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"discover": "1s"}, rh.ProgramError, "discover= needs version="),
        ({"version": -1}, rh.ProgramError, "version=-1 is not a version"),
        ({"version": 7}, rh.ConfigurationError, "could not be inspected"),
        ({"schema": {"m": int}}, rh.SchemaError, "has no column 'm'"),
        ({"partition_by": ["n"]}, rh.SchemaError, "is partitioned by"),
    ],
)
def test_wrong_arguments_are_refused(
    table: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    with pytest.raises(error, match=what):
        rh.delta.source(table, **settings)


def test_a_table_that_the_library_cannot_read_is_no_matter_of_permissions(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(re.sub(r'"minReaderVersion":\d+', '"minReaderVersion":99', log.read_text()))
    with pytest.raises(ConfigurationError, match=r"reader version 99\n.*read it by Spark, or copy"):
        rh.delta.source(tmp_path)
