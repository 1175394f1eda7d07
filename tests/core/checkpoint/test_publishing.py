"""Publications by the driver, on timelines: CP28 to CP30 of the protocol."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rheos.core.checkpoint.events import (
    Action,
    AppendLog,
    AttemptEnded,
    AttemptLost,
    CancelRequested,
    EndJob,
    LogLost,
    Outcome,
    Published,
    PublishFailed,
    PublishOnDriver,
    ReadLog,
    SendToAll,
    StopAttempt,
    Tick,
)
from rheos.core.checkpoint.lifecycle import LEAVE_WITHIN_MS, LifecycleState
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.publishing import Publishing
from rheos.core.checkpoint.targets import target_refusal
from rheos.core.errors import CheckpointError, SchemaError, TransportError, UnavailableError
from rheos.core.protocol.control import CheckpointComplete, CommittableHandle, SinkPublished
from rheos.core.protocol.ids import Attempt, CheckpointId, OperatorId
from rheos.core.protocol.shapes import FieldShape, TypeShape
from tests.core.checkpoint.timelines import SHAPE, SINK, Timeline, acknowledge, completed

BY_DRIVER = replace(SHAPE, on_driver=frozenset({SINK}))
AWAY = CheckpointError("the table is away")
ONE, TWO, THREE = (CheckpointId(n) for n in (1, 2, 3))


def running() -> Timeline:
    return Timeline(shape=BY_DRIVER).runs()


def publish(checkpoint: int) -> PublishOnDriver:
    listed = [CommittableHandle(SINK, f"1/{checkpoint}/{subtask}".encode()) for subtask in (0, 1)]
    return PublishOnDriver(Attempt(1), CheckpointId(checkpoint), SINK, tuple(listed))


def announced(actions: list[Action]) -> list[int]:
    """Return the checkpoints that the subtasks are notified of as complete."""
    return [
        action.message.checkpoint
        for action in actions
        if isinstance(action, SendToAll) and isinstance(action.message, CheckpointComplete)
    ]


def told(actions: list[Action]) -> list[int]:
    """Return the checkpoints up to which the subtasks are notified that the sink is published."""
    return [
        action.message.checkpoint
        for action in actions
        if isinstance(action, SendToAll) and isinstance(action.message, SinkPublished)
    ]


def published(actions: list[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, PublishOnDriver)]


def test_a_checkpoint_is_announced_at_once_and_its_sink_once_it_is_published() -> None:
    time = running()
    time.at(1000, Tick())
    entered = time.completes(1010, 1)
    assert (announced(entered), published(entered), told(entered)) == ([1], [publish(1)], [])
    done = time.at(1500, Published(SINK, ONE))
    assert (announced(done), told(done)) == ([], [1])


def test_nothing_is_published_without_committables_of_the_driver() -> None:
    time = Timeline(shape=replace(SHAPE, on_driver=frozenset({OperatorId("other")}))).runs()
    time.at(1000, Tick())
    entered = time.completes(1010, 1)
    assert (announced(entered), published(entered), told(entered)) == ([1], [], [])


def test_an_unavailable_sink_is_retried_forever_and_does_not_block_others() -> None:
    other = OperatorId("other")
    publishing = Publishing(frozenset({SINK, other}))

    def entry(checkpoint: int) -> CheckpointCompleted:
        listed = [CommittableHandle(each, b"staged") for each in (SINK, other)]
        return msgspec.structs.replace(completed(checkpoint), committables=listed)

    def begun(actions: list[Action]) -> list[tuple[str, int]]:
        return [(a.operator, a.checkpoint) for a in actions if isinstance(a, PublishOnDriver)]

    first = publishing.entered(entry(1))
    assert (announced(first), begun(first)) == ([1], [("other", 1), ("sink", 1)])
    away = UnavailableError("the target is away")
    now_ms = 0
    for _ in range(300):
        assert publishing.failed(SINK, ONE, away, now_ms) is None
        assert publishing.failing() == {SINK: away}
        due_ms = publishing.retry_ms()
        assert due_ms is not None
        assert now_ms < due_ms <= now_ms + 1000
        now_ms = due_ms
        assert begun(publishing.tick(now_ms)) == [("sink", 1)]
    assert told(publishing.published(other, ONE)) == [1]
    assert begun(publishing.entered(entry(2))) == [("other", 2)]
    assert told(publishing.published(other, TWO)) == [2]
    back = publishing.published(SINK, ONE)
    assert (told(back), begun(back)) == ([1], [("sink", 2)])
    assert publishing.failing() == {}


def test_checkpoints_continue_and_the_newest_is_published_for_all_waiting() -> None:
    time = running()
    for checkpoint, at_ms in ((1, 1000), (2, 2100), (3, 3200)):
        time.at(at_ms, Tick())
        entered = time.completes(at_ms + 10, checkpoint)
        assert (published(entered) != []) == (checkpoint == 1)
        assert (announced(entered), told(entered)) == ([checkpoint], [])
    first = time.at(4000, Published(SINK, ONE))
    assert (told(first), published(first)) == ([1], [publish(3)])
    assert told(time.at(4500, Published(SINK, THREE))) == [3]


def test_a_failure_is_retried_twice_and_then_fails_the_attempt() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    assert time.at(1020, PublishFailed(SINK, ONE, AWAY)) == []
    assert time.coordinator.next_deadline_ms() == 1120
    assert published(time.at(1120, Tick())) == [publish(1)]
    assert published(time.at(1130, PublishFailed(SINK, ONE, AWAY))) == []
    assert published(time.at(2130, Tick())) == [publish(1)]
    failed = time.at(2140, PublishFailed(SINK, ONE, AWAY))
    assert StopAttempt(Attempt(1)) in failed
    assert told(failed) == []
    assert time.coordinator.last_error is AWAY


def test_permanent_errors_are_not_retried() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    changed = SchemaError("the table has changed")
    assert StopAttempt(Attempt(1)) in time.at(1020, PublishFailed(SINK, ONE, changed))
    assert time.at(1030, AttemptEnded(Attempt(1))) == [EndJob(Outcome.FAILED, changed)]


def test_no_attempt_starts_during_a_publication() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    assert time.at(1020, AttemptLost(Attempt(1), TransportError("lost"))) == [StopAttempt(Attempt(1))]
    assert time.at(1030, AttemptEnded(Attempt(1))) == []
    assert time.coordinator.state is LifecycleState.STOPPING
    assert time.at(1500, Published(SINK, ONE)) == []
    assert time.coordinator.state is LifecycleState.WAITING
    assert time.at(2000, Tick()) == [ReadLog()]


def test_a_cancelled_job_does_not_wait_long_for_a_publication() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    time.at(1020, CancelRequested())
    assert time.at(1030, AttemptEnded(Attempt(1))) == []
    due_ms = time.coordinator.next_deadline_ms()
    assert due_ms == 1030 + LEAVE_WITHIN_MS
    assert time.at(due_ms - 1, Tick()) == []
    assert time.at(due_ms, Tick()) == [EndJob(Outcome.CANCELLED)]


def test_a_failed_attempt_that_waits_for_a_publication_can_be_cancelled() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    time.at(1020, AttemptLost(Attempt(1), TransportError("lost")))
    time.at(1030, AttemptEnded(Attempt(1)))
    assert time.at(1040, CancelRequested()) == []
    assert time.at(1040 + LEAVE_WITHIN_MS, Tick()) == [EndJob(Outcome.CANCELLED)]


def test_a_cancelled_job_ends_after_the_answer_without_retries() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    time.at(1020, CancelRequested())
    assert time.at(1030, AttemptEnded(Attempt(1))) == []
    assert time.at(1500, PublishFailed(SINK, ONE, AWAY)) == [EndJob(Outcome.CANCELLED)]


def test_a_replaced_driver_publishes_nothing() -> None:
    time = running()
    time.at(1000, Tick())
    time.completes(1010, 1)
    time.at(2100, Tick())
    time.completes(2110, 2)  # It waits for the first.
    time.at(3200, Tick())
    [append] = time.at(3210, *(acknowledge(subtask, 3) for subtask in (0, 1)))
    assert isinstance(append, AppendLog)
    time.at(3220, LogLost(append.number))
    last = time.at(3300, Published(SINK, ONE))
    assert (published(last), told(last)) == ([], [])
    [end] = time.at(3400, AttemptEnded(Attempt(1)))
    assert isinstance(end, EndJob)
    assert end.outcome is Outcome.FAILED


# --- tables that change ---------------------------------------------------------------------------


def table(*columns: FieldShape, label: str = "db.t") -> dict[OperatorId, TypeShape]:
    return {SINK: TypeShape(name="table", label=label, fields=list(columns))}


def column(name: str, kind: str, required: bool = False) -> FieldShape:
    return FieldShape(name=name, type=TypeShape(name=kind), required=required)


def refusal(old: dict[OperatorId, TypeShape], new: dict[OperatorId, TypeShape]) -> str | None:
    error = target_refusal(old, new, {SINK: "orders"}, "checkpoint 7")
    return None if error is None else error.what


def test_a_table_may_gain_columns_that_may_be_null() -> None:
    old = table(column("n", "bigint"))
    assert refusal(old, table(column("n", "bigint"), column("note", "string"))) is None
    assert refusal(table(column("n", "bigint", required=True)), old) is None
    assert refusal(old, table(column("n", "string"), label="db.other")) is None


@pytest.mark.parametrize(
    ("before", "after", "is_wider"),
    [
        ("int32", "int64", True),
        ("int64", "int32", False),
        ("int32", "double", False),
        ("float", "double", True),
        ("decimal128(5, 2)", "decimal128(9, 2)", True),
        ("decimal128(5, 2)", "decimal128(9, 3)", False),
        ("decimal128(9, 2)", "decimal128(5, 2)", False),
    ],
)
def test_a_table_may_have_wider_types(before: str, after: str, is_wider: bool) -> None:
    found = refusal(table(column("n", before)), table(column("n", after)))
    assert (found is None) is is_wider


def test_other_changes_are_named_with_old_and_new_type() -> None:
    old = table(column("n", "bigint"), column("at", "timestamp"))
    new = table(column("n", "string"), column("who", "string", required=True))
    assert refusal(old, new) == (
        "table db.t has changed since checkpoint 7: column 'n' was bigint, and is now string; "
        "column 'at' (timestamp) is missing; column 'who' (string) is new, and NOT NULL"
    )
    must = table(column("n", "bigint", required=True), column("at", "timestamp"))
    assert refusal(old, must) == (
        "table db.t has changed since checkpoint 7: "
        "column 'n' (bigint) was nullable, and is now NOT NULL"
    )
