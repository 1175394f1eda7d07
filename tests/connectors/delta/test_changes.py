"""The changes of a Delta table are read in order, each once, from any version and any position on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos.testing import check_source
from tests.connectors.ports import read_all

FEED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.table({"n": [1, 2, 3, 4], "k": ["a b", "b", None, "a b"], "x": [0.5, 1.0, 1.5, 2.0]})


def rows(k: str, *numbers: int, x: float = 9.0) -> pa.Table:
    return pa.table({"n": list(numbers), "k": [k] * len(numbers), "x": [x] * len(numbers)})


@pytest.fixture(scope="module", params=["feed", "files"])
def kept(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a table with a version of each kind, with and without a change data feed."""
    path = tmp_path_factory.mktemp("lake") / "t"
    settings = FEED if request.param == "feed" else None
    write_deltalake(path, ROWS, partition_by=["k"], configuration=settings)
    write_deltalake(path, rows("b", 5, 6), mode="append")
    DeltaTable(path).delete("n = 2")
    DeltaTable(path).update(updates={"x": "x + 1"}, predicate="n = 1")
    DeltaTable(path).update(updates={"k": "'z'"}, predicate="n = 4")
    DeltaTable(path).optimize.compact()
    merge = DeltaTable(path).merge(rows("a b", 1, 9, x=7.0), "t.n = s.n", "s", "t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    write_deltalake(path, rows("b", 7), mode="overwrite", predicate="k = 'b'")
    return path


@pytest.fixture
def table(kept: Path, tmp_path: Path) -> Path:
    """Return a copy of the table, which the test may change."""
    return Path(shutil.copytree(kept, tmp_path / "t"))


def content(table: Path, version: int) -> list[dict[str, Any]]:
    found = DeltaTable(table, version=version).to_pyarrow_table().to_pylist()
    return sorted(({name: row[name] for name in ("n", "k", "x")} for row in found), key=str)


def applied(changes: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Return the rows after each version. Fails if a row is deleted that does not exist."""
    current: list[dict[str, Any]] = []
    after: dict[int, list[dict[str, Any]]] = {}
    for change in changes:
        row = {name: change[name] for name in ("n", "k", "x")}
        if change["op"] in ("delete", "update_before"):
            current.remove(row)
        else:
            current.append(row)
        after[change["version"]] = sorted(current, key=str)
    return after


def test_each_version_is_reproduced(table: Path) -> None:
    newest = DeltaTable(table).version()
    for first in (0, 2, newest):
        source = rh.delta.changes(table, version=first, end="now", metadata=["op", "version"])
        after = applied(read_all(source))
        assert [*after] == sorted(after)
        assert first in after
        for version, found in after.items():
            assert found == content(table, version)
        assert after[max(after)] == content(table, newest)


def test_the_feed_has_the_changed_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, ROWS, configuration=FEED)
    DeltaTable(path).update(updates={"x": "x + 1"}, predicate="n = 1")
    DeltaTable(path).delete("n = 4")
    source = rh.delta.changes(
        path, version=0, snapshot=False, end="now", schema={"n": int}, metadata={"op": "is"}
    )
    assert [(row["is"], row["n"]) for row in read_all(source)] == [
        ("update_before", 1),
        ("update_after", 1),
        ("delete", 4),
    ]
    times = rh.delta.changes(path, version=1, end="now", metadata=["op", "commit_time"])
    assert [row["commit_time"] is None for row in read_all(times)] == [True] * 4 + [False]


def test_the_source_keeps_the_contract(table: Path) -> None:
    """The kit restores the reader at many positions, and prunes columns."""
    columns = {"n": int, "k": str | None, "x": float}
    source = rh.delta.changes(table, version=4, schema=columns, metadata=["op", "version"], end="now")
    (found,) = check_source(source, max_rows=(2,), positions=5).values()
    after = applied(found)
    assert after[max(after)] == content(table, DeltaTable(table).version())


@pytest.mark.slow
def test_an_endless_source_keeps_the_contract(table: Path) -> None:
    source = rh.delta.changes(table, version=0, metadata=["op", "version"])
    count = len(read_all(rh.delta.changes(table, version=0, end="now")))
    (found,) = check_source(source, endless_rows=count).values()
    after = applied(found)
    assert after[max(after)] == content(table, DeltaTable(table).version())


def test_a_job_that_resumes_keeps_its_first_version_and_its_end(table: Path) -> None:
    source = rh.delta.changes(table, version=2, end="now")
    known = {split.id: split.payload for split in source.splits()}
    write_deltalake(table, rows("c", 20), mode="append")
    later = rh.delta.changes(table, end="now")
    (split,) = later.resumed(later.splits(), known)
    assert split.payload == known[split.id]


def gone(table: Path, *parts: str) -> None:
    """Remove files of the table."""
    for part in parts:
        for file in table.glob(part):
            file.unlink()


@pytest.mark.parametrize(
    ("lost", "what"),
    [
        (f"_delta_log/{3:020}.json", r"version 3 of the table .* is not in its log any more"),
        (
            "_change_data/*/*.parquet",
            r"the file _change_data.* of version \d .* no longer exists",
        ),
        ("k=b/*.parquet", r"the file k=b/.* of version \d of the table .* no longer exists"),
    ],
)
def test_a_gap_in_the_history_is_an_error(table: Path, lost: str, what: str) -> None:
    source = rh.delta.changes(table, version=1, snapshot=False, end="now")
    if "_change_data" in lost and not [*table.glob(lost)]:
        pytest.skip("a table without a feed")
    gone(table, lost)
    with pytest.raises(rh.InputError, match=what):
        read_all(source)


def test_a_dropped_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, ROWS)
    write_deltalake(path, ROWS.drop_columns(["x"]), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(rh.SchemaError, match="has no column 'x'"):
        rh.delta.changes(path, version=0, schema={"x": float})
    write_deltalake(path, ROWS, mode="overwrite", schema_mode="overwrite")
    source = rh.delta.changes(path, version=0, snapshot=False, end="now")
    with pytest.raises(rh.InputError, match=r"version 1 of the table .* no longer has the column 'x'"):
        read_all(source)
    one = rh.delta.changes(path, version=0, schema={"n": int}, end="now")
    assert len(read_all(one)) == 20


def test_sql_keeps_a_table_up_to_date(table: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(
        f"""CREATE TABLE lake (n BIGINT, k STRING, x DOUBLE, PRIMARY KEY (n) NOT ENFORCED)
            WITH ('connector' = 'delta', 'path' = '{table}', 'changes' = 'true', 'version' = '0',
                  'end' = 'now')"""
    )
    env.sql("SELECT k, count(*) AS rows FROM lake GROUP BY k").collect("found")
    counts: dict[str, int] = {}
    for change in env.execute("sql from changes").collected["found"].to_pylist():
        counts[change["k"]] = 0 if change["op"] == "delete" else change["rows"]
    expected: dict[str, int] = {}
    for row in content(table, DeltaTable(table).version()):
        expected[row["k"]] = expected.get(row["k"], 0) + 1
    assert {k: n for k, n in counts.items() if n} == expected


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"version": -1}, rh.ProgramError, "version=-1 is not a version"),
        ({"version": 99}, rh.ConfigurationError, "could not be inspected"),
        ({"end": "later"}, rh.ProgramError, "end='later' is not known"),
        ({"schema": {"m": int}}, rh.SchemaError, "has no column 'm'"),
        ({"metadata": ["position"]}, rh.ProgramError, "unknown field 'position'"),
        ({"metadata": {"op": "n"}}, rh.SchemaError, "two columns are named 'n'"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    write_deltalake(tmp_path / "t", ROWS)
    with pytest.raises(error, match=what):
        rh.delta.changes(tmp_path / "t", **settings)
