"""Waits of a job, with their reason and start, as its status shows them."""

from __future__ import annotations

from rheos.core.checkpoint.events import (
    AfterSavepoint,
    AttemptRunning,
    Recovered,
    RecoveryFailed,
    SavepointRequested,
    SavepointWritten,
    Start,
    Tick,
)
from rheos.core.errors import UnavailableError
from rheos.core.protocol.control import Committed
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.runtimes.driver.metrics_keeper import UnpublishedOutput
from rheos.runtimes.driver.waits import Waits
from tests.core.checkpoint.timelines import SHAPE, SINK, Timeline, acknowledge

AWAY = UnavailableError("no answer from db:5432", operator="files")


def shown(
    waits: Waits, time: Timeline, now_ms: int, *sinks: UnpublishedOutput
) -> list[tuple[str, int]]:
    return [(w.what, w.since_ms) for w in waits.now(time.coordinator, lambda: sinks, now_ms)]


def test_a_savepoint_shows_what_it_waits_for_since_when() -> None:
    time, waits = Timeline().runs(), Waits(SHAPE.operators)
    assert shown(waits, time, 0) == []
    time.at(100, SavepointRequested(1, "/savepoints/one", AfterSavepoint.GO_ON))
    said = "the savepoint waits: subtasks 0, 1 have not acknowledged its checkpoint"
    assert shown(waits, time, 5_000) == [(said, 5_000)]
    assert shown(waits, time, 9_000) == [(said, 5_000)]
    time.at(200, acknowledge(0, 1, savepoint=True))
    said = "the savepoint waits: subtask 1 has not acknowledged its checkpoint"
    assert shown(waits, time, 9_500) == [(said, 5_000)]

    [append] = time.at(300, acknowledge(1, 1, savepoint=True))
    time.log_takes(300, append)
    said = "the savepoint waits: subtasks 0, 1 have not committed its checkpoint"
    assert shown(waits, time, 9_600) == [(said, 9_600)]
    time.at(400, Committed(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1)))
    others = UnpublishedOutput(SINK, 0, 1_000), UnpublishedOutput(SINK, 1, 2_000)
    said = "the savepoint waits for the sink 'files': subtask 1 has not published"
    assert shown(waits, time, 9_700, *others) == [(said, 2_000)]

    time.at(500, Committed(attempt=Attempt(1), subtask=1, checkpoint=CheckpointId(1)))
    said = "the savepoint waits: its manifest is being written"
    assert shown(waits, time, 9_800) == [(said, 9_800)]
    time.at(600, SavepointWritten(1))
    assert shown(waits, time, 9_900) == []


def test_a_drain_shows_which_subtasks_it_waits_for() -> None:
    time, waits = Timeline().runs(), Waits(SHAPE.operators)
    time.at(100, SavepointRequested(1, "/savepoints/one", AfterSavepoint.DRAIN))
    said = "the stop with --drain waits: subtasks 0, 1 have not reached the end of their input"
    assert [what for what, _ in shown(waits, time, 0)] == [said]


def test_a_request_shows_that_it_waits_for_a_checkpoint() -> None:
    time, waits = Timeline().runs(), Waits(SHAPE.operators)
    time.at(1000, Tick())
    time.at(1100, SavepointRequested(1, "/savepoints/one", AfterSavepoint.STOP))
    said = (
        "the stop with a savepoint waits: another checkpoint is open, which subtasks 0, 1 have not "
        "acknowledged"
    )
    assert [what for what, _ in shown(waits, time, 0)] == [said]


def test_an_attempt_shows_after_a_while_how_many_of_its_workers_have_connected() -> None:
    time, waits = Timeline(), Waits(SHAPE.operators)
    time.at(0, Start())
    time.claims(0)
    time.at(100, Recovered(Attempt(1)))

    def shown_at(now_ms: int, joined: int) -> list[tuple[str, int]]:
        return [(w.what, w.since_ms) for w in waits.now(time.coordinator, tuple, now_ms, joined)]

    assert shown_at(1_000, 0) == []
    said = "the attempt waits until its tasks run: {} of 2 workers have connected"
    assert shown_at(6_000, 0) == [(said.format(0), 1_000)]
    assert shown_at(7_000, 1) == [(said.format(1), 1_000)]
    time.at(200, AttemptRunning(Attempt(1)))
    assert shown_at(8_000, 2) == []


def test_recovery_and_savepoint_show_the_server_they_await() -> None:
    time, waits = Timeline(), Waits(SHAPE.operators)
    time.at(0, Start())
    time.claims(0)
    said = "the recovery waits for the commit of the last checkpoint"
    assert shown(waits, time, 1_000) == [(said, 1_000)]
    time.at(100, RecoveryFailed(Attempt(1), AWAY))
    time.at(150, SavepointRequested(1, "/savepoints/one", AfterSavepoint.GO_ON))
    assert shown(waits, time, 4_000) == [
        (f"{said}: the sink 'files': no answer from db:5432", 1_000),
        (
            "the savepoint waits: the job is not running (committing the output that the restored "
            "checkpoint lists)",
            4_000,
        ),
    ]
