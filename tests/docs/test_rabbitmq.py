"""The programs of docs/rabbitmq.md, with another address of the server. The job is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.rabbitmq.conftest import Queues
from tests.docs.walks import steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "rabbitmq.md"
URL = "amqp://guest:guest@localhost:5672"


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "RabbitMQ",
    faults=["the driver is killed"],
    slow_because="a server takes some 15 s of processor time to start",
)
def test_paid_orders_survive_a_kill(rabbitmq_server: Any, tmp_path: Path) -> None:
    [code] = [step.code for step in steps(PAGE) if step.file == "paid.py"]
    assert len(code.splitlines()) <= 20
    program = tmp_path / "paid.py"
    folder = f'checkpoint_interval="1s", checkpoint_dir={str(tmp_path / "checkpoints")!r}'
    code = code.replace('checkpoint_interval="1s"', folder).replace(URL, rabbitmq_server.url)
    program.write_text(code)
    queues = Queues(rabbitmq_server.url)
    for name in ("orders", "paid"):
        queues.create(name)
    found: set[int] = set()

    def has_all(orders: int) -> bool:
        found.update(row["id"] for _, row in queues.taken("paid"))
        return {*range(0, orders, 2)} <= found

    for run in range(2):
        orders = range(10 * run, 10 * run + 10)
        queues.put("orders", *({"id": n, "country": "uk", "paid": n % 2 == 0} for n in orders))
        with subprocess.Popen([sys.executable, str(program)], cwd=tmp_path) as job:
            wait_for(lambda end=orders.stop: has_all(end), 400)
            job.kill()
    for name in ("orders", "paid"):
        queues.delete(name)
    assert found == {*range(0, 20, 2)}


def test_the_script_is_planned() -> None:
    [_, code] = PAGE.read_text().split("```sql\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(code.partition("```")[0])
    plan = str(env.explain())
    assert "RabbitMQ queues orders" in plan
    assert "exchange shops, routing key paid.{country}" in plan
