"""The programs of docs/clickhouse.md, with another address of the server. The job is killed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.clickhouse.conftest import Tables
from tests.docs.walks import steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "clickhouse.md"
URL = "http://localhost:8123"


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "ClickHouse",
    faults=["the driver is killed"],
    slow_because="the wheel with ClickHouse's engine has 500 MB, and CI does not install it",
)
def test_clicks_survive_a_kill(clickhouse_server: Any, tmp_path: Path) -> None:
    [code] = [step.code for step in steps(PAGE) if step.file == "clicks.py"]
    assert len(code.splitlines()) <= 20
    program = tmp_path / "clicks.py"
    folder = f'checkpoint_interval="1s", checkpoint_dir={str(tmp_path / "checkpoints")!r}'
    code = code.replace('checkpoint_interval="1s"', folder).replace(URL, clickhouse_server.url)
    program.write_text(code)
    tables = Tables(clickhouse_server.url)
    for statement in re.findall(r"^CREATE TABLE .*?;", PAGE.read_text(), re.DOTALL | re.MULTILINE)[:2]:
        tables.run(statement.rstrip(";"))
    given = tmp_path / "clicks"
    given.mkdir()
    for run in range(2):
        users = range(50 * run, 50 * run + 50)
        lines = [json.dumps({"page": f"p{user % 3}", "user": user}) for user in users]
        (given / f".{run}").write_text("\n".join(lines))
        (given / f".{run}").rename(given / f"{run}.jsonl")
        with subprocess.Popen([sys.executable, str(program)], cwd=tmp_path) as job:
            wait_for(lambda end=users.stop: len(tables.rows("clicks", "user")) >= end, 400)
            wait_for(
                lambda end=users.stop: sum(row["clicks"] for row in tables.rows("pages")) == end, 400
            )
            job.kill()
    assert [row["user"] for row in tables.rows("clicks", "user")] == [*range(100)]
    pages = tables.rows("pages", "page, clicks")
    assert pages == [{"page": f"p{n}", "clicks": len(range(n, 100, 3))} for n in range(3)]
    for table in ("clicks", "pages"):
        tables.run(f"DROP TABLE {table}")


def test_the_script_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [_, code] = PAGE.read_text().split("```sql\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(code.partition("```")[0])
    assert f"ClickHouse table shop.pages at {URL}, upserts by page" in str(env.explain())
