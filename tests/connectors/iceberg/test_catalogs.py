"""Tables of catalogs on real servers are written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import rheos as rh
from rheos.testing import check_source
from tests.connectors.postgres.databases import new_database


@pytest.mark.slow
def test_a_sql_catalog_on_postgresql_has_the_rows(tmp_path: Path, postgres_server: Any) -> None:
    url = new_database(postgres_server).url.replace("postgresql://", "postgresql+psycopg://")
    catalog = {"type": "sql", "uri": url, "warehouse": f"file://{tmp_path}/lake"}
    for begin in (0, 10):
        env = rh.Environment(2, runtime="simulated", checkpoint_dir=str(tmp_path / f"of.{begin}"))
        rows = rh.collection([{"n": n} for n in range(begin, begin + 10)])
        env.from_source(rows).sink_to(rh.iceberg.sink("shop.orders", catalog=catalog))
        env.execute("orders")
    found = check_source(rh.iceberg.source("shop.orders", catalog=catalog), positions=3)
    assert sorted(row["n"] for of_split in found.values() for row in of_split) == [*range(20)]
    table = load_catalog("default", **catalog).load_table("shop.orders")
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [*range(20)]
