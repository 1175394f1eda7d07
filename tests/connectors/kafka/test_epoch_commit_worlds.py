"""One job in simulated worlds: attempts, checkpoints, crashes, recovering drivers, and replaced
processes that continue. Every epoch in the log is in the topic once, whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import pytest

from rheos.connectors.kafka.epoch_commits import Action, Commit, EpochCommits, TransientError, Write
from tests.connectors.kafka.simulated_broker import SimulatedBroker
from tests.connectors.kafka.test_epoch_commits import Committer, Folder

STEPS = 160
WORLDS = 250


class World:
    """World that is drawn from a seed. `may_stand_still`: time sometimes passes until the broker
    forgets marks."""

    def __init__(self, seed: int, *, may_stand_still: bool) -> None:
        self.random = Random(seed)
        self.may_stand_still = may_stand_still
        self.broker = SimulatedBroker()
        self.folders: dict[str, Folder] = {}
        self.checkpoint = 0
        self.logged: dict[str, list[int]] = {}
        """What the newest entry of the log lists, by writers."""
        self.promised: set[tuple[str, int]] = set()
        self.live: list[Committer] = []
        """The tasks of the attempt that runs; none while a driver recovers."""
        self.uncommitted: dict[str, list[int]] = {}
        """What the live writers staged and do not know to be committed."""
        self.recovering: list[Committer] = []
        self.replaced: list[Committer] = []
        self.late: list[tuple[Committer, Action]] = []
        """Requests of the dead that have not arrived."""
        self.begin_the_next_attempt()

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choices(*zip(*self.possible(), strict=True))[0]()
            self.check()
        self.end()

    def possible(self) -> list[tuple[Callable[[], None], int]]:
        found: list[tuple[Callable[[], None], int]] = [(self.broker_moves, 3)]
        if self.working():
            found += [(self.step, 16)]
        if self.live:
            found += [(self.stage, 4), (self.announce, 4), (self.lose_the_attempt, 1)]
        else:
            found += [(self.lose_the_driver, 1), (self.begin_the_next_attempt, 3)]
        if self.replaced:
            found += [(self.die, 1)]
        if self.late:
            found += [(self.arrive_late, 2)]
        return found

    # --- the job ----------------------------------------------------------------------------------

    def begin_the_next_attempt(self) -> None:
        if any(not committer.done for committer in self.recovering):
            if any(committer.error for committer in self.recovering):
                self.recover()
            return
        self.recovering = []
        for _ in range(self.random.randint(1, 2)):
            name = f"writer {len(self.folders)}"
            self.folders[name] = Folder()
            self.broker.create_mark(name)
            self.live.append(self.committer(name, []))
            self.uncommitted[name] = []

    def committer(self, name: str, epochs: list[int]) -> Committer:
        return Committer(self.broker, self.folders[name], name, epochs)

    def stage(self) -> None:
        """Pass a barrier. Its checkpoint is written to the log, or abandoned."""
        self.checkpoint += 1
        for task in self.live:
            known = task.epochs[-1] if task.done and task.epochs else 0
            kept = [epoch for epoch in self.uncommitted[task.name] if epoch > known]
            self.folders[task.name].staged.add(self.checkpoint)
            self.uncommitted[task.name] = [*kept, self.checkpoint]
        if self.random.random() < 0.8:
            self.logged = {task.name: self.uncommitted[task.name] for task in self.live}
            self.promised |= {(n, epoch) for n, epochs in self.logged.items() for epoch in epochs}

    def announce(self) -> None:
        """Let the tasks commit the epochs in the newest entry of the log."""
        for task in self.live:
            listed = self.logged.get(task.name, [])
            if task.done and listed and (not task.epochs or listed[-1] > task.epochs[-1]):
                task.ask(listed)

    def lose_the_attempt(self) -> None:
        self.replaced += self.live
        self.live = []
        self.recover()

    def lose_the_driver(self) -> None:
        self.replaced += self.recovering
        self.recover()

    def recover(self) -> None:
        self.recovering = [self.committer(name, epochs) for name, epochs in self.logged.items()]

    # --- those who commit, and the broker ---------------------------------------------------------

    def working(self) -> list[Committer]:
        return [c for c in (*self.replaced, *self.recovering, *self.live) if not c.over]

    def step(self) -> None:
        """Let one committer execute its next action, which succeeds, fails, or only seems to fail."""
        self.random.choice(self.working()).step(self.random.choice(["", "", "", "", "before", "after"]))

    def die(self) -> None:
        dead = self.random.choice(self.replaced)
        self.replaced.remove(dead)
        if isinstance(dead.next, Write | Commit):
            self.late.append((dead, dead.next))

    def arrive_late(self) -> None:
        dead, action = self.late.pop(self.random.randrange(len(self.late)))
        with contextlib.suppress(TransientError):
            dead.carry_out(action)

    def broker_moves(self) -> None:
        name = self.random.choice(sorted(self.folders))
        if self.may_stand_still and not self.live and self.random.random() < 0.2:
            self.broker.expire(name)
        elif self.random.random() < 0.8:
            self.broker.settle(name)
        else:
            self.broker.time_out(name)

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        topic = self.broker.topic
        assert len(topic) == len(set(topic)), f"twice: {topic}"
        assert set(topic) <= self.promised, "what the log does not hold"
        if self.live:
            # An attempt begins when all that the log had promised before is out.
            running = {task.name for task in self.live}
            assert {(n, e) for n, e in self.promised if n not in running} <= set(topic)

    def end(self) -> None:
        """Let a driver recover without faults. All epochs in the log must be in the topic. An error
        that this is unknown is allowed only if a mark was forgotten."""
        self.recover()
        unknown = {committer.name for committer in self.recovering if committer.run().error is not None}
        missing = self.promised - set(self.broker.topic)
        assert {name for name, _ in missing} <= unknown
        assert all(self.broker.names[name].mark is None for name in unknown)
        assert self.may_stand_still or not unknown
        self.check()


@pytest.mark.parametrize("may_stand_still", [False, True])
def test_every_epoch_in_the_log_is_in_the_topic_once(may_stand_still: bool) -> None:
    written = 0
    for seed in range(WORLDS):
        world = World(seed, may_stand_still=may_stand_still)
        try:
            world.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        written += len(world.broker.topic)
    assert written > 2 * WORLDS


def found(monkeypatch: pytest.MonkeyPatch, target: object, name: str, value: object) -> bool:
    """Return whether the worlds detect this change of the rules."""
    with monkeypatch.context() as broken:
        broken.setattr(target, name, value)
        try:
            test_every_epoch_in_the_log_is_in_the_topic_once(False)
            test_every_epoch_in_the_log_is_in_the_topic_once(True)
        except AssertionError:
            return True
    return False


def test_the_worlds_detect_each_broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstable(self: SimulatedBroker, name: str, *, stable: bool = True) -> int | None:
        return self.names[name].mark

    def unfenced(self: SimulatedBroker, name: str) -> int:
        return self.names[name].producer

    def guesses(self: EpochCommits, mark: int | None, epochs: object, noted: int) -> int:
        return noted if mark is None else mark

    def keeps_the_mark(self: EpochCommits) -> object:
        return iter(())

    def forgets_the_mark(self: EpochCommits, mark: int | None, epochs: object, noted: int) -> int:
        return noted

    assert found(monkeypatch, SimulatedBroker, "read_mark", unstable)  # KS4
    assert found(monkeypatch, SimulatedBroker, "fence", unfenced)  # KS4
    assert found(monkeypatch, EpochCommits, "_resolved", guesses)  # KS7
    assert found(monkeypatch, EpochCommits, "_resolved", forgets_the_mark)  # KS5
    assert found(monkeypatch, EpochCommits, "_let_go", keeps_the_mark)  # KS6
