"""The programs of docs/kinesis.md, with another address of the emulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

import rheos as rh
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "kinesis.md"
URL = "http://localhost:5000"
REGION = "eu-central-1"
ORDERS = [
    {"id": 1, "country": "uk", "paid": True},
    {"id": 2, "country": "de", "paid": False},
    {"id": 3, "country": "de", "paid": True},
]


@pytest.fixture
def client(aws_emulator: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    made = boto3.client("kinesis", region_name=REGION, endpoint_url=aws_emulator.url)
    for name in ("orders", "paid"):
        made.create_stream(StreamName=name, ShardCount=1)
    for order in ORDERS:
        made.put_record(StreamName="orders", Data=json.dumps(order), PartitionKey="berlin")
    yield made
    for name in ("orders", "paid"):
        made.delete_stream(StreamName=name)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["paid.py", "paid.sql"])
def test_paid_orders_are_written(aws_emulator: Any, client: Any, file: str) -> None:
    if file == "paid.py":
        [code] = [step.code for step in steps(PAGE) if step.file == file]
    else:
        [_, code] = PAGE.read_text().split("```sql\n")
        code = code.partition("```")[0]
    code = code.replace(URL, aws_emulator.url)
    if file == "paid.py":
        assert len(code.splitlines()) <= 20
        exec(compile(code, file, "exec"), {})
        more = {"paid": True, "shop": "berlin"}
    else:
        env = rh.Environment(parallelism=1, runtime="simulated")
        env.sql_script(code)
        env.execute("paid orders")
        more = {}
    [shard] = client.list_shards(StreamName="paid")["Shards"]
    begin = client.get_shard_iterator(
        StreamName="paid", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    records = client.get_records(ShardIterator=begin["ShardIterator"])["Records"]
    assert [(each["PartitionKey"], json.loads(each["Data"])) for each in records] == [
        ("uk", {"id": 1, "country": "uk", **more}),
        ("de", {"id": 3, "country": "de", **more}),
    ]
