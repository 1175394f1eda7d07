"""The programs of docs/sqs.md, with another address of the emulator. The job is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

import rheos as rh
from tests.docs.walks import steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "sqs.md"
URL = "http://localhost:5000"
REGION = "eu-central-1"


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.proves(
    "SQS",
    faults=["the driver is killed"],
    slow_because="an emulator takes some 6 s of processor time",
)
def test_paid_orders_survive_a_kill(
    aws_emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    [code] = [step.code for step in steps(PAGE) if step.file == "paid.py"]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    program = tmp_path / "paid.py"
    folder = f'checkpoint_interval="1s", checkpoint_dir={str(tmp_path / "checkpoints")!r}'
    code = code.replace('checkpoint_interval="1s"', folder).replace(URL, aws_emulator.url)
    # A killed job's messages stay hidden for this time.
    program.write_text(code.replace('"orders",', '"orders", visibility="10s",'))
    client = boto3.client("sqs", region_name=REGION, endpoint_url=aws_emulator.url)
    orders = client.create_queue(QueueName="orders")["QueueUrl"]
    paid = client.create_queue(QueueName="paid.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    found: list[int] = []

    def has_all(count: int) -> bool:
        got = client.receive_message(QueueUrl=paid, MaxNumberOfMessages=10).get("Messages", ())
        for message in got:
            found.append(json.loads(message["Body"])["id"])
            client.delete_message(QueueUrl=paid, ReceiptHandle=message["ReceiptHandle"])
        return {*range(0, count, 2)} <= {*found}

    for run in range(2):
        for n in range(10 * run, 10 * run + 10):
            order = {"id": n, "country": "uk", "paid": n % 2 == 0}
            client.send_message(QueueUrl=orders, MessageBody=json.dumps(order))
        with subprocess.Popen([sys.executable, str(program)], cwd=tmp_path) as job:
            wait_for(lambda count=10 * run + 10: has_all(count), 400)
            job.kill()
    for url in (orders, paid):
        client.delete_queue(QueueUrl=url)
    assert sorted(found) == [*range(0, 20, 2)]


def test_the_script_is_planned() -> None:
    [_, code] = PAGE.read_text().split("```sql\n")
    env = rh.Environment(runtime="simulated")
    env.sql_script(code.partition("```")[0])
    plan = str(env.explain())
    assert "SQS queue orders in the region eu-central-1" in plan
    assert "SQS queue paid.fifo in the region eu-central-1" in plan
