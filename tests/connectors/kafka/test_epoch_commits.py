"""Epochs are committed once, by any committers in any interleaving. Tests of the pure part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import pytest

from rheos.connectors.kafka.epoch_commits import (
    PAUSES_MS,
    Action,
    Commit,
    Discard,
    EpochCommits,
    Fence,
    IfUnknown,
    Pause,
    ReadMark,
    Settle,
    Steps,
    TransientError,
    Write,
)
from rheos.core.errors import RheosError, TransportError, UnrestorableError
from tests.connectors.kafka.simulated_broker import SimulatedBroker

LOST = TransportError("the connection is gone")
GONE = UnrestorableError("the records are not there")


@dataclass
class Folder:
    """Staged epochs of one writer, and its note."""

    staged: set[int] = field(default_factory=set)
    noted: int = 0


@dataclass
class Committer:
    """Committer that executes its actions one at a time, on a simulated broker."""

    broker: SimulatedBroker
    folder: Folder
    name: str
    epochs: Sequence[int]
    if_unknown: IfUnknown = "fail"
    stable: bool = True
    done: bool = False
    error: RheosError | None = None
    decisions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.commits = EpochCommits(self.name, self.if_unknown)
        self._producer = 0
        self._begin()

    def ask(self, epochs: Sequence[int]) -> None:
        """Begin to commit the next epochs, with the state from earlier commits."""
        assert self.done
        self.epochs, self.done = epochs, False
        self._begin()

    def _begin(self) -> None:
        self._steps: Steps = self.commits.steps(self.epochs, self.folder.noted)
        self.next: Action | None = None
        self._take(lambda: next(self._steps))

    @property
    def over(self) -> bool:
        return self.done or self.error is not None

    def step(self, fails: str = "") -> None:
        """Execute the next action. `fails`: "before" it is executed, or "after", so that its answer is
        lost."""
        assert self.next is not None
        if fails == "before":
            return self._throw(TransientError(LOST))
        try:
            answer = self.carry_out(self.next)
        except TransientError as failure:
            return self._throw(failure)
        if fails == "after":
            return self._throw(TransientError(LOST))
        return self._take(lambda: self._steps.send(answer))

    def run(self) -> Committer:
        while not self.over:
            self.broker.settle(self.name)
            self.step()
        return self

    def carry_out(self, action: Action) -> int | None:
        match action:
            case Fence():
                self._producer = self.broker.fence(self.name)
            case ReadMark():
                return self.broker.read_mark(self.name, stable=self.stable)
            case Write(epoch):
                if epoch not in self.folder.staged:
                    raise TransientError(GONE)
                self.broker.write(self.name, self._producer, epoch)
            case Commit():
                self.broker.commit(self.name, self._producer)
            case Settle(epoch):
                self.folder.noted = max(self.folder.noted, epoch)
                self.folder.staged.discard(epoch)
            case Discard() | Pause():
                pass
            case _:
                assert_never(action)
        return None

    def _throw(self, failure: TransientError) -> None:
        if isinstance(self.next, Discard | Pause):
            return self._take(lambda: next(self._steps))  # They cannot fail.
        return self._take(lambda: self._steps.throw(failure))

    def _take(self, go: object) -> None:
        try:
            self.next = go()  # type: ignore[operator]
            self.decisions.append(self.next)
        except StopIteration:
            self.next, self.done = None, True
        except RheosError as error:
            self.next, self.error = None, error


def world(*staged: int) -> tuple[SimulatedBroker, Folder]:
    broker = SimulatedBroker()
    broker.create_mark("w")
    return broker, Folder(set(staged))


def test_epochs_are_written_in_order_each_in_a_transaction_with_its_number() -> None:
    broker, folder = world(4, 7)
    done = Committer(broker, folder, "w", [4, 7]).run()
    assert done.decisions == [
        Fence(),
        ReadMark(),
        *(Write(4), Commit(4), Settle(4)),
        *(Write(7), Commit(7), Settle(7)),
    ]
    assert broker.topic == [("w", 4), ("w", 7)]
    assert folder == Folder(set(), noted=7)


def test_later_epochs_do_not_read_the_mark_again() -> None:
    broker, folder = world(1, 2)
    task = Committer(broker, folder, "w", [1]).run()
    task.ask([1, 2])
    task.run()
    assert task.decisions[5:] == [Settle(1), Write(2), Commit(2), Settle(2)]
    assert broker.topic == [("w", 1), ("w", 2)]


def test_an_epoch_committed_by_another_is_only_settled() -> None:
    broker, folder = world(1)
    task = Committer(broker, folder, "w", [1])
    for _ in range(4):  # Killed before it could note that.
        task.step()
    assert broker.topic == [("w", 1)]
    recovery = Committer(broker, folder, "w", [1]).run()
    assert recovery.decisions == [Fence(), ReadMark(), Settle(1)]
    assert broker.topic == [("w", 1)]


def test_a_mark_is_read_only_when_the_transaction_before_is_settled() -> None:
    broker, folder = world(1)
    task = Committer(broker, folder, "w", [1])
    for _ in range(4):
        task.step()
    recovery = Committer(broker, folder, "w", [1])
    recovery.step()
    recovery.step()  # The group coordinator has not yet taken the mark over.
    assert isinstance(recovery.next, Discard)
    assert recovery.run().done
    assert broker.topic == [("w", 1)]
    # Who asks for the mark without waiting for that writes it again: this is what the rule is for.
    broker, folder = world(1)
    task = Committer(broker, folder, "w", [1])
    for _ in range(4):
        task.step()
    hasty = Committer(broker, folder, "w", [1], stable=False)
    while not hasty.over:
        hasty.step()
    assert broker.topic == [("w", 1), ("w", 1)]


def test_a_replaced_committer_is_fenced_in_its_transaction() -> None:
    broker, folder = world(1)
    zombie = Committer(broker, folder, "w", [1])
    for _ in range(3):
        zombie.step()
    assert zombie.next == Commit(1)
    Committer(broker, folder, "w", [1]).run()
    zombie.step()
    assert isinstance(zombie.next, Discard)
    zombie.run()
    assert broker.topic == [("w", 1)]


def test_records_committed_and_removed_by_another_are_not_lost() -> None:
    broker, folder = world(1)
    recovery = Committer(broker, folder, "w", [1])
    recovery.step()
    recovery.step()
    assert recovery.next == Write(1)
    Committer(broker, folder, "w", [1]).run()
    assert recovery.run().done
    assert broker.topic == [("w", 1)]


def test_missing_records_above_the_mark_are_lost() -> None:
    broker, folder = world()
    assert Committer(broker, folder, "w", [1]).run().error is GONE
    assert broker.topic == []


def test_a_late_replaced_committer_finds_the_mark() -> None:
    broker, folder = world(1)
    zombie = Committer(broker, folder, "w", [1])
    Committer(broker, folder, "w", [1]).run()
    assert zombie.run().decisions == [Fence(), ReadMark(), Settle(1)]
    assert broker.topic == [("w", 1)]


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_commit_of_unknown_outcome_is_looked_up(lost: str) -> None:
    broker, folder = world(1)
    task = Committer(broker, folder, "w", [1])
    for _ in range(3):
        task.step()
    task.step(fails=lost)
    assert isinstance(task.next, Discard)
    task.run()
    assert task.done
    assert broker.topic == [("w", 1)]
    assert task.commits.retries == 1


def test_repeated_failures_fail_the_commit() -> None:
    broker, folder = world(1)
    task = Committer(broker, folder, "w", [1])
    while not task.over:
        task.step(fails="before")
    assert task.error is LOST
    assert [a for a in task.decisions if isinstance(a, Pause)] == [Pause(ms) for ms in PAUSES_MS]
    assert broker.topic == []


def test_permanent_errors_are_not_retried() -> None:
    broker, folder = world(1)
    steps = EpochCommits("w").steps([1], 0)
    assert next(steps) == Fence()
    assert steps.throw(UnrestorableError("damaged")) == Discard()
    with pytest.raises(UnrestorableError, match="damaged"):
        next(steps)
    assert broker.topic == []
    assert folder.staged == {1}


def test_without_a_mark_the_note_is_used() -> None:
    broker, folder = world(1)
    Committer(broker, folder, "w", [1]).run()
    broker.expire("w")
    assert Committer(broker, folder, "w", [1]).run().decisions == [Settle(1)]
    assert broker.topic == [("w", 1)]


def test_without_mark_and_note_nothing_is_committed() -> None:
    broker, folder = world(3, 5, 8)
    task = Committer(broker, folder, "w", [3, 5, 8])
    for _ in range(7):  # 3 is noted; 5 is committed, and not noted.
        task.step()
    assert (broker.topic, folder.noted) == ([("w", 3), ("w", 5)], 3)
    broker.expire("w")
    error = Committer(broker, folder, "w", [3, 5, 8]).run().error
    assert isinstance(error, UnrestorableError)
    assert "it is unknown whether the records staged for checkpoint 5, 8 are already in" in error.what
    assert "are already in the topic: the broker no longer has an offset of the group w" in error.what
    assert "if_unknown=" in (error.hint or "")
    assert broker.topic == [("w", 3), ("w", 5)]
    assert folder.staged == {5, 8}
    skipped = Committer(broker, folder, "w", [3, 5, 8], "skip").run()
    assert skipped.done
    assert broker.topic == [("w", 3), ("w", 5)]


def test_the_user_may_choose_to_write_unknown_epochs() -> None:
    broker, folder = world(5, 8)
    broker.expire("w")
    assert Committer(broker, folder, "w", [5, 8], "write").run().done
    assert broker.topic == [("w", 5), ("w", 8)]
    broker.settle("w")
    assert broker.names["w"].mark == 8
