"""Tables of Iceberg and Delta that sinks have written are read by DuckDB, Polars and Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars as pl
import pytest
from pyiceberg.catalog import load_catalog

import rheos as rh

ROWS = [
    {
        "n": n,
        "k": ["a/b %20", "é語", "x=y", None][n % 4],
        "at": datetime(2026, 3, 1 + n, 5, 0, 0, n),
        "price": Decimal(n * 25).scaleb(-2),
    }
    for n in range(8)
]
NEWER = [{**row, "price": Decimal("9.75")} for row in ROWS[2:4]]
CURRENT = [row | ({"price": Decimal("9.75")} if row["n"] in (2, 3) else {}) for row in ROWS]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a partitioned table and one of upserts in each format."""
    folder = tmp_path_factory.mktemp("lake")
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": str(folder / "iceberg"),
    }
    for rows in (ROWS, NEWER):
        env = rh.Environment(2, runtime="simulated")
        stream = env.from_source(rh.collection(rows))
        if rows is ROWS:
            by = ["bucket[2](n)", "k"]
            stream.sink_to(rh.iceberg.sink("shop.appended", catalog=catalog, partition_by=by))
            stream.sink_to(rh.delta.sink(folder / "delta/appended", partition_by=["k"]))
        stream.sink_to(rh.iceberg.sink("shop.current", catalog=catalog, key="n"))
        stream.sink_to(rh.delta.sink(folder / "delta/current", key="n"))
        env.execute("rows into the lake")
    return folder


def iceberg(lake: Path, name: str) -> Any:
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{lake}/catalog.db")
    return catalog.load_table(f"shop.{name}")


def delta(lake: Path, name: str) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(lake / "delta" / name)


EXPECTED = {"appended": ROWS, "current": CURRENT}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Iceberg scan planning:polars.exceptions.PerformanceWarning")
@pytest.mark.parametrize("name", EXPECTED)
def test_polars_reads_them(lake: Path, name: str) -> None:
    for table in (pl.scan_iceberg(iceberg(lake, name)), pl.scan_delta(str(lake / "delta" / name))):
        assert table.select([*ROWS[0]]).sort("n").collect().to_dicts() == EXPECTED[name]
        few = table.filter(pl.col("n") >= 6).select("n").sort("n").collect()
        assert few["n"].to_list() == [6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_duckdb_reads_the_files_of_the_newest_version(lake: Path, name: str) -> None:
    """Its extensions for both formats are downloaded from elsewhere, so it reads the listed files."""
    listed = {
        "iceberg": [task.file.file_path for task in iceberg(lake, name).scan().plan_files()],
        "delta": delta(lake, name).file_uris(),
    }
    for format, files in listed.items():
        # In a Delta table, only the folders have the values of partition columns.
        names = [each for each in ROWS[0] if each != "k" or (format, name) != ("delta", "appended")]
        columns = ", ".join(f'"{each}"' for each in names)
        paths = [file.removeprefix("file://") for file in files]
        query = f"SELECT {columns} FROM read_parquet(?, hive_partitioning = false) ORDER BY n"
        rows = [dict(zip(names, row, strict=True)) for row in duckdb.execute(query, [paths]).fetchall()]
        assert rows == [{each: row[each] for each in names} for row in EXPECTED[name]], format


@pytest.mark.slow
def test_spark_reads_them_with_its_own_jars(lake: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists() or shutil.which("java") is None:
        pytest.skip("another Spark is installed by uv, and needs Java")
    tables = [f"iceberg={iceberg(lake, name).metadata_location}" for name in EXPECTED]
    tables += [f"delta={lake}/delta/{name}" for name in EXPECTED]
    command = [str(uv), "run", "--no-project", "--isolated", "--python", sys.executable]
    program = Path(__file__).with_name("read_by_spark.py")
    done = subprocess.run(
        [*command, "--with", "pyspark==3.5.9", "python", str(program), *tables],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    expected = [json.loads(json.dumps(EXPECTED[name], default=str)) for name in EXPECTED]
    assert read == expected * 2
