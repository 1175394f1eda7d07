"""The programs of docs/web.md, with other ports. Real lines and requests reach simulated jobs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rheos.ops.servers.server import free_port
from tests.connectors.http.requests import WITHIN_S, Asking
from tests.connectors.http.test_sink import Reader
from tests.connectors.test_socket import serving
from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "web.md"


def started(file: str, ports: Mapping[str, str]) -> Any:
    """Start the job of a program. Its virtual time passes only while the test waits."""
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    for written, free in ports.items():
        code = code.replace(written, free)
    code = code.replace("env.execute(", "job = env.execute_async(")
    code = code.replace("rh.Environment(", 'rh.Environment(runtime="simulated", ')
    names: dict[str, Any] = {}
    exec(compile(code, file, "exec"), names)
    return names["job"]


def run_until(job: Any, reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not reached():
        assert time.monotonic() < deadline_s, "it did not happen"
        job.world.run_until(reached)


def listens(port: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(port)), WITHIN_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_lines_with_errors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def is_printed() -> bool:
        printed.append(capsys.readouterr().out)
        return "ERROR: no paper" in "".join(printed)

    with serving(b"all is well\nERROR: no paper\n") as lines:
        job = started("errors.py", {"9999": lines.address.split(":")[1]})
        run_until(job, is_printed)
        job.cancel()
    assert "all is well" not in "".join(printed)


def test_orders_are_answered_and_their_sums_shown() -> None:
    orders, view = str(free_port()), str(free_port())
    job = started("spent.py", {"8080": orders, "8081": view})
    run_until(job, lambda: listens(orders) and listens(view))
    for amount in (3, 4):
        sender = Asking(f"127.0.0.1:{orders}", "/orders", f'{{"user": "ada", "amount": {amount}}}')
        run_until(job, lambda sender=sender: sender.is_done)
        assert sender.answer().content == {"rows": 1, "duplicate": False}
    reader = Reader(f"127.0.0.1:{view}")
    rows = [json.loads(event["data"]) for event in reader.events(2)]
    reader.close()
    job.cancel()
    assert rows == [{"user": "ada", "amount": 3}, {"user": "ada", "amount": 7}]
