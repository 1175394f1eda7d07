"""Collected rows reach the driver separately from notes, are bounded, and are checked against the
notes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.spark.collecting import CollectedFrame
from rheos.core.errors import ConfigurationError, JobFailedError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.state_config import MIB
from rheos.runtimes.batch import execution, task_notes
from rheos.runtimes.batch.layout import FIRST_RESULT_PORT, NOTE_PORT, payloads
from rheos.runtimes.batch.outlets import PackedOutlet
from rheos.runtimes.batch.results import PlanWithHandedRows, Results, handed_over
from rheos.runtimes.batch.tasks import PackedOutput

ROWS = pa.schema([pa.field("n", pa.int64(), False)])


def plan() -> PhysicalPlan:
    env = rh.Environment(1, runtime="batch")
    numbers = env.from_source(rh.collection([{"n": 1}], schema=ROWS), name="numbers")
    numbers.collect("all")
    numbers.filter("n > 1").collect("some")
    return env.plan()


def batch(numbers: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=ROWS)


def through_task(
    handed: PlanWithHandedRows, rows: Sequence[pa.RecordBatch], most_bytes: int = MIB
) -> Any:
    """Return the notes and pieces of a task that hands over all rows of its first sink."""
    outlet = PackedOutlet(PackedOutput(handed.of(handed.plan.chains[0]), most_bytes))
    left = [out for each in rows for out in outlet.rows(FIRST_RESULT_PORT, each)]
    left += outlet.finish()
    found = [pair for out in left for pair in payloads(out, "port")]
    told = [task_notes.decoder.decode(data) for port, data in found if port == NOTE_PORT]
    return told, [(port, data.to_pybytes()) for port, data in found if port != NOTE_PORT]


def test_collect_sinks_have_result_ports() -> None:
    handed = handed_over(plan())
    assert [sink.name for sink in handed.sinks.values()] == ["all", "some"]
    assert list(handed.sinks) == [FIRST_RESULT_PORT, FIRST_RESULT_PORT - 1]
    assert list(handed.of(handed.plan.chains[0])) == list(handed.sinks)


def test_rows_are_in_few_pieces_and_notes_state_their_size() -> None:
    handed = handed_over(plan())
    [told], pieces = through_task(handed, [batch([n, n + 1]) for n in range(0, 10, 2)])
    assert (told.rows, told.pieces, len(pieces)) == (10, 1, 1)
    assert told.size_bytes == len(pieces[0][1])
    results = Results(handed, MIB)
    results.promised(told)
    tables = {id: table.to_pydict() for id, table in results.tables(pieces).items()}
    every, some = (sink.id for sink in handed.sinks.values())
    assert tables == {every: {"n": list(range(10))}, some: {"n": []}}


@pytest.mark.parametrize("lost", [0, 1])
def test_missing_pieces_are_an_error(lost: int) -> None:
    handed = handed_over(plan())
    results = Results(handed, MIB)
    pieces = []
    for numbers in ([1, 2], [3]):
        told, made = through_task(handed, [batch(numbers)])
        results.promised(told[0])
        pieces += made
    del pieces[lost]
    lost_rows = r"did not receive all collected rows: . rows .* of 3 rows"
    with pytest.raises(JobFailedError, match=lost_rows):
        results.tables(pieces)


def test_collecting_too_much_is_an_error_at_the_sinks_line() -> None:
    handed = handed_over(plan())
    many = [batch(range(100_000))] * 8
    with pytest.raises(
        ConfigurationError, match=r"the collected rows are too large for the driver: 2 MiB, but its"
    ) as told:
        through_task(handed, many, most_bytes=MIB)
    assert told.value.operator == "all"
    assert told.value.site is not None
    assert told.value.hint is not None
    assert "spark.driver.memory" in told.value.hint


def test_tasks_that_collect_too_much_together_are_an_error() -> None:
    handed = handed_over(plan())
    [told], _ = through_task(handed, [batch(range(50_000))])
    results = Results(handed, 3 * told.size_bytes)
    for _ in range(3):
        results.promised(told)
    with pytest.raises(ConfigurationError, match="too large for the driver") as error:
        results.promised(told)
    assert error.value.operator == "all"


class Frame:
    """Stand-in for a DataFrame."""

    def filter(self, _: Any) -> Frame:
        return self

    def select(self, _: str) -> Frame:
        return self


@pytest.mark.parametrize("ended", [0, 2])
def test_a_job_fails_without_the_note_of_each_task(monkeypatch: pytest.MonkeyPatch, ended: int) -> None:
    """Spark reports that three tasks ran. Then the notes that did arrive do not count either."""
    handed = handed_over(plan())
    [chain] = handed.plan.chains
    said = [task_notes.Ended(operator=chain.operators[0].id)] * ended
    said_of_others = [task_notes.Ended(operator=chain.operators[1].id)]
    rows: Any = [SimpleNamespace(payload=task_notes.encode(note)) for note in [*said, *said_of_others]]
    monkeypatch.setattr(execution, "collected", lambda _: CollectedFrame(rows, tasks=3))
    monkeypatch.setattr(execution.f, "col", lambda _: None)
    heard: list[task_notes.AnyNote] = []
    run = execution._Run(Results(handed, MIB), heard.append)
    frame: Any = Frame()
    with pytest.raises(
        JobFailedError, match=rf"Spark reports 3 finished tasks, but only {ended} of them"
    ):
        run._take_notes([chain], frame)
    assert heard == []
