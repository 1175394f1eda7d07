"""`rheos run --runtime simulated --for`: an unbounded source, for a length of virtual time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.cli.main import app

PROGRAM = """
from dataclasses import dataclass

import rheos as rh


@dataclass
class Tick:
    n: int
    at: int


def ticks(block):
    n = block.number()
    return {"n": n, "at": 1_767_268_800_000 + n * 100}


env = rh.Environment(parallelism=2)
made = rh.generator(ticks, rate_per_s=10, splits=1, schema=Tick)
stream = env.from_source(made, rh.Watermark.monotonic(on="at", unit="ms"))
counts = stream.with_columns(all=rh.lit(1)).key_by("all").window(rh.Tumbling("10s"))
counts = counts.aggregate(n=rh.agg.count(), last=rh.agg.max("n"))
counts.sink_to(rh.files.sink("counts", format="jsonl"))
env.execute()
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "job.py"
    file.write_text(PROGRAM)
    return file


def test_the_input_ends_after_that_time_and_windows_fire(job: Path) -> None:
    done = CliRunner().invoke(app, ["run", "--runtime", "simulated", "--for", "1m", str(job)])
    assert done.exit_code == 0, done.output
    lines = [line for file in Path("counts").glob("*.jsonl") for line in file.read_text().splitlines()]
    rows = sorted((json.loads(line) for line in lines), key=lambda row: row["window_start"])
    assert [row["n"] for row in rows[:6]] == [100] * 6
    assert rows[-1]["last"] + 1 == sum(row["n"] for row in rows)
    assert 590 <= rows[-1]["last"] < 620


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--for", "1m"], "--for is a length of virtual time; the continuous runtime uses real time"),
        (["--runtime", "simulated", "--for", "soon"], "'soon' is not a duration"),
    ],
)
def test_invalid_uses_are_refused(job: Path, arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["run", *arguments, str(job)])
    assert done.exit_code != 0
    assert says in " ".join(done.output.replace("│", " ").split())
