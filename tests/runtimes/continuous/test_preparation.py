"""Slots that restore checkpoints before an attempt begins (UP10)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import zmq

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.task.config import TaskConfig
from rheos.core.task.slot import Deployment
from rheos.runtimes.continuous.control import (
    AHEAD,
    BeginAttempt,
    Join,
    RestoreAhead,
    RestoredAhead,
    body_of,
    framed,
    from_driver,
)
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.continuous.preparation import BegunSlot, Preparation
from rheos.runtimes.continuous.preparation_progress import PreparationProgress, SlotsState
from tests.core.checkpoint.timelines import completed
from tests.core.task.cluster import JOB, Job, planned
from tests.core.task.programs import build, made
from tests.runtimes.continuous.test_control import NEVER_MS, TOKEN, server
from tests.waiting import wait_for
from tests.worlds import programs

TASK = TaskConfig(batch_rows=8, credits=2, buffer_timeout_us=0)


class TestTheirProgress:
    def test_they_are_current_when_each_has_restored_one_of_the_last_two_checkpoints(self) -> None:
        slots = PreparationProgress(2, CheckpointId(7))
        slots.restored(0, CheckpointId(7))
        assert not slots.are_current()
        slots.restored(1, CheckpointId(7))
        assert slots.are_current()
        slots.requested(CheckpointId(8))
        assert slots.are_current(), "they follow by one checkpoint"
        slots.requested(CheckpointId(9))
        assert not slots.are_current()
        slots.restored(0, CheckpointId(9))
        slots.restored(1, CheckpointId(8))
        assert slots.are_current()

    def test_nobody_waits_for_slots_that_have_failed(self) -> None:
        slots = PreparationProgress(2, CheckpointId(7))
        slots.state = SlotsState.FAILED
        assert slots.are_current()


@pytest.mark.parametrize("restore", [None, Restore(entry=completed(3))])
def test_the_order_to_begin_passes_the_channel(restore: Restore | None) -> None:
    order = BeginAttempt(attempt=AHEAD, next=Attempt(4), restore=restore)
    body = body_of(TOKEN, framed(TOKEN, order), "the driver")
    assert body is not None
    assert from_driver.decode(body) == order


class Slot:
    """A slot before its attempt, in a thread, and its driver."""

    def __init__(self, context: zmq.Context[Any], job: Job) -> None:
        self.driver = server(NEVER_MS)
        self.driver.expect(AHEAD, 1)
        awake = threading.Event()
        join = Join(AHEAD, 0, "", "1.0")
        self._client = ControlClient(
            context, self.driver.address, TOKEN, join, None, awake.set, NEVER_MS
        )
        deployment = Deployment(job.plan, JOB, JOB, AHEAD, TASK, {}, None)
        self._preparation = Preparation(deployment, 0, job.store, self._client, awake)
        self.ends: list[BegunSlot | None] = []
        assert job.newest is not None
        self._first = Restore(entry=job.newest)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._client.start()
        try:
            self.ends.append(self._preparation.run(self._first))
        finally:
            self._client.close()

    def restored(self) -> int:
        """Wait until the slot has restored a checkpoint, and return that."""
        [message] = wait_for(self.messages)
        checkpoint: int = message.checkpoint
        return checkpoint

    def messages(self) -> list[RestoredAhead]:
        return [message for message in self.driver.poll() if isinstance(message, RestoredAhead)]

    def close(self) -> None:
        self._thread.join(60)
        self.driver.close()


@pytest.fixture
def job() -> Job:
    job = Job(planned(build(programs.RUNNING, made())), TASK, parallelism=1)
    job.cluster.run(60)
    job.take()
    return job


def test_a_slot_catches_up_until_its_attempt_begins(context: zmq.Context[Any], job: Job) -> None:
    slot = Slot(context, job)
    assert slot.restored() == 1
    job.cluster.run(20)
    job.take()
    assert job.newest is not None
    slot.driver.send(RestoreAhead(attempt=AHEAD, restore=Restore(entry=job.newest)))
    assert slot.restored() == 2
    begin = BeginAttempt(attempt=AHEAD, next=Attempt(2), restore=Restore(entry=job.newest))
    slot.driver.send(begin)
    [end] = wait_for(lambda: slot.ends)
    assert end is not None
    assert end.begin == begin
    assert end.prepared.take(begin.restore).states
    slot.close()


def test_a_slot_ends_when_the_driver_releases_it(context: zmq.Context[Any], job: Job) -> None:
    slot = Slot(context, job)
    slot.restored()
    slot.driver.send(control.Cancel(attempt=AHEAD))
    assert wait_for(lambda: slot.ends) == [None]
    slot.close()


def test_a_slot_reports_a_checkpoint_that_it_fails_to_restore_three_times(
    context: zmq.Context[Any], job: Job
) -> None:
    files = job.store.files
    job.store.files = {}
    slot = Slot(context, job)
    newest = job.newest
    assert newest is not None

    def reported() -> list[RestoredAhead]:
        slot.driver.send(RestoreAhead(attempt=AHEAD, restore=Restore(entry=newest)))
        return slot.messages()

    assert wait_for(reported)[0].checkpoint == 1
    job.store.files = files
    slot.driver.send(control.Cancel(attempt=AHEAD))
    slot.close()
