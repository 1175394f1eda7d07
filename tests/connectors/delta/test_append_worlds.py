"""One job in simulated worlds: attempts, checkpoints, crashes between any two steps, recovering
drivers, replaced drivers that continue, lost answers, and other writers. Each row in the log is in the
table once.

docs/protocols/delta-sink.md has the invariants DL1 to DL7.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from random import Random

import pytest

from rheos.connectors.table_log import epoch_append
from rheos.connectors.table_log.epoch_append import (
    Action,
    Append,
    Look,
    PauseBeforeLook,
    StagedDataFile,
    Steps,
    TableVersion,
    UncertainAppendError,
    append_steps,
)
from rheos.core.errors import UnavailableError
from tests.connectors.delta.simulated_table import SimulatedTable, data_file

STEPS = 120
WORLDS = 200
SINK = "rheos/job/sink/log"
LOST = UnavailableError("no answer")


PlainTable = SimulatedTable


class Driver:
    """A driver that appends the files which one entry of the log lists, one action at a time."""

    def __init__(self, table: SimulatedTable, files: Sequence[StagedDataFile]) -> None:
        self.table = table
        self.files = files
        self.begin()

    def begin(self) -> None:
        self.failed = False
        self.done = not self.files
        self.next: Action | None = None
        if self.files:
            self.take(self.files)

    def take(self, files: Sequence[StagedDataFile]) -> None:
        self.steps: Steps = append_steps(files)
        self.go_on(None, None)

    def go_on(self, answer: TableVersion | None, failure: UncertainAppendError | None) -> None:
        try:
            self.next = self.steps.throw(failure) if failure else next_of(self.steps, answer)
        except StopIteration:
            self.done = True
        except (UnavailableError, UncertainAppendError):
            self.failed = True

    def step(self, fault: str) -> None:
        """Execute the next action, which succeeds, fails, or takes effect and loses its answer."""
        if self.failed:
            self.begin()  # The runtime retries until the commit succeeds.
            return
        match self.next:
            case Look() if fault:
                self.failed = True
            case Look():
                self.go_on(self.table.look(SINK), None)
            case Append() as action:
                try:
                    if fault != "before":
                        self.write(action)
                    if fault:
                        raise UncertainAppendError(LOST)
                except UncertainAppendError as failure:
                    self.go_on(None, failure)
                else:
                    self.go_on(None, None)
            case PauseBeforeLook():
                self.go_on(None, None)

    def write(self, action: Append) -> None:
        self.table.append(SINK, action)

    def in_flight(self) -> Callable[[], None] | None:
        """Return the request that a dead driver may have sent."""
        action = self.next
        if self.done or not isinstance(action, Append):
            return None
        return lambda: self.table.append(SINK, action)


def next_of(steps: Steps, answer: TableVersion | None) -> Action:
    return steps.send(answer) if answer is not None else next(steps)


class World:
    """World that is drawn from a seed."""

    drivers: type[Driver] = Driver

    def __init__(self, seed: int, table: SimulatedTable | None = None) -> None:
        self.random = Random(seed)
        self.table = SimulatedTable() if table is None else table
        self.attempt = 0
        self.checkpoint = 0
        self.files = 0
        self.logged: list[StagedDataFile] = []
        """Files in the newest entry of the log."""
        self.promised: set[str] = set()
        self.before: set[str] = set()
        """Paths that the log had promised before the running attempt began."""
        self.foreign: set[str] = set()
        self.staged: list[StagedDataFile] | None = None
        """Files of the running attempt that may be unpublished; None without an attempt."""
        self.driver: Driver | None = None
        """The driver's append that runs, or a recovery."""
        self.replaced: list[Driver] = []
        self.late: list[Callable[[], None]] = []
        """Appends of the dead that have not arrived."""
        self.recover()

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choices(*zip(*self.possible(), strict=True))[0]()
            self.check()
        self.end()

    def possible(self) -> list[tuple[Callable[[], None], int]]:
        found: list[tuple[Callable[[], None], int]] = [(self.write_elsewhere, 2), (self.compact, 1)]
        if self.working():
            found.append((self.step, 14))
        if self.staged is None:
            found += [(self.begin_an_attempt, 4), (self.recover, 1)]
        else:
            found += [(self.stage, 5), (self.publish, 4), (self.recover, 1)]
        if self.replaced:
            found.append((self.die, 1))
        if self.late:
            found.append((self.arrive_late, 2))
        return found

    # --- the job ----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Lose the driver and the attempt. The next driver publishes what the newest entry lists."""
        if self.driver is not None:
            self.replaced.append(self.driver)
        self.staged = None
        self.driver = self.drivers(self.table, self.logged)

    def begin_an_attempt(self) -> None:
        assert self.driver is not None
        if self.driver.done:
            self.attempt += 1
            self.staged, self.before = [], set(self.promised)

    def stage(self) -> None:
        """Pass a barrier. Its checkpoint is written to the log, or abandoned."""
        assert self.staged is not None
        self.checkpoint += 1
        for _ in range(self.random.randint(0, 2)):
            self.files += 1
            self.staged.append(data_file(path := f"file {self.files}", self.checkpoint))
            self.fill(path)
        if self.random.random() < 0.7:
            self.logged = list(self.staged)
            self.promised |= {file.path for file in self.logged}

    def fill(self, path: str) -> None:
        """Write the rows of a staged file. An append's file has one, with the file's name."""

    def publish(self) -> None:
        """Let the driver append what the newest entry lists, after its last append has ended."""
        assert self.staged is not None
        assert self.driver is not None
        if self.driver.done:
            published = {file.path for file in self.driver.files}
            self.staged = [file for file in self.staged if file.path not in published]
            listed = [file for file in self.logged if file.path not in published]
            self.driver = self.drivers(self.table, listed)

    # --- those who append -------------------------------------------------------------------------

    def working(self) -> list[Driver]:
        drivers = [*self.replaced, *([self.driver] if self.driver else [])]
        return [driver for driver in drivers if not driver.done]

    def step(self) -> None:
        self.random.choice(self.working()).step(self.random.choice(["", "", "", "", "before", "after"]))

    def die(self) -> None:
        dead = self.replaced.pop(self.random.randrange(len(self.replaced)))
        if (request := dead.in_flight()) is not None:
            self.late.append(request)

    def arrive_late(self) -> None:
        with contextlib.suppress(UncertainAppendError):
            self.late.pop(self.random.randrange(len(self.late)))()

    def write_elsewhere(self) -> None:
        self.foreign.add(row := f"foreign {len(self.table.versions)}")
        self.table.write(row)

    def compact(self) -> None:
        self.table.compact(self.random)

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        rows = self.table.rows()
        assert len(rows) == len(set(rows)), f"twice: {rows}"
        assert self.foreign <= set(rows), "rows of another writer are lost"
        assert set(rows) - self.foreign <= self.promised, "rows that the log does not have"
        if self.staged is not None:
            assert self.before <= set(rows), "an attempt runs before the log's rows are in the table"

    def end(self) -> None:
        """Let a driver recover without faults."""
        self.recover()
        assert self.driver is not None
        for _ in range(100):
            if not self.driver.done:
                self.driver.step("")
        self.check()
        self.finish()

    def finish(self) -> None:
        assert self.promised <= set(self.table.rows())


def run_all(worlds: int = WORLDS, kind: type[World] = World) -> int:
    """Run worlds. Return the number of rows in their tables."""
    rows = 0
    for seed in range(worlds):
        world = kind(seed)
        try:
            world.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        rows += len(world.promised)
    return rows


def test_every_row_in_the_log_is_in_the_table_once() -> None:
    assert run_all() > 10 * WORLDS


# --- the worlds detect each broken rule -----------------------------------------------------------


def looks_once(files: Sequence[StagedDataFile]) -> Steps:
    """DL3: after a conflict, trust the first look."""
    first = yield Look()
    assert first is not None
    missing = tuple(file for file in files if file.checkpoint > first.number)
    while missing:
        try:
            newest = yield Look()
            assert newest is not None
            yield Append(newest, missing, max(file.checkpoint for file in files))
            return
        except UncertainAppendError:
            continue


def looks_at_nothing(files: Sequence[StagedDataFile]) -> Steps:
    """DL3: append without comparing numbers."""
    snapshot = yield Look()
    assert snapshot is not None
    yield Append(snapshot, tuple(files), max(file.checkpoint for file in files))


def numbers_by_the_oldest(files: Sequence[StagedDataFile]) -> Steps:
    """DL2: the number is not that of the newest file."""
    snapshot = yield Look()
    assert snapshot is not None
    missing = tuple(file for file in files if file.checkpoint > snapshot.number)
    if missing:
        yield Append(snapshot, missing, min(file.checkpoint for file in missing))


def gives_up_silently(files: Sequence[StagedDataFile]) -> Steps:
    """DL3: a conflict counts as an append."""
    with contextlib.suppress(UncertainAppendError):
        yield from appends_once(files)


def appends_once(files: Sequence[StagedDataFile]) -> Steps:
    snapshot = yield Look()
    assert snapshot is not None
    missing = tuple(file for file in files if file.checkpoint > snapshot.number)
    if missing:
        yield Append(snapshot, missing, max(file.checkpoint for file in files))


@pytest.mark.parametrize(
    "rule", [looks_once, looks_at_nothing, numbers_by_the_oldest, gives_up_silently]
)
def test_the_worlds_detect_broken_steps(
    rule: Callable[..., Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "append_steps", rule)
    with pytest.raises(AssertionError, match="seed"):
        run_all()


def test_the_worlds_detect_appends_without_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """DL2."""
    monkeypatch.setitem(globals(), "SimulatedTable", lambda: PlainTable(conditional=False))
    with pytest.raises(AssertionError, match="seed"):
        run_all()


# --- the steps alone ------------------------------------------------------------------------------


def test_files_of_a_published_checkpoint_are_left_out() -> None:
    files = [data_file("a", 1), data_file("b", 2), data_file("c", 4)]
    steps = append_steps(files)
    assert next(steps) == Look()
    snapshot = TableVersion(2, "v")
    assert steps.send(snapshot) == Append(snapshot, (files[2],), 4)
    with pytest.raises(StopIteration):
        next(steps)


def test_the_error_of_the_last_append_is_raised_after_several() -> None:
    steps = append_steps([data_file("a", 1)])
    assert next(steps) == Look()
    for pause_ms in epoch_append.PAUSES_MS:
        assert isinstance(steps.send(TableVersion(0, "v")), Append)
        assert steps.throw(UncertainAppendError(LOST)) == PauseBeforeLook(pause_ms)
        assert next(steps) == Look()
    assert isinstance(steps.send(TableVersion(0, "v")), Append)
    with pytest.raises(UnavailableError, match="no answer"):
        steps.throw(UncertainAppendError(LOST))
