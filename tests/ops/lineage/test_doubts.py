"""If the exact input rows are unknown, all possible ones are named, with a doubt; state from the
checkpoint is mentioned, too."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import rheos as rh
from tests.ops.forks.stopped_job import stopped, write_input
from tests.ops.lineage.test_named_rows import bits, source
from tests.ops.lineage.traced import explained

UNSEEN: dict[str, tuple[Callable[[rh.DataStream], rh.DataStream], str]] = {
    "triggered": (
        lambda rows: (
            rows.key_by("user")
            .window(rh.Tumbling("20ms"))
            .trigger(rh.triggers.count(2))
            .aggregate(bits=rh.agg.sum("bit"))
        ),
        "its trigger or evictor",
    ),
    "top_n": (
        lambda rows: (
            rows.key_by("kind", "user").table(bits=rh.agg.sum("bit")).key_by("kind").top_n(1, by="bits")
        ),
        "not tracked individually",
    ),
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_all_possible_inputs_are_named_with_a_doubt(kind: str, tmp_path: Path) -> None:
    build, why = UNSEEN[kind]
    rows = explained(lambda env: {"out": build(source(env, random.Random(9)))}, tmp_path)["out"]
    assert rows
    for row in rows:
        assert not row.exact
        assert [step.operator for step in row.steps if step.doubts]
        assert any(why in doubt for step in row.steps for doubt in step.doubts)
        assert not row.row["bits"] & ~bits(row), "the rows that it was made of are among them"


PROGRAM = """
from collections.abc import Iterator
from dataclasses import dataclass

import rheos as rh


@dataclass
class Order:
    user: str
    amount: int
    at: int


class Sums(rh.KeyedProcessFunction):
    {declared}

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Order]:
        {adds}
        yield Order(order.user, {total}, order.at)


env = rh.Environment()
orders = env.from_source(rh.files.source("in/*.jsonl", schema=Order, discover="1s"), name="orders")
{stream}.sink_to(rh.print_sink(), name="sums")
env.execute("orders")
"""
KEEPS = {
    "value": (
        "kept = rh.ValueState(int, default=0)",
        "self.kept.value += order.amount",
        "self.kept.value",
    ),
    "list": ("kept = rh.ListState(int)", "self.kept.append(order.amount)", "sum(self.kept)"),
    "map": (
        "kept = rh.MapState(str, int)",
        "self.kept['a'] = self.kept.get('a', 0) + order.amount",
        "self.kept['a']",
    ),
    "reducing": (
        "kept = rh.ReducingState(int, max)",
        "self.kept.add(order.amount)",
        "self.kept.value",
    ),
    "running": ("", "pass", "0"),
}


@pytest.mark.parametrize("keeps", KEEPS)
def test_only_keys_with_state_in_the_checkpoint_mention_it(
    keeps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    declared, adds, total = KEEPS[keeps]
    stream = 'orders.key_by("user").process(Sums())'
    if keeps == "running":
        stream = 'orders.key_by("user").running(amount_=rh.agg.sum("amount"))'
    Path("in").mkdir()
    Path("job.py").write_text(PROGRAM.format(declared=declared, adds=adds, total=total, stream=stream))
    write_input("1", ("ada", 5, 1), ("bob", 1, 2))
    stopped("job.py")
    write_input("2", ("ada", 4, 3), ("eve", 7, 4), ("eve", 8, 5))

    def asked(user: str) -> tuple[bool, list[int]]:
        found = rh.why(
            "orders", "sums", {"user": user}, against="job.py", checkpoint_dir="kept", most=1
        )
        (row,) = found.rows
        return row.exact, [input.row["amount"] for input in row.inputs]

    assert asked("ada") == (False, [4])
    assert asked("eve") == (True, [7, 8])
