"""The programs of docs/nats.md, with another address of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.nats.conftest import Streams
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "nats.md"
ORDERS = [
    {"id": 1, "country": "uk", "paid": True},
    {"id": 2, "country": "de", "paid": False},
    {"id": 3, "country": "de", "paid": True},
]


@pytest.fixture
def streams(nats_server: Any) -> Iterator[Streams]:
    client = Streams(nats_server.url)
    for name, subject in (("ORDERS", "orders"), ("PAID", "paid")):
        client.create(name, [f"{subject}.>"])
    client.put("orders.berlin", *ORDERS)
    yield client
    for name in ("ORDERS", "PAID"):
        client.delete(name)
    client.close()


@pytest.mark.parametrize("file", ["paid.py", "paid.sql"])
def test_paid_orders_are_published(nats_server: Any, streams: Streams, file: str) -> None:
    if file == "paid.py":
        [code] = [step.code for step in steps(PAGE) if step.file == file]
    else:
        [_, code] = PAGE.read_text().split("```sql\n")
        code = code.partition("```")[0]
    code = code.replace("nats://localhost:4222", nats_server.url)
    if file == "paid.py":
        assert len(code.splitlines()) <= 20
        exec(compile(code, file, "exec"), {})
        more = {"paid": True, "shop": "orders.berlin"}
    else:
        env = rh.Environment(parallelism=1, runtime="simulated")
        env.sql_script(code)
        env.execute("paid orders")
        more = {}
    assert streams.messages("PAID") == [
        ("paid.uk", {"id": 1, "country": "uk", **more}),
        ("paid.de", {"id": 3, "country": "de", **more}),
    ]
