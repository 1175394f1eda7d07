"""The programs of docs/hbase.md, with another address of the gateway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.hbase.conftest import Tables
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "hbase.md"
STORES = PAGE.with_name("stores.md")
GATEWAY = "localhost:9090"
SLOW = "a server takes some 20 s of processor time to start"


@pytest.fixture
def pages(hbase_server: Any) -> Any:
    """Create the page's table, and return a function that reads it."""
    found = Tables(hbase_server.address)
    connection = found.connected()
    if b"pages" in connection.tables():
        connection.delete_table("pages", disable=True)
    connection.create_table("pages", {"cf": {}})
    connection.close()
    return lambda: {
        key.decode(): int.from_bytes(cells["cf:visits"], "big")
        for key, cells in found.rows("pages").items()
    }


def program() -> str:
    [code] = [step.code for step in steps(STORES) if step.file == "hbase.py"]
    assert len(code.splitlines()) <= 20
    return code


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves("HBase", slow_because=SLOW)
def test_visits_are_counted(hbase_server: Any, pages: Any, tmp_path: Path) -> None:
    path = tmp_path / "count_pages.py"
    path.write_text(program().replace(GATEWAY, hbase_server.address))
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "{'page': 'about', 'visits': 2}, {'page': 'home', 'visits': 3}" in done.stdout
    assert pages() == {"home": 3, "about": 2}


def script() -> str:
    [_, code] = PAGE.read_text().split("```sql\n")
    return code.partition("```")[0]


def test_the_script_is_planned() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(script())
    assert "HBase table pages at localhost:9090" in str(env.explain())
