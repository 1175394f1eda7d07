"""The coordinator's trace: events, resulting actions, and how much of it is kept."""

from __future__ import annotations

from rheos.core.checkpoint.decision_log import KEPT, MAX_TEXT, DecisionLog
from rheos.core.checkpoint.events import SubtaskFailed, Tick
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.errors import TransportError
from rheos.core.protocol.ids import Attempt
from tests.core.checkpoint.timelines import Timeline, acknowledge


def told(time: Timeline) -> list[str]:
    """Return the trace without the time of day, which is constant here."""
    return [
        str(decision).removeprefix("1970-01-01T00:00:00.000Z ")
        for decision in time.coordinator.decisions()
    ]


def test_the_trace_shows_which_events_led_to_which_actions() -> None:
    time = Timeline().runs()
    time.at(1000, Tick())
    time.completes(1001, 1)
    assert told(time) == [
        "READING    Start() -> ReadLog()",
        "CLAIMING   LogRead(view=LogView) -> AppendLog(number=1, entry=AttemptStarted)",
        "RECOVERING LogAppended(number=1) -> SweepFiles(attempt=1); Recover(attempt=1, fresh=True)",
        "STARTING   Recovered(attempt=1) -> StartAttempt(attempt=1, parallelism=2)",
        "RUNNING    AttemptRunning(attempt=1)",
        "RUNNING    Tick() -> SendToAll(message=TriggerCheckpoint 1)",
        "RUNNING    Acknowledge(subtask=0, checkpoint=1, handles=[1], committables=[1], attempt=1)",
        "RUNNING    Acknowledge(subtask=1, checkpoint=1, "
        "handles=[1], committables=[1], attempt=1) -> AppendLog(number=2, entry=CheckpointCompleted 1)",
        "RUNNING    LogAppended(number=2) -> Announce(checkpoint=CheckpointCompleted 1); "
        "SendToAll(message=CheckpointComplete 1)",
    ]


def test_ticks_without_actions_are_not_traced() -> None:
    time = Timeline().runs()
    before = time.coordinator.decisions()
    time.at(1, Tick(), Tick())
    assert time.coordinator.decisions() == before


def test_equal_messages_of_subtasks_are_one_line() -> None:
    time = Timeline().runs()
    time.at(1000, Tick())
    time.at(1001, acknowledge(0, 1), acknowledge(0, 1), acknowledge(0, 1))
    last = time.coordinator.decisions()[-1]
    assert (last.kind, last.times) == ("Acknowledge 1", 3)
    assert str(last).endswith(" (3 times)")


def test_a_failure_has_its_reason() -> None:
    time = Timeline().runs()
    time.at(5, SubtaskFailed(Attempt(1), 1, TransportError("subtask 1 is\ngone " + "x" * 1000)))
    line = told(time)[-1]
    assert line.startswith("STOPPING   SubtaskFailed(attempt=1, subtask=1, error=TransportError: ")
    assert "subtask 1 is gone xxx" in line
    assert line.endswith("-> StopAttempt(attempt=1)")


def test_the_trace_is_bounded() -> None:
    decisions = DecisionLog()
    many = [SubtaskFailed(Attempt(1), 1, TransportError("x" * 1000))] * 50
    for at in range(3 * KEPT):
        decisions.note(at, many[0], many, LifecycleState.RUNNING)
    decisions = decisions.decisions()
    assert len(decisions) == KEPT
    assert decisions[-1].wall_ms == 3 * KEPT - 1
    assert all(len(part) <= MAX_TEXT for part in (decisions[0].event, decisions[0].actions))
