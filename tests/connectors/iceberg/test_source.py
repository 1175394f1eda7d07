"""An Iceberg table as a source: a snapshot, and what is appended later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import rheos as rh
from rheos.connectors.files.parquet import START
from rheos.core.connectors.contract import Source
from rheos.testing import check_source
from tests.connectors.iceberg.test_sink import NAME, SCHEMA, Job, expire_all_but_the_newest, lake, write
from tests.connectors.ports import read_all


def read(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    env = rh.Environment(2, runtime="simulated")
    env.from_source(rh.iceberg.source(NAME, catalog=lake(folder), **settings)).collect("rows")
    found = env.execute("rows of a table").collected["rows"]
    return sorted(found.to_pylist(), key=lambda row: str(row.get("n")))


def appended(source: Source) -> list[int]:
    """Return the numbers in the splits that the source finds now."""
    return sorted(row["n"] for row in read_all(source))


def test_a_snapshot_is_read_with_the_columns_that_are_wanted(tmp_path: Path) -> None:
    rows = [{"n": n, "k": f"k{n % 2}", "tags": [f"t{n}"]} for n in range(4)]
    write(tmp_path, rows[:2], partition_by=["k"])
    job = Job(tmp_path, pa.schema({"n": pa.int64(), "k": pa.string(), "tags": pa.list_(pa.string())}))
    first = job.table().current_snapshot().snapshot_id
    write(tmp_path, rows[2:])
    assert read(tmp_path) == rows
    assert read(tmp_path, snapshot=first) == rows[:2]
    assert read(tmp_path, schema={"n": int}) == [{"n": row["n"]} for row in rows]
    with job.table().update_schema() as update:
        update.rename_column("n", "number")
        update.union_by_name(pa.schema({"x": pa.float64()}))
    renamed = read(tmp_path, schema={"number": int, "x": float | None})
    assert sorted(row["number"] for row in renamed) == [0, 1, 2, 3]
    assert {row["x"] for row in renamed} == {None}


def test_uuids_of_other_writers_are_read(tmp_path: Path) -> None:
    ids = pa.table({"v": pa.array([b"0123456789abcdef", None], pa.uuid())})
    catalog = load_catalog("default", **lake(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table("shop.ids", ids.schema).append(ids)
    for source in (rh.iceberg.source, rh.iceberg.changes):
        assert source("shop.ids", catalog=lake(tmp_path)).schema.field("v").type == pa.uuid()
    env = rh.Environment(1, runtime="simulated")
    env.from_source(rh.iceberg.source("shop.ids", catalog=lake(tmp_path))).collect("rows")
    assert env.execute("ids").collected["rows"]["v"].to_pylist() == ids["v"].to_pylist()


def test_appended_rows_are_found_once(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.commit(job.stage(1))
    first = job.table().current_snapshot().snapshot_id
    from_the_first = rh.iceberg.source(NAME, catalog=lake(tmp_path), snapshot=first, discover="1s")
    from_the_beginning = rh.iceberg.source(NAME, catalog=lake(tmp_path), snapshot=0, discover="1s")
    assert appended(from_the_first) == appended(from_the_beginning) == [1]
    job.commit(job.stage(2))
    with job.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "2"})
    job.commit(job.stage(3))  # Its manifest also lists the earlier files.
    for source in (from_the_first, from_the_beginning):
        assert appended(source) == [1, 2, 3]
        assert appended(source) == [1, 2, 3]
    job.table().delete("n = 2")
    with pytest.raises(rh.InputError, match="deletes or replaces rows"):
        from_the_first.splits()


def test_an_expired_snapshot_is_an_error(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.commit(job.stage(1))
    job.commit(job.stage(2))
    expire_all_but_the_newest(job)
    source = rh.iceberg.source(NAME, catalog=lake(tmp_path), snapshot=0, discover="1s")
    with pytest.raises(rh.InputError, match="is not among the snapshots of its branch main"):
        source.splits()
    assert [row["n"] for row in read(tmp_path)] == [1, 2]


def test_the_source_keeps_the_contract(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.commit([*job.stage(1), *job.stage(*range(2, 10))])
    cases: list[dict[str, Any]] = [{}, {"snapshot": 0, "discover": "1s"}]
    for settings in cases:
        found = check_source(rh.iceberg.source(NAME, catalog=lake(tmp_path), **settings), positions=5)
        assert sorted(row["n"] for rows in found.values() for row in rows) == list(range(1, 10))


def test_a_bounded_source_resumes_with_its_first_files(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.commit(job.stage(1))
    known = {split.id: START for split in rh.iceberg.source(NAME, catalog=lake(tmp_path)).splits()}
    job.commit(job.stage(2))
    source = rh.iceberg.source(NAME, catalog=lake(tmp_path))
    assert [split.id for split in source.resumed(source.splits(), known)] == list(known)


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"snapshot": "x"}, rh.ProgramError, "is not the id of a snapshot"),
        ({"discover": "1s"}, rh.ProgramError, "discover= needs snapshot="),
        ({"schema": {"m": int}}, rh.SchemaError, "has no column 'm'"),
        ({"table": "t"}, rh.ProgramError, "is not a table in a namespace"),
        ({"table": "shop.none"}, rh.ConfigurationError, "could not be inspected or created"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    Job(tmp_path)
    with pytest.raises(error, match=what):
        rh.iceberg.source(**{"table": NAME, "catalog": lake(tmp_path), **settings})


def test_bounds_skip_files(tmp_path: Path) -> None:
    """Bounds are those of the field, whatever the column is called in the file."""
    job = Job(tmp_path)
    for n in (1, 2, 3):
        job.commit(job.stage(n))
    with job.table().update_schema() as update:
        update.rename_column("n", "number")
    source = rh.iceberg.source(NAME, catalog=lake(tmp_path))
    for condition, read in ((pl.col("number") > 1, [2, 3]), (pl.col("number") != 1, [1, 2, 3])):
        assert sorted(row["number"] for row in read_all(source.skipping(condition))) == read


def test_sql_reads_a_table(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2], "k": ["a", "b"]}, SCHEMA)
    write(tmp_path, rows)
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(
        f"""CREATE TABLE lake (n BIGINT, k STRING) WITH ('connector' = 'iceberg', 'table' = '{NAME}',
            'catalog.type' = 'sql', 'catalog.uri' = 'sqlite:///{tmp_path}/catalog.db')"""
    )
    env.sql("SELECT n * 2 AS m FROM lake WHERE k = 'b'").collect("found")
    assert env.execute("sql").collected["found"].to_pylist() == [{"m": 4}]
