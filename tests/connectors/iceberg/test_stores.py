"""Iceberg tables on S3 and HDFS, of SQL catalogs and Glue, are written, replaced, read and followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.connectors.iceberg.catalogs import catalog_of
from rheos.testing import check_source
from tests.connectors.store_servers import new_bucket

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


def write_replace_read_and_follow(catalog: dict[str, str]) -> None:
    """Run jobs on two tables, and check their rows by the library and by our sources."""
    for begin in (0, 10):
        env = rh.Environment(2, runtime="simulated")
        rows = env.from_source(rh.collection([{"n": n, "k": n % 5} for n in range(begin, begin + 10)]))
        rows.sink_to(rh.iceberg.sink("shop.rows", catalog=catalog, partition_by=["bucket[2](k)"]))
        rows.sink_to(rh.iceberg.sink("shop.newest", catalog=catalog, key="k"))
        env.execute("rows into tables")

    def stored(name: str) -> list[Any]:
        found = catalog_of(catalog).load().load_table(name).scan().to_arrow()
        return found.sort_by("n")["n"].to_pylist()  # type: ignore[no-any-return]

    assert stored("shop.rows") == [*range(20)]
    assert stored("shop.newest") == [*range(15, 20)]
    found = check_source(rh.iceberg.source("shop.rows", catalog=catalog), positions=3)
    assert sorted(row["n"] for of_split in found.values() for row in of_split) == [*range(20)]
    env = rh.Environment(runtime="simulated")
    changes = rh.iceberg.changes("shop.newest", catalog=catalog, since=0, end="now")
    env.from_source(changes).upserts(key="k").collect("rows")
    followed = env.execute("changes").collected["rows"].to_pylist()
    current = {row["k"]: row["n"] for row in followed if row["op"] != "delete"}
    assert sorted(current.values()) == [*range(15, 20)]
