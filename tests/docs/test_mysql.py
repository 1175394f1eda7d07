"""The job of docs/mysql.md, on a real server, in the simulated runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.mysql.databases import new_database
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "mysql.md"


def test_the_job_of_the_page_runs(
    mariadb_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = new_database(mariadb_server)
    [table] = [part.split("```")[0].strip() for part in PAGE.read_text().split("```sql\n")[1:]]
    database.run(table, "INSERT INTO orders VALUES (1, 'ada', 150), (2, 'bob', 200), (3, 'ada', 25)")
    monkeypatch.setenv("SHOP", database.url)
    [job] = [step.code for step in steps(PAGE) if step.file == "spent.py"]
    exec(job.replace("rh.Environment(", 'rh.Environment(runtime="simulated", '), {})
    printed = capsys.readouterr().out
    assert "175" in printed
    assert "200" in printed


@pytest.mark.slow
def test_all_tables_of_a_database_become_tables_of_a_lakehouse(
    mariadb_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    database = new_database(mariadb_server)
    database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, cents bigint)",
        "CREATE TABLE line (order_id int, number int, item text, PRIMARY KEY (order_id, number))",
        "CREATE TABLE tmp_of_others (item text)",
        "INSERT INTO orders VALUES (1, 150), (2, 200)",
        "INSERT INTO line VALUES (1, 1, 'tea'), (1, 2, 'milk')",
    )
    monkeypatch.setenv("SHOP", database.url)
    monkeypatch.chdir(tmp_path)
    [job] = [step.code for step in steps(PAGE) if step.file == "whole_database.py"]
    job = job.replace('checkpoint_dir="checkpoints"', 'runtime="simulated"')
    exec(job.replace('"follow")', '"follow", end="now")'), {"__name__": "__main__"})
    lake = catalogs.load_catalog("default", type="sql", uri="sqlite:///lake.db", warehouse="lake")
    for name, rows in (("orders", [(1, 150), (2, 200)]), ("line", [(1, 1, "tea"), (1, 2, "milk")])):
        found = lake.load_table(f"shop.{name}").scan().to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in found) == rows
