"""State that is restored before an attempt begins, with whole engines (UP10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import polars as pl
import pytest

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.errors import CheckpointError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ListState, MapState, ValueState
from rheos.core.protocol.snapshots import PartMode
from rheos.core.task import prepared_slot
from rheos.core.task.config import TaskConfig
from tests.core.task.cluster import Job, planned
from tests.core.task.programs import TWICE_KEYED, build, made
from tests.worlds import programs
from tests.worlds.expiring_programs import EXPIRING
from tests.worlds.join_programs import WINDOWED
from tests.worlds.programs import Arrived, CheckedProgram, same
from tests.worlds.window_programs import TRIGGERED

_TASK = TaskConfig(batch_rows=8, credits=2, buffer_timeout_us=0)
KEYS = 100


def _many_keys(rows: DataStream) -> Mapping[str, DataStream]:
    """Return a program whose checkpoints are mostly deltas."""
    keyed = rows.with_columns(key=pl.col("i") % KEYS).key_by("key")
    return {"out": keyed.running(n=agg.count(), last=agg.max("i"))}


def _check_many_keys(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    per_key = Counter(row.i % KEYS for row in rows)
    wanted = [(key, n) for key, count in per_key.items() for n in range(1, count + 1)]
    same(((out["key"], out["n"]) for out in outputs["out"]), wanted, "counts by key")


MANY_KEYS = CheckedProgram("many keys", _many_keys, _check_many_keys)


class CountOfKey(KeyedProcessFunction):
    n = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[dict[str, int]]:
        self.n.value += 1
        yield {"key": ctx.key, "n": self.n.value}


def _functions(rows: DataStream) -> Mapping[str, DataStream]:
    """Return a program with a function whose checkpoints are mostly deltas."""
    keyed = rows.with_columns(key=pl.col("i") % KEYS).key_by("key")
    return {"out": keyed.process(CountOfKey(), returns={"key": int, "n": int})}


FUNCTIONS = CheckedProgram("function of many keys", _functions, _check_many_keys)

DELAY_MS = 600_000
"""Time after which a timer of `EachKind` fires: after the last row."""


class EachKind(KeyedProcessFunction):
    """Function with state of each kind, whose timer of a key is moved by each later row."""

    first = ValueState(bool, default=True)
    n = ValueState(int, default=0)
    log = ListState(int)
    counts = MapState(int, int)
    due = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[dict[str, int]]:
        if self.first.value:
            self.first.value = False
        self.n.value += 1
        self.log.append(row.i)
        if len(self.log) == 7:
            self.log.clear()
        self.counts[row.i % 11] = self.counts.get(row.i % 11, 0) + 1
        if self.counts[row.i % 11] == 3:
            del self.counts[row.i % 11]
        assert ctx.timestamp is not None
        due = max(ctx.timestamp + DELAY_MS, self.due.value)
        ctx.timers.delete(self.due.value)
        ctx.timers.register(due)
        self.due.value = due
        yield self._output(ctx.key, 0)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[dict[str, int]]:
        yield self._output(ctx.key, timestamp)

    def _output(self, key: int, timer: int) -> dict[str, int]:
        found = {"n": self.n.value, "listed": len(self.log), "entries": len(self.counts)}
        return {"key": key, "timer": timer, **found}


def _each_kind(rows: DataStream) -> Mapping[str, DataStream]:
    keyed = rows.with_columns(key=pl.col("i") % KEYS).key_by("key")
    columns = dict.fromkeys(["key", "timer", "n", "listed", "entries"], int)
    return {"out": keyed.process(EachKind(), returns=columns)}


def _check_each_kind(rows: list[Arrived], outputs: Mapping[str, list[dict[str, Any]]]) -> None:
    outs = outputs["out"]
    _check_many_keys(rows, {"out": [out for out in outs if not out["timer"]]})
    wanted = []
    for key in {row.i % KEYS for row in rows}:
        of_key = [row for row in rows if row.i % KEYS == key]
        n, counts = len(of_key), Counter(row.i % 11 for row in of_key)
        due = max(row.at for row in of_key) + DELAY_MS
        wanted.append((key, due, n, n % 7, sum(count % 3 > 0 for count in counts.values())))
    got = (
        (out["key"], out["timer"], out["n"], out["listed"], out["entries"])
        for out in outs
        if out["timer"]
    )
    same(got, wanted, "timers by key")


EACH_KIND = CheckedProgram("state of each kind", _each_kind, _check_each_kind)
OTHERS = [programs.ORDERED, TRIGGERED, WINDOWED, EXPIRING]
"""Programs with states that are only read ahead: buffered rows, windows, a join, and columns."""
PREPARED = [MANY_KEYS, FUNCTIONS, EACH_KIND, programs.REDUCED, programs.COUNTED, TWICE_KEYED, *OTHERS]
"""Programs with running aggregates, values, lists, maps and timers by key, and some whose states are
restored when the attempt begins."""


def handed_over(program: CheckedProgram, seed: int) -> None:
    """Hand a job over several times, to slots that restore some of its checkpoints ahead."""
    rng = Random(seed)
    of = made(rows=600, seed=seed)
    parallelism = rng.randrange(1, 4)
    job = Job(planned(build(program, of)), _TASK, seed=seed, parallelism=parallelism)
    job.cluster.run(150)
    for _ in range(4):
        parallelism = rng.choice([parallelism, parallelism, rng.randrange(1, 4)])
        for _ in range(rng.randrange(1, 6)):
            job.cluster.run(rng.choice([2, 5, 10, 60]))
            job.take()
            if rng.random() < 0.6:
                job.prepare(parallelism)
        job.restart(parallelism)
    program.check(of.arrived(), job.finish())


@pytest.mark.parametrize("program", PREPARED, ids=lambda p: p.name)
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))]
)
def test_an_attempt_continues_from_its_checkpoint_whatever_was_restored_ahead(
    program: CheckedProgram, seed: int
) -> None:
    handed_over(program, seed)


@pytest.mark.parametrize("mutation", ["applies parts again", "ignores a new chain"])
def test_a_broken_rule_shows(monkeypatch: pytest.MonkeyPatch, mutation: str) -> None:
    """Check that the test above notices states that contain too little, or that are outdated."""
    taken = prepared_slot.PreparedSlot.take
    if mutation == "ignores a new chain":
        monkeypatch.setattr(prepared_slot.PreparedSlot, "_keep_continued", lambda self, assigned: None)
    else:

        def too_many(self: object, restore: object) -> prepared_slot.TakenState:
            found = taken(self, restore)  # type: ignore[arg-type]
            more = {key: count + 1 for key, count in found.applied.items()}
            return prepared_slot.TakenState(found.states, more, found.read_ahead)

        monkeypatch.setattr(prepared_slot.PreparedSlot, "take", too_many)
    with pytest.raises(AssertionError):
        _hand_over_often()


def _hand_over_often() -> None:
    for seed in range(30):
        handed_over(MANY_KEYS, seed)


@pytest.mark.parametrize(
    ("program", "state"),
    [
        (MANY_KEYS, "running"),
        (FUNCTIONS, "n"),
        (EACH_KIND, "log"),
        (EACH_KIND, "counts"),
        (EACH_KIND, "timers"),
    ],
)
def test_only_the_difference_is_read_when_the_attempt_begins(
    program: CheckedProgram, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(planned(build(program, made(rate_per_s=2_000.0))), _TASK, parallelism=1)
    job.cluster.run(1_500)
    job.take()
    job.prepare(1)
    job.cluster.run(10)
    job.take()
    assert job.newest is not None
    states = [handle for handle in job.newest.handles if handle.state == state]
    assert [handle.mode for handle in states] == [PartMode.FULL, PartMode.DELTA]
    read = _noted_reads(job, monkeypatch)
    job.restart(1)
    assert states[1].path in read
    assert states[0].path not in read
    # The next checkpoint continues the chain.
    job.take()
    again = [handle for handle in job.newest.handles if handle.state == state]
    assert again[:2] == states


def test_a_new_chain_of_timers_leaves_other_states_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    of = made(rate_per_s=2_000.0)
    job = Job(planned(build(EACH_KIND, of)), _TASK, parallelism=1)
    job.cluster.run(1_500)
    job.take()
    job.prepare(1)
    before = _first_paths(job)
    job.cluster.run(1_500)
    job.take()
    after = _first_paths(job)
    assert before["first"] == after["first"]
    assert before["timers"] != after["timers"]
    read = _noted_reads(job, monkeypatch)
    job.restart(1)
    assert after["timers"] in read
    assert after["first"] not in read
    EACH_KIND.check(of.arrived(), job.finish())


def _first_paths(job: Job) -> dict[str, str]:
    """Return the path of the first part of each state of the newest checkpoint."""
    assert job.newest is not None
    return {handle.state: handle.path for handle in reversed(job.newest.handles)}


def _noted_reads(job: Job, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the job's store adds the path of each later read."""
    read: list[str] = []
    get = job.store.get

    def noted(path: str) -> bytes:
        read.append(path)
        return get(path)

    monkeypatch.setattr(job.store, "get", noted)
    return read


@pytest.mark.parametrize("program", OTHERS, ids=lambda p: p.name)
def test_nothing_is_read_again_when_the_attempt_begins(
    program: CheckedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = made()
    job = Job(planned(build(program, of)), _TASK, parallelism=2)
    job.cluster.run(200)
    job.take()
    job.prepare(3)
    read = _noted_reads(job, monkeypatch)
    job.restart(3)
    assert job.newest is not None
    # A subtask without rows of a state reads its columns, from the first part.
    parts = {(handle.operator, handle.state): handle.path for handle in reversed(job.newest.handles)}
    assert set(read) <= set(parts.values())
    assert len(read) < len(job.newest.handles)
    program.check(of.arrived(), job.finish())


def test_a_checkpoint_that_was_deleted_meanwhile_is_restored_later() -> None:
    of = made()
    job = Job(planned(build(MANY_KEYS, of)), _TASK, parallelism=2)
    job.cluster.run(100)
    job.take()
    files = dict(job.store.files)
    job.store.files.clear()
    with pytest.raises(CheckpointError, match="does not exist"):
        job.prepare(2)
    job.store.files.update(files)
    job.cluster.run(40)
    job.take()
    job.prepare(2)
    job.restart(2)
    MANY_KEYS.check(of.arrived(), job.finish())
