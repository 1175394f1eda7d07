"""The source and the sink over the wire, on an emulator that freezes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import boto3
import pytest

import rheos as rh
from rheos.core.errors import InputError
from rheos.testing import Faults, simulate
from tests.connectors.ports import batch_of
from tests.connectors.sqs.test_sink import SCHEMA, rows, write
from tests.connectors.sqs.test_source import running
from tests.waiting import wait_for

SLOW = "an emulator takes some 6 s of processor time"
AT_ROW: dict[int, Callable[[], None]] = {}
"""Actions by the number of a row: the job runs each once, when it reaches the row."""
pytestmark = pytest.mark.slow


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


@pytest.fixture
def given(aws_emulator: Any) -> dict[str, Any]:
    return {**aws_emulator.arguments, "format": rh.formats.json()}


class Queues:
    """The emulator's queues by a client of its own."""

    def __init__(self, arguments: Any) -> None:
        self._client = boto3.client(
            "sqs",
            region_name=arguments["region"],
            endpoint_url=arguments["endpoint"],
            **arguments["options"],
        )

    def create(self, *, fifo: bool = False) -> str:
        name = f"q{uuid.uuid4().hex[:10]}" + (".fifo" if fifo else "")
        attributes = {"FifoQueue": "true"} if fifo else {}
        self._client.create_queue(QueueName=name, Attributes=attributes)
        return name

    def _url(self, name: str) -> str:
        return str(self._client.get_queue_url(QueueName=name)["QueueUrl"])

    def counts(self, name: str) -> tuple[int, int]:
        """Return the numbers of visible and of hidden messages."""
        asked = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
        found = self._client.get_queue_attributes(QueueUrl=self._url(name), AttributeNames=[*asked])
        visible, hidden = (int(found["Attributes"][each]) for each in asked)
        return visible, hidden

    def taken(self, name: str) -> list[Any]:
        found: list[Any] = []
        url = self._url(name)
        while True:
            got = self._client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
            if not got.get("Messages"):
                return found
            for message in got["Messages"]:
                found.append(json.loads(message["Body"]))
                self._client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.fixture
def queues(aws_emulator: Any) -> Queues:
    return Queues(aws_emulator.arguments)


def test_messages_are_sent_read_and_deleted(queues: Queues, given: dict[str, Any]) -> None:
    name = queues.create()
    write(rh.sqs.sink(name, attributes=["k"], value="n", **given), rows(*range(35)))
    metadata = {"attribute.k": "k", "receive_count": "times", "group": "group"}
    source = rh.sqs.source(name, schema={"n": int}, metadata=metadata, **given)
    with running(source) as job:
        for row in job.rows(20):
            assert row == {"n": row["n"], "k": f"k{row['n'] % 3}", "times": 1, "group": None}
        job.checkpoint()
        wait_for(lambda: sum(queues.counts(name)) == 15, 60)
    assert queues.counts(name) == (15, 0)
    with pytest.raises(InputError, match="create it first"):
        write(rh.sqs.sink(f"{name}-none", **given), rows(1))
    with pytest.raises(InputError, match="1048576"):
        write(rh.sqs.sink(name, **given), batch_of(SCHEMA, {"k": "x" * (2 << 20), "n": 1}))


def test_groups_of_a_fifo_queue(queues: Queues, given: dict[str, Any]) -> None:
    name = queues.create(fifo=True)
    write(rh.sqs.sink(name, group="{k}", deduplication="{n}", **given), rows(*range(12), *range(12)))
    source = rh.sqs.source(name, schema={"n": int}, metadata={"group": "k"}, **given)
    found: list[Any] = []
    with running(source) as job:
        while len(found) < 12:
            found += job.rows(1)
            job.checkpoint()
        wait_for(lambda: sum(queues.counts(name)) == 0, 60)
    for k in range(3):
        assert [row["n"] for row in found if row["k"] == f"k{k}"] == [*range(k, 12, 3)]


@pytest.mark.proves(
    "SQS",
    faults=["the server freezes while a job writes", "workers of a simulated job crash"],
    slow_because=SLOW,
)
def test_rows_arrive_once_after_any_crash(
    aws_emulator: Any, queues: Queues, given: dict[str, Any]
) -> None:
    name = queues.create(fifo=True)
    AT_ROW.update({30: aws_emulator.freeze, 50: aws_emulator.thaw})

    def build(env: rh.Environment) -> rh.DataStream:
        made = [{"k": f"k{n % 3}", "n": n} for n in range(60)]
        found = env.from_source(rh.collection(made, schema=SCHEMA)).map(passed, returns=SCHEMA)
        found.sink_to(rh.sqs.sink(name, group="{k}", delivery="effectively_once", **given))
        return found

    done = simulate(build, seed=1, faults=Faults(crash_slot=40.0, commit_error=0.2), parallelism=2)
    assert done.crashes > 0
    assert not AT_ROW
    assert sorted(row["n"] for row in queues.taken(name)) == [*range(60)]
