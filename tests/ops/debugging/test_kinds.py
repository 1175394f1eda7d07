"""Operators of all kinds are replayed: the final state equals that of the job."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from random import Random

import pytest

import rheos as rh
from rheos.ops.debugging.key_replay import StepKind
from tests.ops.debugging.jobs import run_job

HEAD = """
import os
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh


@dataclass
class Click:
    user: str
    n: int
    at: int


def seen(click: Click) -> bool:
    if log := os.environ.get("SEEN"):
        with open(log, "a") as file:
            file.write(click.user + "\\n")
    return True


class Sum(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Click]:
        self.n.value += click.n
        ctx.timers.register(ctx.timestamp + 7)
        yield Click(click.user, self.n.value, click.at)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Click]:
        self.n.value -= 1
        return iter(())


class Both(rh.KeyedCoProcessFunction):
    n = rh.MapState(str, int)

    def process_element1(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Click]:
        self.n["left"] = self.n.get("left", 0) + click.n
        yield click

    def process_element2(self, click: Click, ctx: rh.KeyedContext) -> Iterator[Click]:
        self.n["right"] = self.n.get("right", 0) + click.n
        yield click


env = rh.Environment(parallelism=2)
clicks = env.from_source(
    rh.files.source("in/*.jsonl", schema=Click, discover="1s"),
    rh.Watermark.bounded_out_of_orderness("2ms", on="at", unit="ms"), name="clicks", uid="clicks",
)
keyed = clicks.filter(rh.col("n") > 0).key_by("user")
"""
TAIL = """
made.uid("debugged").sink_to(rh.print_sink(), uid="out")
env.execute("orders")
"""
KINDS = {
    "by event time": 'made = keyed.process(Sum(), order="event_time")',
    "a compiled function": "made = keyed.process(rh.compiled(fallback='interpret')(Sum)())",
    "running": "made = keyed.running(n=rh.agg.sum('n'), most=rh.agg.max('n'))",
    "values of a table": "made = keyed.table(n=rh.agg.count(), of=rh.agg.count_distinct('n'))",
    "reduce": "made = keyed.reduce(lambda a, b: Click(a.user, a.n + b.n, b.at))",
    "sliding windows": "made = keyed.window(rh.Sliding('20ms', '10ms')).aggregate(n=rh.agg.sum('n'))",
    "sessions": "made = keyed.window(rh.Session('5ms')).aggregate(n=rh.agg.count())",
    "behind another key": "made = keyed.process(Sum()).uid('first').key_by('user').process(Sum())",
    "two inputs": "made = keyed.connect(clicks.filter(rh.col('n') > 3).key_by('user')).process(Both())",
}


@pytest.fixture
def clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    Path("in").mkdir()
    rng = Random(5)
    rows = [
        {"user": rng.choice("ab"), "n": rng.randrange(0, 9), "at": 20 + 2 * i - rng.randrange(0, 3)}
        for i in range(30)
    ]
    Path("in/1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def ran(program: str) -> list[int]:
    Path("job.py").write_text(program)
    with contextlib.redirect_stdout(io.StringIO()):
        return run_job(interval_ms=90)


def debugged(first: int, last: int | None) -> rh.Debugged:
    return rh.debug(
        "orders",
        "a",
        operator="debugged",
        from_checkpoint=first,
        until=last,
        checkpoint_dir="kept",
        against="job.py",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_final_state_equals_that_of_the_job(clicks: list[object], kind: str) -> None:
    first, *_, last = ran(HEAD + KINDS[kind] + TAIL)
    found = debugged(first, last)
    steps = list(found)
    assert found.deviation == ()
    assert found.unread == []
    assert found.rows > 3
    rows = [step for step in steps if step.kind is StepKind.ROW]
    assert any(step.changes for step in steps)
    if found.inputs == 2:
        assert {step.port for step in rows} == {0, 1}


def test_rows_of_other_keys_are_dropped_after_the_source(
    clicks: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The filter's function is between source and key, and is called only for rows of the key.
    program = HEAD.replace("clicks.filter(rh.col", "clicks.filter(seen).filter(rh.col")
    first, *_, last = ran(program + "made = keyed.process(Sum())" + TAIL)
    monkeypatch.setenv("SEEN", str(Path("seen").absolute()))
    found = debugged(first, last)
    list(found)
    assert found.deviation == ()
    assert set(Path("seen").read_text().split()) == {"a"}
    assert found.rows_read["clicks"] > found.rows


def test_rows_are_filtered_by_a_computed_key_at_the_operator(
    clicks: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = HEAD.replace(
        "clicks.filter(rh.col", "clicks.filter(seen).with_columns(user=rh.col('user')).filter(rh.col"
    ).replace("user=rh.col('user')", "user=rh.col('user').str.to_lowercase()")
    first, *_, last = ran(program + "made = keyed.running(n=rh.agg.count())" + TAIL)
    monkeypatch.setenv("SEEN", str(Path("seen").absolute()))
    found = debugged(first, last)
    list(found)
    assert found.deviation == ()
    assert set(Path("seen").read_text().split()) == {"a", "b"}
