"""Counters of a job continue over its drivers: restarts, checkpoints completed and failed."""

from __future__ import annotations

import msgspec

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AppendLog,
    AttemptEnded,
    AttemptRunning,
    Event,
    LogAppended,
    LogRead,
    Recovered,
    Start,
    SubtaskFailed,
    Tick,
)
from rheos.core.checkpoint.log_entries import JobCounts, LogEntry
from rheos.core.errors import TransportError
from rheos.core.protocol.control import Decline
from rheos.core.protocol.ids import CheckpointId, JobId
from tests.core.checkpoint.timelines import CONFIG, SHAPE, acknowledge, view_of


class Driver:
    """Driver that steps a coordinator over a log which earlier drivers have written."""

    def __init__(self, owner: str, log: list[LogEntry]) -> None:
        self.coordinator = Coordinator(JobId("job"), owner, CONFIG, SHAPE, "DIR")
        self.log = log
        self.now_ms = 0
        self.feed(Start())

    def feed(self, *events: Event) -> list[Action]:
        made = [action for event in events for action in self.coordinator.handle(event, self.now_ms)]
        for action in made:
            if isinstance(action, AppendLog):
                self.log.append(action.entry)
                made += self.feed(LogAppended(action.number))
        return made

    def runs(self) -> None:
        self.feed(LogRead(view_of(*self.log)))
        attempt = self.coordinator.attempt
        self.feed(Recovered(attempt), AttemptRunning(attempt))

    def after(self, ms: int) -> None:
        self.now_ms += ms
        self.feed(Tick())

    def completes(self, checkpoint: int) -> None:
        self.after(CONFIG.interval_ms or 0)
        attempt = self.coordinator.attempt
        self.feed(*(acknowledge(subtask, checkpoint, attempt) for subtask in (0, 1)))

    def fails(self) -> None:
        attempt = self.coordinator.attempt
        self.feed(SubtaskFailed(attempt, 1, TransportError("lost")), AttemptEnded(attempt))
        self.after(60_000)


def test_counts_continue_over_drivers() -> None:
    log: list[LogEntry] = []
    first = Driver("a", log)
    first.runs()
    first.completes(1)
    first.completes(2)
    first.fails()
    first.runs()
    assert first.coordinator.earlier == JobCounts()
    assert log[-1].counts == JobCounts(drivers=1, restarts=1, completed=2)
    second = Driver("b", log)
    second.runs()
    assert second.coordinator.earlier == log[-2].counts
    assert (second.coordinator.restarts, second.coordinator.stats.completed) == (0, 0)
    second.after(CONFIG.interval_ms or 0)
    open_id = CheckpointId(second.coordinator.stats.completed + log[-1].reserved_to)
    attempt = second.coordinator.attempt
    declines = [
        Decline(attempt=attempt, subtask=0, checkpoint=CheckpointId(id), reason="the disk is full")
        for id in range(1, open_id + 1)
    ]
    second.feed(*declines)
    assert second.coordinator.stats.failed == 1
    second.fails()
    second.runs()
    assert log[-1].counts == JobCounts(drivers=2, restarts=2, completed=2, failed=1)
    third = Driver("c", log)
    third.feed(LogRead(view_of(*log)))
    assert third.coordinator.earlier == JobCounts(drivers=2, restarts=2, completed=2, failed=1)


def test_an_entry_of_0_1_0_has_no_counts() -> None:
    log: list[LogEntry] = []
    Driver("a", log).runs()
    stored = msgspec.json.decode(msgspec.json.encode(log[0]))
    stored.pop("counts")
    assert msgspec.json.decode(msgspec.json.encode(stored), type=LogEntry).counts == JobCounts()
