"""A night on call, as in docs/drill.md: the page alone shows what goes wrong.

A real job in a real Chromium. tests/runtimes/health/test_kinds.py tests each cause without them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rheos.ops.control.registry import Registry
from tests.ops.chaos.torn import faults_of
from tests.ops.dashboard.conftest import sign_in
from tests.ops.dashboard.test_page import fact, tab
from tests.processes import Started
from tests.waiting import wait_for


class OnCall:
    """Person on call, who sees only the page."""

    def __init__(self, page: Any, faults: Path) -> None:
        self.page = page
        self._faults = faults

    @contextmanager
    def going_wrong(self, fault: str) -> Iterator[None]:
        (self._faults / fault).touch()
        yield
        if shown := os.environ.get("RHEOS_SCREENSHOTS"):
            self.page.screenshot(path=f"{shown}/{fault}.png", full_page=True)
        (self._faults / fault).unlink()

    def reads(self, kind: str, *texts: str) -> None:
        """Wait for a finding of this kind that contains these texts."""
        for text in texts:
            self.page.wait_for_selector(f".finding.{kind}:has-text({text!r})")

    def is_calm(self, *kinds: str) -> None:
        wait_for(lambda: not any(self.page.locator(f".finding.{kind}").count() for kind in kinds))


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_a_night_on_call(
    tmp_path: Path,
    started: Started,
    page: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    page.set_default_timeout(180_000)
    faults = faults_of(tmp_path / "checkpoints")
    faults.mkdir()
    driver = started.python("-m", "tests.ops.dashboard.drill", str(tmp_path))
    dashboard = started.python("-m", "rheos", "dashboard", "--port", "0")
    wait_for(lambda: Registry().records() or driver.poll())
    assert driver.poll() is None, started.output(driver)
    sign_in(page, lambda: started.output(dashboard))
    page.click("text=drill")
    page.wait_for_selector(".state.running")
    on_call = OnCall(page, faults)
    wait_for(lambda: int((fact(page, "checkpoints") or "0").split()[0]) > 1)

    with on_call.going_wrong("slow-sink"):
        on_call.reads("backpressure", "per user", "holds up what is upstream of it")
        page.click("button:text-is('Profile a subtask')")
        page.fill("dialog input[name=seconds]", "3")
        page.click("dialog button[type=submit]")
        page.wait_for_selector(".flame .frame text:has-text('write (drill.py')")
        page.click("dialog button:text-is('Close')")
    on_call.is_calm("backpressure")

    with on_call.going_wrong("hot-key"):
        on_call.reads("skew", "of the rows by user", "have most rows")
        page.click(".finding.skew a")
        page.wait_for_selector(".panel h2:has-text('per user')")
        tab(page, "Overview")
    on_call.is_calm("skew", "backpressure")

    with on_call.going_wrong("stuck-partition"):
        on_call.reads("watermark", "of 'orders'", "holds the watermark")
    on_call.is_calm("watermark")

    with on_call.going_wrong("full"):
        page.wait_for_selector(".finding:has-text('No space left on device')")
    on_call.is_calm("checkpoints")

    with on_call.going_wrong("poisoned-record"):
        on_call.reads("restarts", "ValueError: an order without a price", "drill.py:")
        wait_for(lambda: "'n':" in page.inner_text(".failure") or "n=" in page.inner_text(".failure"))
    page.wait_for_selector(".state.running")

    started.processes.look()
    restarts = int(fact(page, "restarts") or 0)
    started.processes.slots()[0].send_signal(signal.SIGKILL)
    wait_for(lambda: int(fact(page, "restarts") or 0) > restarts)
    on_call.reads("restarts", "a worker process ended")
    page.wait_for_selector(".state.running")

    tab(page, "Logs")
    page.wait_for_selector("pre:has-text(\"the job 'drill' restarts\")")
    page.click("button:text('Cancel the job')")
    page.click("dialog button[type=submit]")
    wait_for(lambda: driver.poll() is not None)
