"""One program under many seeds: correct ones pass, and wrong ones fail with a helpful report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ProgramError, UserFunctionError
from rheos.testing import Faults, simulate

ROWS = [{"k": i % 3, "i": i} for i in range(24)]


class Counting(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.n.value += 1
        yield {"k": row.k, "n": self.n.value}


class Forgetful(rh.KeyedProcessFunction):
    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, int]]:
        self.counts[row.k] = self.counts.get(row.k, 0) + 1
        yield {"k": row.k, "n": self.counts[row.k]}


def job(fn: rh.KeyedProcessFunction) -> Callable[[rh.Environment], rh.DataStream]:
    def build(env: rh.Environment) -> rh.DataStream:
        rows = env.from_source(rh.collection(ROWS))
        return rows.key_by("k").process(fn, returns={"k": int, "n": int})

    return build


WANTED = [{"k": k, "n": n} for k in range(3) for n in range(1, 9)]


def test_a_correct_program_commits_the_same_under_every_seed() -> None:
    done = simulate(job(Counting()), seeds=2, expected=WANTED)
    assert done.out.num_rows == 24
    assert done.crashes == 0, "what is returned is the run in which nothing goes wrong"


def test_lost_state_is_reported_with_seed_and_minimal_faults() -> None:
    with pytest.raises(AssertionError) as found:
        simulate(job(Forgetful()), seeds=range(8, 28))
    lines = str(found.value).splitlines()
    seed, _, what = lines[0].removeprefix("seed ").partition(": ")
    assert what == "the rows differ from those of a run without faults"
    assert lines[1] == "output 'out': 24 rows are expected, but 24 arrived"
    assert any(line.startswith("    missing:       {'k': ") for line in lines)
    assert any(line.startswith("    not expected:  {'k': ") for line in lines)
    (least,) = [line for line in lines if line.startswith("smallest case that shows it")]
    assert least.startswith("smallest case that shows it: parallelism")
    again = (
        f"to repeat: simulate(..., seeds=[{seed}]); or pytest --rheos-seeds={seed}, with the fixture"
    )
    assert lines[-1] == again


def test_expected_rows_are_first_checked_without_faults() -> None:
    with pytest.raises(AssertionError) as found:
        simulate(job(Counting()), seeds=4, expected=[*WANTED[1:], {"k": 7, "n": 1}])
    assert str(found.value).splitlines() == [
        "without any fault:",
        "output 'out': 24 rows are expected, but 24 arrived",
        "    missing:       {'k': 7, 'n': 1}",
        "    not expected:  {'k': 0, 'n': 1}",
    ]


def test_only_the_last_result_per_key_is_compared() -> None:
    last = [{"k": k, "n": 8} for k in range(3)]
    simulate(job(Counting()), seeds=[1], expected=last, last_by=["k"])


def test_conflicting_arguments_are_refused() -> None:
    with pytest.raises(ProgramError, match="faults= is set, but seeds= draws it at random"):
        simulate(job(Counting()), seeds=1, faults=Faults())
    with pytest.raises(ProgramError, match="a row is expected with the columns k, but the output"):
        simulate(job(Counting()), seeds=1, expected=[{"k": 1}])
    with pytest.raises(ProgramError, match="rows are expected from late, but the program returns"):
        simulate(job(Counting()), seeds=1, expected={"late": []})


def failing(row: Any) -> dict[str, int]:
    return {"x": 1 // (row.i - 20)}


def test_a_failing_program_raises_at_its_line() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        return env.from_source(rh.collection(ROWS)).map(failing, returns={"x": int})

    with pytest.raises(UserFunctionError, match="division"):
        simulate(build, seeds=1)
