"""The changes of an Iceberg table are read in order, each once, from any snapshot on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.testing import check_source
from tests.connectors.iceberg.test_sink import NAME, Job, expire_all_but_the_newest, lake
from tests.connectors.ports import read_all


def changes(folder: Path, **settings: Any) -> list[tuple[str, int]]:
    source = rh.iceberg.changes(NAME, catalog=lake(folder), end="now", **settings)
    return [(row["op"], row["n"]) for row in read_all(source)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job that has appended twice. Then another program deletes one row of three."""
    job = Job(tmp_path)
    job.commit(job.stage(1))
    job.commit(job.stage(2, 3, 4))
    job.table().delete("n = 3")
    return job


def test_each_snapshot_is_reproduced(job: Job, tmp_path: Path) -> None:
    snapshots = [each.snapshot_id for each in job.table().metadata.snapshots]
    source = rh.iceberg.changes(
        NAME, catalog=lake(tmp_path), since=0, end="now", metadata=["op", "snapshot", "commit_time"]
    )
    current: list[int] = []
    after: dict[int, list[int]] = {}
    for row in read_all(source):
        assert row["commit_time"] is not None
        if row["op"] == "delete":
            current.remove(row["n"])
        else:
            current.append(row["n"])
        after[row["snapshot"]] = sorted(current)
    expected = {
        each: sorted(job.table().scan(snapshot_id=each).to_arrow()["n"].to_pylist())
        for each in snapshots
    }
    assert after == expected
    assert sorted(current) == [1, 2, 4]
    assert sorted(changes(tmp_path)) == [("snapshot", 1), ("snapshot", 2), ("snapshot", 4)]
    rewritten = [("delete", 2), ("delete", 3), ("delete", 4), ("insert", 2), ("insert", 4)]
    assert changes(tmp_path, since=snapshots[1], snapshot=False) == rewritten
    (found,) = check_source(source, max_rows=(2,), positions=4).values()
    assert len(found) == 9


def test_an_expired_snapshot_is_an_error(job: Job, tmp_path: Path) -> None:
    first = job.table().metadata.snapshots[0].snapshot_id
    source = rh.iceberg.changes(NAME, catalog=lake(tmp_path), since=first, snapshot=False, end="now")
    expire_all_but_the_newest(job)
    with pytest.raises(rh.InputError, match=f"snapshot {first} of the table shop"):
        read_all(source)
    with pytest.raises(rh.ConfigurationError, match=f"snapshot {first} of the table shop"):
        rh.iceberg.changes(NAME, catalog=lake(tmp_path), since=first)


def test_a_lost_file_is_an_error(job: Job, tmp_path: Path) -> None:
    first = job.table().metadata.snapshots[0].snapshot_id
    source = rh.iceberg.changes(NAME, catalog=lake(tmp_path), since=first, end="now")
    for file in Path(tmp_path).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(rh.InputError, match=rf"of snapshot {first} of the table .* no longer exists"):
        read_all(source)


def test_sql_keeps_a_table_up_to_date(job: Job, tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    env.sql_script(
        f"""CREATE TABLE lake (n BIGINT, k STRING, PRIMARY KEY (n) NOT ENFORCED)
            WITH ('connector' = 'iceberg', 'table' = '{NAME}', 'changes' = 'true', 'since' = '0',
                  'end' = 'now', 'catalog.type' = 'sql',
                  'catalog.uri' = 'sqlite:///{tmp_path}/catalog.db')"""
    )
    env.sql("SELECT n FROM lake").collect("found")
    current = set()
    for change in env.execute("sql").collected["found"].to_pylist():
        (current.discard if change["op"] == "delete" else current.add)(change["n"])
    assert current == {1, 2, 4}


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"since": "x"}, rh.ProgramError, "is not the id of a snapshot"),
        ({"since": 7}, rh.ConfigurationError, "snapshot 7 of the table"),
        ({"schema": {"m": int}}, rh.SchemaError, "has no column 'm'"),
        ({"metadata": ["version"]}, rh.ProgramError, "unknown field 'version'"),
        ({"table": "t"}, rh.ProgramError, "is not a table in a namespace"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    Job(tmp_path)
    with pytest.raises(error, match=what):
        rh.iceberg.changes(**{"table": NAME, "catalog": lake(tmp_path), **settings})
