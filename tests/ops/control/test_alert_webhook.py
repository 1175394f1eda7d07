"""Alerts posted to a receiver that accepts, refuses or redirects them, or is slow."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from rheos.core.errors import JobFailedError
from rheos.core.metrics.health import FindingKind, HealthState, Severity, simple_health
from rheos.core.protocol.ids import JobId
from rheos.ops.control import alert_webhook
from rheos.ops.control.alert_webhook import AlertWebhook, post_json
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.runtimes.job import AlertConfig, JobConfig, JobState
from tests.cli.stand_ins import STATUS, StandIn, outline

JOB = {"key": "k1", "job": "orders", "name": "orders", "host": "a"}
STUCK = simple_health(
    Severity.STUCK,
    50_000,
    kind=FindingKind.SERVER,
    what="no answer: https://user:secret@kafka/a?token=abc",
    what_to_do="start it",
    since_ms=1_000,
)
ADDRESS = "https://hooks.example.com/services/SECRET"


class Clock:
    now_s = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_us(self) -> int:
        return int(self.now_s * 1e6)


class Receiver:
    """Receiver that records posts, and answers as the test specifies."""

    def __init__(self) -> None:
        self.answers: list[int | OSError] = []
        self.posted: list[dict[str, Any]] = []

    def __call__(self, url: str, body: bytes) -> int:
        assert url == ADDRESS
        self.posted.append(json.loads(body))
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, OSError):
            raise answer
        return answer


class World:
    def __init__(self) -> None:
        self.clock, self.receiver = Clock(), Receiver()
        self.status = replace(STATUS, health=simple_health(None, 0))
        self.webhook = AlertWebhook(
            AlertConfig(ADDRESS), JOB, lambda: self.status, self.clock, self.receiver
        )

    def looks(self, for_s: int) -> None:
        for _ in range(for_s):
            self.webhook.look()
            self.clock.now_s += 1

    @property
    def statuses(self) -> list[str]:
        return [each["status"] for each in self.receiver.posted]


def test_firing_and_resolved_alerts_are_posted_without_secrets() -> None:
    world = World()
    world.looks(20)
    world.status = replace(world.status, health=STUCK)
    world.looks(30)
    world.status = replace(world.status, health=simple_health(None, 90_000))
    world.looks(30)
    assert world.statuses == ["firing", "resolved"]
    firing, resolved = world.receiver.posted
    assert firing["health"]["state"] == "stuck"
    assert firing["health"]["findings"][0]["what"] == "no answer: https://***@kafka/a?token=***"
    assert firing["text"].startswith("Rheos job 'orders': stuck since 1970-01-01T00:00:01.000Z: no")
    assert {"key": "k1", "job": "orders", "host": "a", "form": 1}.items() <= firing.items()
    assert "secret" not in json.dumps(world.receiver.posted)
    assert (resolved["before"], resolved["health"]["state"]) == ("stuck", "healthy")


def test_failed_posts_are_retried_and_refused_posts_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.status = replace(world.status, health=STUCK)
    world.receiver.answers = [ConnectionRefusedError(ADDRESS), 503, 429]
    with caplog.at_level(logging.WARNING, "rheos.alerts"):
        world.looks(30)
    assert world.statuses == ["firing"] * 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    world = World()
    world.status = replace(world.status, health=STUCK)
    world.receiver.answers = [404]
    with caplog.at_level(logging.WARNING, "rheos.alerts"):
        world.looks(60)
    assert world.statuses == ["firing"]
    assert "https://hooks.example.com/***" in caplog.text
    assert "SECRET" not in caplog.text


def test_the_newest_alert_replaces_one_that_is_not_delivered() -> None:
    world = World()
    world.status = replace(world.status, health=STUCK)
    world.receiver.answers = [TimeoutError()] * 5
    world.looks(20)
    world.status = replace(world.status, health=simple_health(None, 90_000))
    world.looks(60)
    assert world.statuses[-1] == "resolved"
    assert world.statuses.count("resolved") == 1
    assert len(world.statuses) == 6


def test_an_undeliverable_alert_is_dropped_after_some_time() -> None:
    world = World()
    world.status = replace(world.status, health=STUCK)
    world.receiver.answers = [TimeoutError()] * 1000
    world.looks(alert_webhook.RETRY_FOR_S + 200)
    tries = len(world.receiver.posted)
    assert 60 < tries < 90
    world.looks(200)
    assert len(world.receiver.posted) == tries


def test_a_job_that_fails_posts_a_last_alert(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    receiver = Receiver()
    monkeypatch.setattr(alert_webhook, "post_json", receiver)
    job = StandIn()
    config = JobConfig(JobId("job"), alerts=AlertConfig(ADDRESS))
    controlled = ControlledJob(job, outline(), config, "continuous")
    job.shown = replace(job.shown, state=JobState.FAILED, failure="job.py:7: no price")
    job.failure = JobFailedError("no price")
    job.over.set()
    with pytest.raises(JobFailedError):
        controlled.wait()
    (posted,) = receiver.posted
    assert (posted["status"], posted["health"]["state"]) == ("firing", "failing")
    assert "job.py:7: no price" in posted["text"]


def test_the_representation_of_an_address_shows_only_its_host() -> None:
    config = JobConfig(JobId("job"), alerts=AlertConfig(ADDRESS, HealthState.FAILING))
    assert "alerts=https://hooks.example.com/***, from failing on" in repr(config)


class Handler(BaseHTTPRequestHandler):
    received: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, body))
        self.send_response({"/": 204, "/moved": 302, "/refused": 403}[self.path])
        if self.path == "/moved":
            self.send_header("Location", "/")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    Handler.received = []
    made = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=made.serve_forever, daemon=True)
    serving.start()
    yield made
    made.shutdown()
    made.server_close()
    serving.join()


def test_redirects_are_not_followed(server: HTTPServer) -> None:
    at = f"http://127.0.0.1:{server.server_port}"
    assert post_json(f"{at}/", b"{}") == 204
    assert post_json(f"{at}/moved", b"{}") == 302
    assert post_json(f"{at}/refused", b"{}") == 403
    assert Handler.received == [("/", b"{}"), ("/moved", b"{}"), ("/refused", b"{}")]
