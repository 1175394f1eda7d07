"""A dashboard over a stand-in for a job, with a registry of the test's own."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra rheos[dashboard] is not installed")

from starlette.testclient import TestClient

from rheos.core.protocol.ids import JobId
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.job_logs import LogFile
from rheos.ops.dashboard.access import Access, Audit, Holder
from rheos.ops.dashboard.app import Dashboard
from rheos.ops.dashboard.feeds import Feeds
from rheos.ops.dashboard.served_jobs import ServedJobs
from rheos.runtimes.job import JobConfig
from rheos.runtimes.operation_contract import Role
from tests.cli.stand_ins import StandIn, outline
from tests.processes import Started
from tests.waiting import wait_for

OPERATOR = "a token that may operate"
VIEWER = "a token that may look"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    made = StandIn()
    made.allowed.set()
    config = JobConfig(
        job=JobId("job"), checkpoint_dir="/data", settings=(("state.backend", "memory"),)
    )
    log = LogFile(config.key, config.job)
    controlled = ControlledJob(made, outline(), config, "continuous", log=log)
    yield made
    made.over.set()
    controlled.wait()


class Asking:
    """Client that sends requests to a dashboard with a token."""

    def __init__(self, client: TestClient, audit: Path) -> None:
        self.client = client
        self._audit = audit

    def get(self, path: str, token: str = VIEWER) -> Any:
        answer = self.client.get(f"/api/v1{path}", headers=_bearer(token))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, token: str = OPERATOR) -> tuple[int, Any]:
        answer = self.client.post(f"/api/v1{path}", json=body, headers=_bearer(token))
        return answer.status_code, answer.json()

    def refused(self, path: str, token: str = VIEWER) -> tuple[int, str]:
        answer = self.client.get(f"/api/v1{path}", headers=_bearer(token))
        return answer.status_code, answer.json()["what"]

    def key(self) -> str:
        (found,) = [job["key"] for job in self.get("/jobs") if job["runs"]]
        return str(found)

    def audited(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self._audit.read_text().splitlines()]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a checkpoint directory that the dashboard serves, too."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


@pytest.fixture
def asking(job: StandIn, stored: Path, tmp_path: Path) -> Iterator[Asking]:
    holders = [Holder("oncall", Role.OPERATE, OPERATOR), Holder("wall", Role.LOOK, VIEWER)]
    audit = Audit(tmp_path / "audit.jsonl")
    dashboard = Dashboard(
        ServedJobs([str(stored)]), Access(holders), audit, ["127.0.0.1"], Feeds(every_s=0.01)
    )
    with TestClient(dashboard.app, "http://127.0.0.1", raise_server_exceptions=False) as client:
        yield Asking(client, audit.path)
    audit.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    made = Started(tmp_path)
    yield made
    made.end()


def sign_in(page: Any, output: Callable[[], str]) -> None:
    """Open the dashboard that printed this output, with the token of the file that the output names."""
    said = wait_for(lambda: re.search(r"is at (http://\S+), and its token in (\S+)", output()))
    assert said is not None
    page.goto(said[1])
    page.fill("input[name=token]", Path(said[2]).read_text().strip())
    page.click("form.token button")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(60_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        yield page
        browser.close()
        assert problems == []
