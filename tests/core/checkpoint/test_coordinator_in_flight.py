"""Several checkpoints in flight, on timelines (CP4, CP8, CP10, CP14)."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    Announce,
    AppendLog,
    AttemptRunning,
    DeleteFiles,
    DropEntries,
    LogAppended,
    LogRead,
    Recovered,
    SendToAll,
    Start,
    StopAttempt,
    Tick,
)
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import CheckpointError
from rheos.core.protocol.control import (
    CheckpointAborted,
    CheckpointComplete,
    Cost,
    Decline,
    Drained,
    TriggerCheckpoint,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from tests.core.checkpoint.timelines import CONFIG, SHAPE, Timeline, acknowledge, file

THREE = replace(CONFIG, max_concurrent=3)
ONE = Attempt(1)


def trigger(checkpoint: int) -> SendToAll:
    return SendToAll(TriggerCheckpoint(attempt=ONE, checkpoint=CheckpointId(checkpoint)))


def complete(checkpoint: int) -> SendToAll:
    return SendToAll(CheckpointComplete(attempt=ONE, checkpoint=CheckpointId(checkpoint)))


def aborted(checkpoint: int) -> SendToAll:
    return SendToAll(CheckpointAborted(attempt=ONE, checkpoint=CheckpointId(checkpoint)))


def decline(checkpoint: int, subtask: int = 0) -> Decline:
    return Decline(attempt=ONE, subtask=subtask, checkpoint=CheckpointId(checkpoint), reason="full")


def opened(time: Timeline) -> Timeline:
    """Play until checkpoints 1, 2 and 3 are open, since 1000, 2000 and 3000."""
    time.runs()
    for checkpoint in (1, 2, 3):
        assert time.at(checkpoint * 1000, Tick()) == [trigger(checkpoint)]
    return time


def entry_of(action: Action) -> CheckpointCompleted:
    assert isinstance(action, AppendLog | Announce)
    entry = action.entry if isinstance(action, AppendLog) else action.checkpoint
    assert isinstance(entry, CheckpointCompleted)
    return entry


def test_no_more_than_allowed_are_open() -> None:
    time = opened(Timeline(THREE))
    assert time.at(4000, Tick()) == []
    assert time.coordinator.next_deadline_ms() == 6000
    assert time.completes(4100, 1)[1:] == [complete(1), trigger(4)]


def test_checkpoints_complete_in_order() -> None:
    time = opened(Timeline(THREE))
    for checkpoint in (1, 2, 3):
        told = time.completes(4000 + checkpoint, checkpoint)
        assert complete(checkpoint) in told
        assert not [message for message in told if message == aborted(checkpoint)]


def test_a_completed_checkpoint_ends_older_ones() -> None:
    """Check CP14: its sinks commit what the older ones staged."""
    time = opened(Timeline(THREE))
    assert time.at(3100, acknowledge(0, 1), acknowledge(0, 2), acknowledge(0, 3)) == []
    [append] = time.at(3200, acknowledge(1, 2))
    assert entry_of(append).checkpoint == 2
    announced, *told = time.log_takes(3300, append)
    assert entry_of(announced).checkpoint == 2
    assert told[:2] == [complete(2), aborted(1)]
    assert time.at(3400, acknowledge(1, 1), decline(1)) == []
    stats = time.coordinator.stats
    assert (stats.completed, stats.failed) == (1, 0), "it did not fail: it was not needed any more"
    [append] = time.at(3500, acknowledge(1, 3))
    assert entry_of(append).checkpoint == 3


def test_entries_are_written_one_at_a_time() -> None:
    """Check CP1: a checkpoint that completes meanwhile waits, and an older one is not written any
    more."""
    time = opened(Timeline(THREE))
    time.at(3100, *(acknowledge(0, checkpoint) for checkpoint in (1, 2, 3)))
    [append] = time.at(3200, acknowledge(1, 2))
    assert time.at(3300, acknowledge(1, 1), acknowledge(1, 3)) == []
    *told, next_append = time.log_takes(3400, append)
    assert told[1:3] == [complete(2), aborted(1)]
    assert entry_of(next_append).checkpoint == 3


def test_of_several_waiting_checkpoints_the_newest_is_written() -> None:
    time = opened(Timeline(THREE))
    time.at(3100, *(acknowledge(0, checkpoint) for checkpoint in (1, 2, 3)))
    [append] = time.at(3200, acknowledge(1, 1))
    time.at(3300, acknowledge(1, 2), acknowledge(1, 3))
    *_, newest = time.log_takes(3400, append)
    assert entry_of(newest).checkpoint == 3
    assert time.log_takes(3500, newest)[1:3] == [complete(3), aborted(2)]


def test_each_checkpoint_has_its_own_deadline() -> None:
    time = opened(Timeline(replace(THREE, tolerable_failures=9)))
    assert time.at(6000, Tick()) == [aborted(1), trigger(4)]
    assert time.coordinator.next_deadline_ms() == 7000
    assert time.at(7000, Tick()) == [aborted(2), trigger(5)]


def test_one_failure_too_many_fails_the_attempt_and_all_open_checkpoints() -> None:
    time = opened(Timeline(THREE))
    assert time.at(3100, decline(2)) == [aborted(2)]
    actions = time.at(3101, decline(1))
    assert actions == [aborted(1), StopAttempt(ONE)]
    assert isinstance(time.coordinator.last_error, CheckpointError)
    assert time.coordinator.stats.failed == 3


def test_ids_do_not_run_out_before_the_next_entry() -> None:
    """Check CP4: the ids suffice for all that may fail and all that may be open."""
    time = opened(Timeline(THREE))
    assert time.log[0].reserved_to == 1 + 3
    time.at(3100, decline(3))
    assert time.at(4000, Tick()) == [trigger(4)]
    [append] = time.at(4100, acknowledge(0, 1), acknowledge(1, 1))
    assert entry_of(append).reserved_to == 4 + 1 + 3


def test_the_final_checkpoint_waits_for_all_others() -> None:
    """Check CP9."""
    time = opened(Timeline(THREE))
    assert time.at(3100, *(Drained(attempt=ONE, subtask=i) for i in (0, 1))) == []
    time.completes(3200, 2)
    told = time.completes(3300, 3)
    assert told[-1] == trigger(4)


def test_with_a_pause_only_one_checkpoint_is_in_flight() -> None:
    time = Timeline(replace(THREE, min_pause_ms=10)).runs()
    assert time.at(1000, Tick()) == [trigger(1)]
    assert time.at(2000, Tick()) == []


def test_a_file_that_an_open_checkpoint_may_need_outlives_the_abort_of_another() -> None:
    """Check CP10: 2 is aborted, and subtask 1 has written a file for it, on which its chain in 3
    builds. The completion of 1 meanwhile, without the file, means nothing."""
    time = opened(Timeline(replace(THREE, retain=1)))
    time.at(3100, acknowledge(1, 2), decline(2))
    time.completes(3200, 1)
    chain = tuple(file(1, checkpoint, 1) for checkpoint in (1, 2, 3))
    [append] = time.at(3300, acknowledge(0, 3), acknowledge(1, 3, paths=chain))
    told = time.log_takes(3400, append)
    assert told[2:4] == [DropEntries((2,)), DeleteFiles((file(1, 1, 0),))]


def test_the_cost_of_a_checkpoint_is_in_its_entry() -> None:
    """Check the costs in an entry; the time of day is passed in."""
    coordinator = Coordinator(JobId("job"), "me", CONFIG, SHAPE)
    now = 0
    for event in (Start(), LogRead(LogView()), LogAppended(1), Recovered(ONE), AttemptRunning(ONE)):
        coordinator.handle(event, now)
    coordinator.handle(Tick(), 1000)
    slow, quick = Cost(sync_us=50, written_bytes=7), Cost(sync_us=20, written_bytes=4, align_us=9)
    shares = [
        msgspec.structs.replace(acknowledge(subtask, 1), cost=cost)
        for subtask, cost in enumerate((slow, quick))
    ]
    coordinator.handle(shares[0], 1100, 7_000_000)
    [append] = coordinator.handle(shares[1], 1250, 7_000_150)
    entry = entry_of(append)
    assert (entry.duration_ms, entry.completed_ms) == (250, 7_000_150)
    assert entry.cost == Cost(sync_us=50, align_us=9, written_bytes=11)
    assert entry.states == {}
