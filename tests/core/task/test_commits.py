"""Commits of sinks: each sink alone, in order, and with retries while its target is down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rheos.core.errors import CheckpointError, UnavailableError
from rheos.core.operators.contract import CommittingOperator
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.task.commits import Committing

KAFKA, TABLE = OperatorId("kafka"), OperatorId("table")


class _Completion:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._outcome: Callable[[], Any] | None = None

    def run(self) -> None:
        try:
            found = self._work()
        except Exception as error:
            raised = error

            def outcome() -> Any:
                raise raised
        else:

            def outcome() -> Any:
                return found

        self._outcome = outcome

    def done(self) -> bool:
        return self._outcome is not None

    def result(self) -> Any:
        assert self._outcome is not None
        return self._outcome()


class _Io:
    """I/O that runs submitted work when the test requests it."""

    def __init__(self) -> None:
        self.submitted: list[_Completion] = []

    def submit(self, work: Callable[[], Any]) -> _Completion:
        self.submitted.append(_Completion(work))
        return self.submitted[-1]

    def wake(self) -> None:
        pass

    def run(self) -> None:
        submitted, self.submitted = self.submitted, []
        for each in submitted:
            each.run()


class _Sink(CommittingOperator):
    def __init__(self) -> None:
        self.committed: list[list[bytes]] = []
        self.error: Exception | None = None

    def commit(self, committables: list[bytes]) -> None:
        if self.error is not None:
            raise self.error
        self.committed.append(committables)


class _World:
    def __init__(self) -> None:
        self.now_us = 0
        self.io: Any = _Io()
        self.sinks = {KAFKA: _Sink(), TABLE: _Sink()}
        self.committing = Committing(self.sinks, self.io, lambda: self.now_us)

    def checkpoint(self, number: int, *sinks: OperatorId) -> None:
        for sink in sinks:
            self.committing.stage(CheckpointId(number), sink, [f"{sink}{number}".encode()])
        self.committing.complete(CheckpointId(number))

    def settle(self) -> list[int]:
        """Run I/O until nothing more happens; return the reports."""
        reported = []
        while True:
            self.io.run()
            up_to = self.committing.poll()
            if up_to is not None:
                reported.append(int(up_to))
            if not self.io.submitted:
                return reported


def test_a_checkpoint_without_output_is_committed_at_once() -> None:
    world = _World()
    world.checkpoint(1)
    assert world.settle() == [1]
    assert world.committing.poll() is None


def test_epochs_are_committed_in_order_and_listed_until_then() -> None:
    world = _World()
    world.checkpoint(1, KAFKA)
    world.checkpoint(2, KAFKA, TABLE)
    assert [handle.payload for handle in world.committing.staged(CheckpointId(2))] == [
        b"kafka1",
        b"kafka2",
        b"table2",
    ]
    assert world.settle() == [1, 2]
    assert world.sinks[KAFKA].committed == [[b"kafka1"], [b"kafka2"]]
    assert world.sinks[TABLE].committed == [[b"table2"]]
    assert world.committing.staged(CheckpointId(2)) == []


def test_a_sink_with_an_unavailable_target_is_retried_and_blocks_no_other() -> None:
    world = _World()
    kafka, table = world.sinks[KAFKA], world.sinks[TABLE]
    kafka.error = UnavailableError("no broker answers")
    for number in range(1, 6):
        world.checkpoint(number, KAFKA, TABLE)
        world.settle()
        world.now_us += 120_000_000  # Longer than any patience.
    assert world.settle() == []
    assert table.committed == [[f"table{number}".encode()] for number in range(1, 6)]
    state = world.committing.sinks[KAFKA]
    assert state.waiting() == 5
    assert state.unpublished_ms() == state.since_published_ms() == 5 * 120_000
    retry_us = world.committing.next_us()
    assert retry_us is not None
    assert retry_us - world.now_us <= 1_000_000
    kafka.error = None
    world.now_us = max(world.now_us, retry_us)
    assert world.settle() == [5]
    assert kafka.committed == [[f"kafka{number}".encode() for number in range(1, 6)]]
    assert (state.waiting(), state.unpublished_ms(), world.committing.next_us()) == (0, 0, None)


def test_nothing_is_retried_before_it_is_due() -> None:
    world = _World()
    world.sinks[KAFKA].error = UnavailableError("no broker answers")
    world.checkpoint(1, KAFKA)
    world.settle()
    world.checkpoint(2, KAFKA)
    assert world.io.submitted == []
    assert world.committing.next_us() == 100_000


def test_permanent_errors_fail_the_attempt() -> None:
    world = _World()
    world.sinks[KAFKA].error = CheckpointError("the staged file is damaged")
    world.checkpoint(1, KAFKA)
    with pytest.raises(CheckpointError, match="damaged"):
        world.settle()


def test_later_committables_do_not_delay_an_earlier_report() -> None:
    world = _World()
    world.checkpoint(1, KAFKA)
    world.committing.stage(CheckpointId(2), TABLE, [b"not complete yet"])
    assert world.settle() == [1]


def test_logs_of_a_commit_belong_to_its_sink() -> None:
    """Check that logs belong to the sink, not to the operator that ran last, also in retries."""
    world = _World()
    at: list[OperatorId | None] = []
    submit = world.io.submit

    def noted(work: Callable[[], Any]) -> Any:
        at.append(world.committing.at)
        return submit(work)

    world.io.submit = noted
    for sink in world.sinks:
        world.committing.stage(CheckpointId(1), sink, [b"1"])
    world.sinks[TABLE].error = UnavailableError("the table is away")
    world.committing.complete(CheckpointId(1))
    world.io.run()
    world.committing.poll()
    world.now_us += 60_000_000
    world.committing.poll()
    world.committing.published(KAFKA, CheckpointId(1))
    assert at == [KAFKA, TABLE, TABLE]
    assert world.committing.at is None
