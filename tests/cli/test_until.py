"""`rheos run --until now` reads what exists now, and the next run continues from there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.api.overrides import Overrides, applied
from rheos.cli.main import app
from rheos.core.errors import ConfigurationError


@dataclass
class Order:
    user: str
    at: int


PROGRAM = """
from dataclasses import dataclass

import rheos as rh


@dataclass
class Order:
    user: str
    at: int


env = rh.Environment(parallelism=2)
orders = env.from_source(
    rh.files.source("in/*.jsonl", schema=Order, discover="1s"),
    rh.Watermark.monotonic(on="at", unit="ms"),
)
keyed = orders.key_by("user")
keyed.running(n=rh.agg.count()).sink_to(rh.files.sink("counts", format="jsonl"))
windows = keyed.window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())
windows.sink_to(rh.files.sink("windows", format="jsonl"))
env.execute("orders")
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    file = tmp_path / "job.py"
    file.write_text(PROGRAM)
    return file


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"runtime": "continuous"},
            "--until now resumes from the last run, but no checkpoint directory is configured",
        ),
        (
            {"runtime": "simulated", "checkpoint_dir": "kept"},
            "--until now resumes from the last run, but a simulated job stores no checkpoints",
        ),
    ],
)
def test_missing_requirements_are_reported_at_their_line(
    job: Path, settings: dict[str, Any], says: str
) -> None:
    env = rh.Environment(parallelism=1, **settings)
    orders = rh.files.source("in/*.jsonl", schema=Order, discover="1s")
    env.from_source(orders).collect("orders")
    with (
        applied(Overrides(until_now=True)),
        pytest.raises(ConfigurationError, match=r"test_until\.py:\d+: --until now resumes") as error,
    ):
        env.execute("orders")
    assert says in str(error.value)


def test_other_values_than_now_are_refused(job: Path) -> None:
    done = CliRunner().invoke(app, ["run", "--until", "tomorrow", str(job)])
    assert done.exit_code == 2
    assert "tomorrow" in done.output


def written(folder: str) -> list[tuple[str, int]]:
    lines = [line for file in Path(folder).glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted((row["user"], row["n"]) for row in map(json.loads, lines))


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_each_run_continues_the_last_and_windows_stay_open(job: Path) -> None:
    def run_with(name: str, *orders: tuple[str, int]) -> str:
        lines = [json.dumps({"user": user, "at": at}) for user, at in orders]
        Path(f"in/{name}.jsonl").write_text("\n".join(lines) + "\n")
        command = [str(Path(sys.executable).parent / "rheos"), "run", "--until", "now", str(job)]
        done = subprocess.run(
            [*command, "--checkpoint-dir", "kept"], capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    run_with("1", ("ada", 1), ("ada", 5))
    assert (written("counts"), written("windows")) == ([("ada", 1), ("ada", 2)], [])
    run_with("2", ("ada", 7), ("ada", 25))
    assert written("counts") == [("ada", n) for n in (1, 2, 3, 4)]
    assert written("windows") == [("ada", 3)]
