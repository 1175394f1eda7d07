"""Real workers are killed during calls of a real HTTP server, which has acted and not answered yet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import polars as pl
import pytest

import rheos as rh

ROWS = 600
KILLED_AT = (40, 200)
"""Numbers of the requests during which the calling worker is killed."""


class Payments:
    """A payment system that charges a request once for each idempotency key."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.kills = 0
        self._lock = Lock()
        payments = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                key = self.headers["Idempotency-Key"]
                if payments.charge(key):
                    os.kill(int(self.headers["Worker"]), signal.SIGKILL)
                    return
                body = json.dumps({"id": key, "receipt": f"r{key}"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def charge(self, key: str) -> bool:
        """Charge the key. Return whether the caller is to be killed before it gets an answer."""
        with self._lock:
            self.requests[key] += 1
            kills = self.kills < len(KILLED_AT) and self.requests.total() >= KILLED_AT[self.kills]
            self.kills += kills
            return kills


@pytest.fixture
def payments() -> Iterator[Payments]:
    system = Payments()
    thread = Thread(target=system.server.serve_forever, daemon=True)
    thread.start()
    yield system
    system.server.shutdown()
    system.server.server_close()
    thread.join()


def charging(url: str) -> Any:
    def post(key: str) -> dict[str, str]:
        headers = {"Idempotency-Key": key, "Worker": str(os.getpid())}
        request = urllib.request.Request(url, b"", headers, method="POST")
        with urllib.request.urlopen(request, timeout=5) as answer:
            found: dict[str, str] = json.load(answer)
        return found

    async def charge(payment: Any) -> dict[str, str]:
        return await asyncio.to_thread(post, payment.id)

    return charge


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("in_doubt", ["call", "divert"])
def test_a_worker_killed_during_calls_neither_loses_nor_repeats_one(
    spark: Any, tmp_path: Path, payments: Payments, in_doubt: Any
) -> None:
    env = rh.Environment(2, runtime="continuous", spark=spark, checkpoint_interval="200ms")
    source = rh.generator(
        lambda block: {"id": [str(n) for n in block.number()]}, count=ROWS, rate_per_s=200, splits=2
    )
    receipts = (
        env.from_source(source)
        .key_by("id")
        .call_once(charging(payments.url), {"id": str, "receipt": str}, in_doubt=in_doubt, capacity=8)
    )
    receipts.sink_to(rh.files.sink(tmp_path / "receipts"))
    if in_doubt == "divert":
        receipts.side_output("in_doubt").sink_to(rh.files.sink(tmp_path / "in_doubt"))
    result = env.execute_async("charges").wait(400)
    assert result.status.restarts == payments.kills == len(KILLED_AT)
    found = pl.read_parquet(tmp_path / "receipts" / "*.parquet")
    assert (found["receipt"] == "r" + found["id"]).all()
    answered = found["id"].to_list()
    everything = sorted(map(str, range(ROWS)))
    if in_doubt == "call":
        assert sorted(answered) == everything
        assert set(payments.requests) == set(everything)
        assert payments.requests.total() > ROWS
    else:
        doubtful = pl.read_parquet(tmp_path / "in_doubt" / "*.parquet")["id"].to_list()
        assert sorted([*answered, *doubtful]) == everything
        assert doubtful
        assert set(payments.requests.values()) == {1}
