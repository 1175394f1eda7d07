"""ReducingState and AggregatingState: on both backends, moved between them, with a time to live, and in
a changed program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.errors import ProgramError, SchemaError, StateAccessError
from rheos.core.graph.state import StateDeclaration
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import FieldShape, TypeShape
from rheos.core.state.kinds import shape_of
from tests.core.state.keyed_jobs import MEMORY, ROCKSDB, Job, declared


@dataclass
class Range:
    low: int
    high: int


class Spread(rh.AggregateFunction[Range]):
    """Aggregate function whose accumulator is changed in place."""

    def create_accumulator(self) -> Range:
        return Range(1 << 60, -(1 << 60))

    def add(self, record: int, accumulator: Range) -> Range:
        accumulator.low = min(accumulator.low, record)
        accumulator.high = max(accumulator.high, record)
        return accumulator

    def get_result(self, accumulator: Range) -> int:
        return accumulator.high - accumulator.low


def states() -> dict[str, StateDeclaration]:
    return declared(
        most=rh.ReducingState(int, max),
        text=rh.ReducingState(str, lambda a, b: a + b),
        spread=rh.AggregatingState(Spread()),
        recent=rh.ReducingState(int, max, ttl="1s"),
    )


@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
def test_added_values_are_kept_and_moved(tmp_path: Path, backend: str) -> None:
    job = Job(tmp_path, states(), backend, parallelism=2, memory_bytes=6 * 1024)
    users = [f"user {i}" for i in range(10)]
    for i in range(50):
        here = job[users[i % 10]]
        here.most.add(i if i % 3 else -i)
        here.text.add(str(i))
        here.spread.add(i)
        here.recent.add(i)
    job.checkpoint()
    job["user 3"].spread.add(1000)
    job["user 4"].most.clear()
    other = ROCKSDB if backend == MEMORY else MEMORY
    for parallelism, by_savepoint in ((3, True), (1, False)):
        job.move(parallelism, other if parallelism == 1 else backend, by_savepoint=by_savepoint)
        shown = [(h.text.value, h.spread.value, h.most.value) for h in map(job.__getitem__, users)]
        assert shown == [
            (
                "".join(str(i) for i in range(user, 50, 10)),
                997 if user == 3 else 40,
                None if user == 4 else max(i if i % 3 else -i for i in range(user, 50, 10)),
            )
            for user in range(10)
        ]
        assert job["user 5"].recent.value == 45
        assert job["nobody"].spread.value is None
    job.now_ms = 1_000
    here = job["user 5"]
    assert here.recent.value is None, "its time is over"
    here.recent.add(1)
    assert here.recent.value == 1
    with pytest.raises(StateAccessError, match="is declared as int, but was assigned str"):
        job["nobody"].most.add("a text")
    job.close()


def test_a_changed_program_is_compared_with_stored_state() -> None:
    def keyed(declaration: StateDeclaration) -> Any:
        declaration.name = "state"
        key = [FieldShape(name="user", type=TypeShape(name="string"))]
        return {OperatorId("op"): {"state": msgspec.structs.replace(shape_of(declaration), key=key)}}

    class Wider(Spread):
        def create_accumulator(self) -> Range | None:  # type: ignore[override]
            return None

    old, accumulated = keyed(rh.ReducingState(int, max)), keyed(rh.AggregatingState(Spread()))
    for before, after, verdict in (
        (old, rh.ReducingState(int, min), Verdict.SAME),
        (old, rh.ValueState(int), Verdict.SAME),
        (old, rh.ReducingState(str, max), Verdict.UNREADABLE),
        (old, rh.ReducingState(int, max, ttl="1h"), Verdict.UNREADABLE),
        (accumulated, rh.ValueState(Range), Verdict.SAME),
        (accumulated, rh.AggregatingState(Wider()), Verdict.MIGRATES),
    ):
        [finding] = compare(before, keyed(after), {})
        assert finding.verdict is verdict, finding


def test_other_values_than_functions_are_refused_at_their_declaration() -> None:
    class Silent(Spread):
        def create_accumulator(self):  # type: ignore[no-untyped-def]
            return 0

    for declare, error, what in (
        (lambda: rh.ReducingState(int, 3), ProgramError, "a function of two values, not 3"),
        (lambda: rh.AggregatingState(Spread), ProgramError, "an instance of an AggregateFunction"),
        (lambda: rh.AggregatingState(max), ProgramError, "an instance of an AggregateFunction"),
        (lambda: rh.AggregatingState(Silent()), SchemaError, "the type of its accumulator"),
    ):
        with pytest.raises(error, match=what) as raised:
            declare()  # type: ignore[no-untyped-call]
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
