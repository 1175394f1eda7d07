"""The programs of docs/pulsar.md, with another address of the server and a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.pulsar.conftest import Topics
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "pulsar.md"
ORDERS = [
    {"id": 1, "country": "uk", "paid": True},
    {"id": 2, "country": "de", "paid": False},
    {"id": 3, "country": "de", "paid": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["paid.py", "paid.sql"])
def test_paid_orders_are_published(pulsar_server: Any, file: str) -> None:
    topics = Topics(pulsar_server)
    topics.admin("DELETE", "persistent/public/default/orders?force=true", missing=True)
    topics.admin("DELETE", "persistent/public/default/paid?force=true", missing=True)
    topics.put("orders", *ORDERS, partition_key="berlin")
    if file == "paid.py":
        [code] = [step.code for step in steps(PAGE) if step.file == file]
        assert len(code.splitlines()) <= 20
        token = f", options={topics.options!r}"
        code = code.replace("        URL,\n", f"        URL{token},\n").replace(
            '(URL, topic="paid"', f'(URL{token}, topic="paid"'
        )
        code = code.replace("pulsar://localhost:6650", pulsar_server.url)
        exec(compile(code, file, "exec"), {})
        more = {"paid": True, "shop": "berlin"}
    else:
        code = script().replace(
            "'connector'", f"'options.token' = '{topics.options['token']}', 'connector'"
        )
        code = code.replace("pulsar://localhost:6650", pulsar_server.url)
        env = rh.Environment(parallelism=1, runtime="simulated")
        env.sql_script(code)
        env.execute("paid orders")
        more = {}
    found = [(message.partition_key(), payload) for message, payload in topics.decoded("paid")]
    topics.close()
    assert found == [
        ("uk", {"id": 1, "country": "uk", **more}),
        ("de", {"id": 3, "country": "de", **more}),
    ]


def script() -> str:
    [_, code] = PAGE.read_text().split("```sql\n")
    return code.partition("```")[0]


def test_the_script_is_planned() -> None:
    env = rh.Environment(runtime="simulated")
    env.sql_script(script())
    assert "Pulsar topics orders" in str(env.explain())
