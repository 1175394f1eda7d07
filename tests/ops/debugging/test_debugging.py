"""One key of a job is replayed: each step equals the call in the job itself."""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.state_config import Backend
from rheos.ops.debugging.key_replay import DebugStep, StepKind
from tests.ops.debugging.jobs import PROGRAM, calls, run_job, write_input


def orders(seed: int, rows: int = 45) -> list[tuple[str, int, int]]:
    """Return orders of a few users, out of order by 2 ms and sometimes by more."""
    rng, at, made = Random(seed), 20, []
    for _ in range(rows):
        at += rng.randrange(0, 6)
        made.append((rng.choice(["ada", "bob"]), rng.randrange(1, 9), at - rng.randrange(0, 4)))
    return made


def ran(
    folder: Path, patch: pytest.MonkeyPatch, *, program: str = PROGRAM, files: int = 1, **given: Any
) -> list[int]:
    """Run the job, and return the numbers of the checkpoints that it has kept."""
    patch.chdir(folder)
    patch.setenv("RHEOS_HOME", str(folder / "home"))
    patch.setenv("CALLS", str(folder / "calls.jsonl"))
    Path("job.py").write_text(program)
    rows = orders(7)
    for number in range(files):
        write_input(str(number), *rows[number::files])
    with contextlib.redirect_stdout(io.StringIO()):
        kept = run_job(**{"interval_ms": 60, **given})
    patch.delenv("CALLS")
    return kept


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> list[int]:
    """Return the checkpoints of a job over one file, which fall between its rows."""
    numbers = ran(tmp_path_factory.mktemp("job"), patch)
    assert len(numbers) > 3
    return numbers


def debugged(key: Any = "ada", operator: str | None = "sessions", **given: Any) -> rh.Debugged:
    return rh.debug("orders", key, operator=operator, checkpoint_dir="kept", against="job.py", **given)


def values(state: Any) -> list[Any]:
    """Return state as the program's function logs its own."""

    def value(name: str) -> Any:
        return state[name].rows[0]["value"] if name in state else 0

    amounts = [row["value"] for row in state["amounts"].rows] if "amounts" in state else []
    by_size = {r["map_key"]: r["value"] for r in state["by_size"].rows} if "by_size" in state else {}
    return [value("total"), value("last"), amounts, by_size]


def as_logged(step: DebugStep, key: str) -> dict[str, Any]:
    row = step.kind is StepKind.ROW
    assert step.row is not None or not row
    return {
        "kind": step.kind.value,
        "what": list(step.row.values()) if step.row else step.event_time_ms,
        "key": key,
        "time": step.event_time_ms,
        "before": values(step.before),
        "after": values(step.after),
        "out": [list(each.row.values()) for each in step.out if not each.output],
    }


def test_each_step_equals_a_call_in_the_job(kept: list[int]) -> None:
    steps = []
    for first, last in itertools.pairwise([*kept[1:], None]):
        found = debugged(from_checkpoint=first, until=last)
        steps += [as_logged(step, "ada") for step in found]
        # The remaining state equals that of the job, including its timers.
        assert found.deviation == (None if last is None else ())
    logged = [call for call in calls() if call["key"] == "ada"]
    assert 10 < len(steps) < len(logged)
    assert steps == logged[-len(steps) :]
    assert {step["kind"] for step in steps} == {"row", "timer"}


def test_window_steps_are_rows_and_watermarks(kept: list[int]) -> None:
    found = debugged("bob", "windows", from_checkpoint=kept[1], until=kept[-1])
    steps = list(found)
    assert found.deviation == ()
    assert {step.kind for step in steps} == {StepKind.ROW, StepKind.WATERMARK}
    given = [emitted.row for step in steps for emitted in step.out]
    fired = [step for step in steps if step.out]
    assert all(change.after is None for step in fired for change in step.changes)
    assert sum(row["n"] for row in given) > 3
    # Late rows change nothing, and are counted.
    late = [step for step in steps if step.counted.get("late")]
    assert all(step.changes == () and step.kind is StepKind.ROW for step in late)


def test_steps_show_their_side_outputs(kept: list[int]) -> None:
    steps = list(debugged(from_checkpoint=kept[0]))
    for step in (step for step in steps if step.row is not None):
        big = [each.row for each in step.out if each.output == "big"]
        assert big == ([{"amount": step.row["amount"]}] if step.row["amount"] > 5 else [])


def test_a_split_discovered_later_does_not_delay_the_replay(kept: list[int]) -> None:
    write_input("later", ("ada", 1, 9000))
    try:
        found = debugged(from_checkpoint=kept[1], until=kept[-1])
        steps = list(found)
    finally:
        Path("in/later.jsonl").unlink()
    assert found.deviation == ()
    assert {step.kind for step in steps} == {StepKind.ROW, StepKind.TIMER}


def test_a_replay_can_be_repeated(kept: list[int]) -> None:
    found = debugged(from_checkpoint=kept[1])
    assert [step.changes for step in found] == [step.changes for step in found]


def test_the_newest_checkpoint_is_the_default(kept: list[int]) -> None:
    found = debugged()
    assert (found.checkpoint, found.until) == (kept[-1], None)


def test_a_replay_of_several_splits_reports_its_reservations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = ran(tmp_path, monkeypatch, files=3, backend=Backend.ROCKSDB, interval_ms=200)
    found = debugged(from_checkpoint=numbers[0], until=numbers[-1])
    steps = list(found)
    whys = " ".join(each.why for each in found.reservations)
    assert "splits may arrive in another order than in the job" in whys
    assert "may fire between other rows" in whys
    # The rows are the same, perhaps in another order, which the comparison reports.
    assert found.deviation is not None
    amounts = sorted(step.row["amount"] for step in steps if step.row is not None)
    logged = [call["what"][1] for call in calls() if call["key"] == "ada" and call["kind"] == "row"]
    assert amounts == sorted(logged[-len(amounts) :])


FAILS = PROGRAM.replace("class Total:", "class Total:  # changed").replace(
    "order.amount < 0", "order.amount == 7"
)


def test_an_error_is_the_last_step_with_its_row(kept: list[int]) -> None:
    Path("fails.py").write_text(FAILS)
    found = rh.debug(
        "orders",
        "ada",
        operator="sessions",
        checkpoint_dir="kept",
        against="fails.py",
        from_checkpoint=kept[0],
    )
    *steps, last = found
    assert all(step.error is None for step in steps)
    assert last.row is not None
    assert last.row["amount"] == 7
    assert "ValueError: no such amount" in str(last.error)
    assert "fails.py:51" in str(last.error)
    assert last.changes == ()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"key": "nobody"}, "has no state of it, and no row of it was read afterwards"),
        ({"from_checkpoint": 999}, "has no checkpoint 999"),
        ({"from_checkpoint": 2, "until": 1}, "checkpoint 1 is not after checkpoint 2"),
        ({"operator": "orders"}, r"job.py:\d+: operator 'orders': the operator is not keyed"),
        ({"operator": "none"}, "the job has no operator 'none'"),
        ({"operator": None}, "the key 'ada' fits 2 operators"),
        ({"key": {"name": "ada"}}, "is not a key of the operator"),
    ],
)
def test_errors_for_invalid_arguments_have_hints(
    kept: list[int], given: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigurationError, match=what) as raised:
        debugged(**given)
    assert raised.value.hint


def test_a_source_that_cannot_be_read_twice_is_refused(kept: list[int]) -> None:
    once = PROGRAM.replace(
        'rh.files.source("in/*.jsonl", schema=Order, discover="1s")',
        'rh.socket.source("localhost:1", schema=Order, format=rh.formats.json())',
    )
    Path("once.py").write_text(once)
    with pytest.raises(ConfigurationError, match=r"once.py:\d+: .*cannot be read alongside the job"):
        rh.debug("orders", "ada", operator="sessions", checkpoint_dir="kept", against="once.py")
