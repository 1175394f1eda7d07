"""The programs of docs/mongodb.md, with another address of the server. The job is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.mongodb.conftest import Collections
from tests.docs.walks import steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "mongodb.md"
URL = "mongodb://localhost:27017/shop"


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "MongoDB",
    faults=["the driver is killed"],
    slow_because="the wheel with the server is not installed by CI",
)
def test_totals_survive_a_kill(mongodb_server: Any, tmp_path: Path) -> None:
    [code] = [step.code for step in steps(PAGE) if step.file == "totals.py"]
    assert len(code.splitlines()) <= 20
    program = tmp_path / "totals.py"
    folder = f'checkpoint_interval="1s", checkpoint_dir={str(tmp_path / "checkpoints")!r}'
    code = code.replace('checkpoint_interval="1s"', folder).replace(URL, mongodb_server.url)
    program.write_text(code)
    collections = Collections(mongodb_server.url)
    orders = collections["orders"]

    def totals() -> list[tuple[str, int, int]]:
        documents = collections.documents("totals")
        return [(each["_id"], each["orders"], each["total"]) for each in documents]

    orders.insert_many([{"_id": f"{n}", "customer": f"c{n % 2}", "price": n} for n in range(10)])
    for changed in (False, True):
        if changed:
            orders.delete_one({"_id": "9"})
            orders.update_one({"_id": "0"}, {"$set": {"price": 100}})
        expected = [("c0", 5, 120), ("c1", 4, 16)] if changed else [("c0", 5, 20), ("c1", 5, 25)]
        with subprocess.Popen([sys.executable, str(program)], cwd=tmp_path) as job:
            wait_for(lambda expected=expected: totals() == expected, 400)
            job.kill()
    for name in ("orders", "totals"):
        collections[name].drop()
    collections.close()


def test_the_script_is_planned() -> None:
    [_, code] = PAGE.read_text().split("```sql\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(code.partition("```")[0])
    assert "MongoDB collection pages at localhost:27017/shop" in str(env.explain())
