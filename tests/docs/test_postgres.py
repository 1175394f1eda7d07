"""The job of docs/postgres.md, on a real server, in the simulated runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.postgres.databases import new_database
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"


def test_the_job_of_the_page_runs(postgres_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    database = new_database(postgres_server)
    [table, dropped, left] = [
        part.split("```")[0].strip() for part in PAGE.read_text().split("```sql\n")[1:]
    ]
    database.run(table, "INSERT INTO orders VALUES (1, 'ada', 150), (2, 'bob', 200), (3, 'ada', 25)")
    monkeypatch.setenv("SHOP", database.url)
    [job] = [step.code for step in steps(PAGE) if step.file == "spent.py"]
    exec(job.replace("rh.Environment(", 'rh.Environment(runtime="simulated", '), {})
    assert database.rows("SELECT customer, orders, cents FROM spent ORDER BY customer") == [
        ("ada", 2, 175),
        ("bob", 1, 200),
    ]
    assert database.rows(left) == []
    database.run(*dropped.splitlines())
    assert database.rows("SELECT 1 FROM pg_publication") == []
