"""The page in a real browser: a job is watched while a worker is killed, and stopped with a savepoint.

Needs `pip install playwright` and a Chromium of the system, so this is a slow test."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.ops.dashboard.conftest import sign_in
from tests.processes import Started
from tests.waiting import wait_for

JOB = """
import pyarrow as pa

import rheos as rh


def numbers(block: rh.Block) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(block.start, block.start + block.rows))})


env = rh.Environment(2, checkpoint_interval="500ms", checkpoint_dir=CHECKPOINTS)
schema = pa.schema([("n", pa.int64())])
source = rh.generator(numbers, rate_per_s=2000, splits=2, schema=schema)
by_digit = env.from_source(source, name="numbers").select(d=rh.col("n") % 10).key_by("d")
by_digit.running(n=rh.agg.count()).sink_to(rh.files.sink(OUT, format="parquet"))
env.execute("digits")
"""


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_a_job_is_watched_and_stopped_through_the_page(
    tmp_path: Path, started: Started, page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    places = {"CHECKPOINTS": str(tmp_path / "checkpoints"), "OUT": str(tmp_path / "out")}
    job = tmp_path / "job.py"
    job.write_text("".join(f"{name} = {place!r}\n" for name, place in places.items()) + JOB)
    driver = started.python("-m", "rheos", "run", str(job), "--dashboard")
    sign_in(page, lambda: started.output(driver))
    page.click("text=digits")
    page.wait_for_selector(".state.running")
    page.wait_for_selector("svg [data-operator]")
    wait_for(lambda: int(fact(page, "checkpoints") or 0) > 1)

    started.processes.look()
    started.processes.slots()[0].send_signal(signal.SIGKILL)
    wait_for(lambda: fact(page, "restarts") == "1")
    page.wait_for_selector(".state.running")
    assert "a worker process ended" in page.inner_text(".failure")

    page.locator("svg [data-operator]").first.press("Enter")
    page.wait_for_selector(f".panel code:has-text('{job.name}:16')")
    tab(page, "Settings")
    page.wait_for_selector("code:has-text('checkpoint')")
    tab(page, "Overview")

    page.click("button:text-is('Profile a subtask')")
    page.fill("dialog input[name=subtask]", "1")
    page.fill("dialog input[name=seconds]", "1")
    page.click("dialog button[type=submit]")
    page.wait_for_selector(".flame .frame text:has-text('_loop (worker.py')")
    frames = page.locator(".flame .frame").count()
    page.locator(".flame .frame").nth(frames - 1).press("Enter")
    assert page.locator(".flame .frame").count() < frames
    if picture := os.environ.get("RHEOS_SCREENSHOT"):
        page.click("button:text-is('Show all')")
        page.screenshot(path=picture)
    page.click("dialog button:text-is('Close')")

    page.click("button:text-is('Rescale')")
    page.fill("dialog input[name=parallelism]", "1")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("#notice:has-text('runs with parallelism 1')")
    wait_for(lambda: fact(page, "parallelism") == "1")
    assert fact(page, "restarts") == "1"

    page.click("button:text('Stop with a savepoint')")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("#notice:has-text('Savepoint: ')")
    savepoint = Path(page.inner_text("#notice").removeprefix("Savepoint: "))
    assert driver.wait(60) == 0, started.output(driver)
    assert savepoint.is_relative_to(tmp_path / "checkpoints")
    assert any(savepoint.iterdir())


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def fact(page: Any, name: str) -> str | None:
    """Return the text below this heading."""
    found = page.locator(".facts div", has=page.locator(f"dt:text-is('{name}')")).locator("dd")
    return str(found.inner_text()) if found.count() else None
