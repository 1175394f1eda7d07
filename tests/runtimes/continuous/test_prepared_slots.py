"""Slots that restore checkpoints ahead of the next attempt, next to a running one (UP12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import TransportError
from rheos.core.protocol.control import Cancel
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.continuous.control import AHEAD, BeginAttempt, RestoreAhead
from rheos.runtimes.continuous.prepared_slots import PreparedSlots, SlotStage
from tests.core.checkpoint.timelines import completed

LOST = TransportError("a worker is lost")
BEGIN = BeginAttempt(attempt=AHEAD, next=Attempt(2), restore=None)


def restore(checkpoint: int) -> Restore:
    return Restore(entry=completed(checkpoint))


@dataclass
class Channel:
    """Stand-in for a control channel, which remembers what it was sent."""

    sent: list[object] = field(default_factory=list)

    def send(self, message: object) -> None:
        self.sent.append(message)


class Slots:
    """The group, with stand-ins for Spark and the channel."""

    def __init__(self) -> None:
        self.now_us = 0
        self.shortage: str | None = None
        self.stages: list[SlotStage] = []
        self.cancelled: list[SlotStage] = []
        self.channel = Channel()
        self.group = PreparedSlots(
            JobId("job"),
            room=lambda slots: self.shortage,
            start=self._start,
            cancel=self.cancelled.append,
            now_us=lambda: self.now_us,
        )
        self.group.may_start = True

    def _start(self, restore: Restore, parallelism: int) -> SlotStage:
        channel: Any = self.channel
        self.stages.append(SlotStage(f"stage {len(self.stages)}", channel))
        return self.stages[-1]

    def ready(self, checkpoint: int = 1) -> Slots:
        """Let both slots start, join and restore a checkpoint."""
        self.group.request(restore(checkpoint), 2)
        self.group.joined()
        for subtask in (0, 1):
            self.group.restored(subtask, CheckpointId(checkpoint))
        return self


def test_an_attempt_takes_slots_that_have_joined() -> None:
    slots = Slots().ready()
    assert slots.group.has_prepared()
    assert slots.group.take(BEGIN, 2) is slots.stages[0]
    assert slots.channel.sent == [BEGIN]
    assert slots.group.stage is None
    assert not slots.group.has_prepared()


def test_they_restore_later_checkpoints() -> None:
    slots = Slots().ready()
    slots.group.request(restore(2), 2)
    assert slots.channel.sent == [RestoreAhead(attempt=AHEAD, restore=restore(2))]
    assert len(slots.stages) == 1


def test_a_request_waits_until_they_have_joined() -> None:
    slots = Slots()
    slots.group.request(restore(1), 2)
    slots.group.request(restore(2), 2)
    assert slots.channel.sent == []
    slots.group.joined()
    slots.group.carry_out()
    assert slots.channel.sent == [RestoreAhead(attempt=AHEAD, restore=restore(2))]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_an_attempt_of_another_parallelism_ends_them(parallelism: int) -> None:
    slots = Slots().ready()
    assert slots.group.take(BEGIN, parallelism) is None
    assert slots.channel.sent == [Cancel(attempt=AHEAD, replaced=True)]
    assert slots.cancelled == slots.stages


def test_an_attempt_does_not_wait_for_slots_that_start() -> None:
    slots = Slots()
    slots.group.request(restore(1), 2)
    assert slots.group.take(BEGIN, 2) is None
    assert slots.cancelled == slots.stages


def test_others_follow_failed_ones_after_pauses_that_grow() -> None:
    slots = Slots().ready()
    pauses_us = []
    for _ in range(3):
        slots.group.failed(LOST)
        assert slots.group.take(BEGIN, 2) is None or slots.stages
        slots.group.ended(slots.stages[-1], LOST)
        failed_us, started = slots.now_us, len(slots.stages)
        slots.group.request(restore(2), 2)
        while len(slots.stages) == started:
            slots.now_us += 100_000
            slots.group.carry_out()
        pauses_us.append(slots.now_us - failed_us)
    assert pauses_us == [1_000_000, 2_000_000, 4_000_000]


def test_slots_that_have_failed_are_not_taken() -> None:
    slots = Slots().ready()
    slots.group.failed(LOST)
    assert slots.cancelled == slots.stages
    assert slots.group.take(BEGIN, 2) is None


def test_a_lack_of_slots_is_reported_once_and_ends_when_there_are_enough(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slots = Slots()
    slots.shortage = "the master has 3 slots, and 4 are needed"
    for _ in range(3):
        slots.group.request(restore(1), 2)
        slots.now_us += 60_000_000
    assert slots.stages == []
    assert slots.group.not_prepared() == slots.shortage
    assert [record.getMessage() for record in caplog.records] == [
        "a restart of the job 'job' would take longer: the master has 3 slots, and 4 are needed"
    ]
    slots.shortage = None
    slots.now_us += 60_000_000
    assert slots.ready().group.not_prepared() is None
