"""Changes of a table arrive in tables of Iceberg and Delta, which then equal it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import rheos as rh
from benchmarks import lakehouse
from benchmarks.lakehouse_orders import Orders, copies, into_a_lakehouse
from rheos import testing
from rheos.connectors.mysql import change_source
from rheos.testing.drawn_settings import CHECKPOINTS
from tests.connectors.mysql.databases import Database


@pytest.mark.proves("MariaDB", faults=["workers and drivers of a simulated job crash"])
def test_tables_equal_the_database_after_crashes(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("CREATE TABLE here (n int)")
    begin = rh.mysql.changes("here", url=database.url, snapshot=False, end="now").end
    orders = Orders(database.url, rows=100)
    orders.create()
    orders.change(1_000)
    source = rh.mysql.changes("orders", url=database.url, snapshot=False, end="now")
    # The job reads all changes from the log, as if it had started before the first one.
    monkeypatch.setattr(change_source, "current_place", lambda connection: begin)

    def build(env: rh.Environment) -> rh.DataStream:
        changes = env.from_source(source, uid="orders")
        into_a_lakehouse(changes, tmp_path)
        return changes

    done = testing.simulate(
        build,
        seed=1,
        slow=True,
        checkpoint=replace(CHECKPOINTS, interval_ms=400),
        faults=testing.Faults(crash_slot=1.5, crash_driver=1.0),
    )
    assert done.crashes > 0
    assert done.out.num_rows > 1_000
    found = copies(database.url, tmp_path)
    assert all(copy.is_equal and copy.rows > 100 for copy in found.values()), found


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.proves(
    "MariaDB",
    faults=["workers, the driver and the database are killed while a job copies 100,000 changes"],
    slow_because="in every run the workers and drivers of a simulated job crash",
)
def test_tables_equal_the_database_after_kills(tmp_path: Path) -> None:
    outcome = lakehouse.run(tmp_path, changes=100_000, per_s=400, rows=20_000, log=print)
    assert outcome.is_right, outcome.lines()
