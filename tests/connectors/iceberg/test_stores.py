"""Iceberg tables on S3 and HDFS, of SQL catalogs and Glue, are written, replaced, read and followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.connectors.iceberg.catalogs import catalog_of
from rheos.connectors.iceberg.hdfs_file_io import HdfsFileIO
from rheos.core.errors import UnavailableError
from rheos.testing import check_source
from rheos.testing.servers import HadoopCluster
from tests.connectors.iceberg.test_sink import Job
from tests.connectors.store_servers import new_bucket
from tests.waiting import wait_for

SLOW = "every run has the same jobs on local disk, and files on the same stores"


@pytest.fixture(params=["sql", "glue"])
def on_s3(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Yield the properties of a catalog whose tables are on S3."""
    with new_bucket("moto", tmp_path, monkeypatch) as bucket:
        sql = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
        catalog = {"sql": sql, "glue": {"type": "glue"}}[request.param]
        yield catalog | {"warehouse": f"{bucket}/lake"}


@pytest.mark.slow
@pytest.mark.proves("moto", slow_because=SLOW)
def test_tables_on_s3(on_s3: dict[str, str]) -> None:
    write_replace_read_and_follow(on_s3)


@pytest.mark.slow
@pytest.mark.proves("HDFS", faults=["the NameNode is killed"], slow_because=SLOW)
def test_tables_on_hdfs(hdfs: HadoopCluster, tmp_path: Path) -> None:
    """A commit while HDFS is away does not pass, and is made once when HDFS is back."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"{hdfs.url}/lake/{tmp_path.name}",
    }
    write_replace_read_and_follow(catalog)
    job = Job(tmp_path, catalog=catalog)
    staged = job.stage(1)
    hdfs.name_node.kill()
    with pytest.raises(UnavailableError):
        job.commit(staged)
    hdfs.name_node.start()
    wait_for(lambda: committed(job, staged), 120)  # It is in safe mode at first.
    job.commit(staged)
    rows = check_source(rh.iceberg.source("shop.t", catalog=catalog), positions=1)
    assert [row["n"] for of_split in rows.values() for row in of_split] == [1]


def committed(job: Any, staged: list[bytes]) -> bool:
    """Try to commit, as the driver does again and again. Return whether it succeeded."""
    try:
        job.commit(staged)
    except UnavailableError:
        return False
    return True


def write_replace_read_and_follow(catalog: dict[str, str]) -> None:
    """Run jobs on two tables, and check their rows by our sources. Those on S3 are also read by
    the library."""
    for begin in (0, 10):
        env = rh.Environment(2, runtime="simulated")
        rows = env.from_source(rh.collection([{"n": n, "k": n % 5} for n in range(begin, begin + 10)]))
        rows.sink_to(rh.iceberg.sink("shop.rows", catalog=catalog, partition_by=["bucket[2](k)"]))
        rows.sink_to(rh.iceberg.sink("shop.newest", catalog=catalog, key="k"))
        env.execute("rows into tables")

    for name, expected in (("shop.rows", [*range(20)]), ("shop.newest", [*range(15, 20)])):
        found = check_source(rh.iceberg.source(name, catalog=catalog), positions=3)
        assert sorted(row["n"] for of_split in found.values() for row in of_split) == expected
        table = catalog_of(catalog).load().load_table(name)
        assert isinstance(table.io, HdfsFileIO) or table.scan().to_arrow().num_rows == len(expected)
    env = rh.Environment(runtime="simulated")
    changes = rh.iceberg.changes("shop.newest", catalog=catalog, since=0, end="now")
    env.from_source(changes).upserts(key="k").collect("rows")
    followed = env.execute("changes").collected["rows"].to_pylist()
    current = {row["k"]: row["n"] for row in followed if row["op"] != "delete"}
    assert sorted(current.values()) == [*range(15, 20)]
