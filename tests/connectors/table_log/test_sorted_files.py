"""The rows of each data file are sorted: those of writers, of compactions and of upserts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos.connectors.table_log import sorted_rows
from tests.connectors.table_log.test_compaction import DeltaLake, IcebergLake, Lake


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(tmp_path)
    return made


def columns_in(lake: Lake, name: str) -> list[list[Any]]:
    return [pq.ParquetFile(path).read()[name].to_pylist() for path in sorted(lake.paths())]


def test_each_file_is_sorted(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 500)
    monkeypatch.setattr(sorted_rows, "MOST_RUNS", 3)
    random, rows = Random(5), [{"n": n, "k": f"k{n % 3}"} for n in range(300)]
    random.shuffle(rows)
    job = lake.begin(sort_by=["n"], partition_by=["k"], compact=None)
    for at in range(0, 150, 50):
        job.writer.write(pa.RecordBatch.from_pylist(rows[at : at + 50], job.schema))
    job.checkpoint += 1
    job.commit(job.stage_rows(rows[150:200]))
    found = columns_in(lake, "n")
    assert len(found) > 3, "more rows than fit on the disk begin further files"
    assert all(numbers == sorted(numbers) for numbers in found)
    compacting = lake.begin(sort_by=["n"], compact=rh.compaction(files=2, every=1))
    compacting.checkpoint = 1
    monkeypatch.setattr(sorted_rows, "MOST_RUNS", 1000)
    compacting.checkpoint += 1
    compacting.commit(compacting.stage_rows(rows[200:]))
    before, found = len(found), columns_in(lake, "n")
    assert len(found) < before + 3, "each partition has got a file, and some are merged"
    assert all(numbers == sorted(numbers) for numbers in found)
    assert compacting.numbers() == list(range(300))


def test_rewritten_files_are_sorted_and_newer_changes_win(lake: Lake) -> None:
    job = lake.begin_upserts(sort_by=["v", "k"], compact=None)
    job.commit(job.change((1, "x", 5.0), (2, "x", 4.0), (3, "x", 3.0), (1, "x", 9.0), (2, "x", 1.0)))
    assert columns_in(lake, "k") == [[2, 3, 1]]
    job.commit(job.change((3, "x", 0.5), (3, "x", None), (4, "x", 2.0)))
    assert columns_in(lake, "k") == [[2, 4, 1]]


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(rh.ProgramError, match="sort_by='n' is not a list of columns"):
        rh.delta.sink(tmp_path / "t", sort_by="n")
    with pytest.raises(rh.ProgramError, match="'other'"):
        DeltaLake(tmp_path).begin(sort_by=["other"])
