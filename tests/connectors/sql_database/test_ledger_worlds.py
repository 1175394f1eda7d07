"""One writer's epochs in simulated worlds: attempts, checkpoints, crashes between any two statements,
recovering drivers, processes that were considered dead and continue, commits whose answer is lost, and
commits that take effect late. Each row in the log is in the table once.

docs/protocols/sql-database-sink.md has the invariants SL1 to SL7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from rheos.connectors.sql_database.ledger_commit import (
    AddMark,
    Answer,
    CommitEpoch,
    LedgerEpoch,
    PutRows,
    RaiseMark,
    ReadWriterMark,
    Statement,
    Statements,
    commit_statements,
)
from rheos.connectors.staged_files import StagedRowsFile
from rheos.core.errors import UnrestorableError

STEPS = 150
WORLDS = 150


class FailedStatementError(Exception):
    """A statement that the database refuses, or a lost connection."""


@dataclass
class Transaction:
    """Uncommitted changes of one connection."""

    locks: set[str] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)


class SimulatedDatabase:
    """A ledger and a table. A row of the ledger is locked from its first change to the transaction's
    end; an uncommitted new row, too, against another one with its key."""

    locking = True

    def __init__(self) -> None:
        self.marks: dict[str, int] = {}
        self.rows: list[str] = []
        self.open: list[Transaction] = []

    def begin(self) -> Transaction:
        self.open.append(made := Transaction())
        return made

    def execute(
        self, transaction: Transaction, statement: Statement, files: dict[str, tuple[str, ...]]
    ) -> Answer:
        if transaction not in self.open:
            raise FailedStatementError("the transaction has ended")
        match statement:
            case RaiseMark(epoch):
                self._lock(transaction, epoch.writer)
                mark = self.marks.get(epoch.writer)
                if mark is None or not epoch.published <= mark < epoch.checkpoint:
                    return False
                transaction.marks[epoch.writer] = epoch.checkpoint
                return True
            case ReadWriterMark(writer):
                return transaction.marks.get(writer, self.marks.get(writer))
            case AddMark(epoch):
                self._lock(transaction, epoch.writer, new=True)
                if epoch.writer in self.marks:
                    raise FailedStatementError("duplicate key")
                transaction.marks[epoch.writer] = epoch.checkpoint
            case PutRows(epoch):
                if epoch.file.path not in files:
                    raise UnrestorableError(f"{epoch.file.path} does not exist")
                transaction.rows += files[epoch.file.path]
            case CommitEpoch():
                self.commit(transaction)
        return None

    def commit(self, transaction: Transaction) -> None:
        self.marks |= transaction.marks
        self.rows += transaction.rows
        self.end(transaction)

    def end(self, transaction: Transaction) -> None:
        if transaction in self.open:
            self.open.remove(transaction)

    def _lock(self, transaction: Transaction, writer: str, new: bool = False) -> None:
        if not new and writer not in self.marks:
            return  # An UPDATE locks rows that it finds.
        others = (each for each in self.open if each is not transaction)
        if self.locking and any(writer in each.locks for each in others):
            raise FailedStatementError("the wait for the lock has taken too long")
        transaction.locks.add(writer)


class Committing:
    """A process that commits epochs, one statement at a time, until it succeeds."""

    def __init__(self, world: World, epochs: Sequence[LedgerEpoch]) -> None:
        self.world = world
        self.left = list(epochs)
        self.transaction: Transaction | None = None

    @property
    def done(self) -> bool:
        return not self.left

    def step(self, fault: str) -> None:
        database = self.world.database
        if self.transaction is None:
            self.transaction = database.begin()
            self.statements = self.world.rule(self.left[0])
            self.answer: Answer = None
        try:
            statement = self.statements.send(self.answer)
        except StopIteration:
            self.succeed()
            return
        try:
            if fault == "before":
                raise FailedStatementError("the connection is lost")
            if fault == "late" and isinstance(statement, CommitEpoch):
                self.world.late.append(self.transaction)
                self.transaction = None
                return
            self.answer = database.execute(self.transaction, statement, self.world.files)
            if fault == "after":
                raise FailedStatementError("the answer is lost")
        except FailedStatementError:
            self.fail()
            return
        self.executed(statement)

    def executed(self, statement: Statement) -> None:
        if isinstance(statement, PutRows) and self.world.removes_early:
            self.world.files.pop(statement.epoch.file.path, None)

    def succeed(self) -> None:
        assert self.transaction is not None
        self.world.database.end(self.transaction)
        self.transaction = None
        epoch = self.left.pop(0)
        self.world.files.pop(epoch.file.path, None)
        self.world.committed(self, epoch)

    def fail(self) -> None:
        if self.transaction is not None:
            self.world.database.end(self.transaction)
        self.transaction = None


class World:
    """World that is drawn from a seed."""

    rule: Callable[[LedgerEpoch], Statements] = staticmethod(commit_statements)
    removes_early = False
    """Whether files are removed before the commit."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.database = SimulatedDatabase()
        self.files: dict[str, tuple[str, ...]] = {}
        self.late: list[Transaction] = []
        """Transactions whose COMMIT has been sent by a process that does not wait for it any more."""
        self.attempt = self.checkpoint = self.row = 0
        self.logged: list[LedgerEpoch] = []
        """Epochs that the newest checkpoint lists as not known to be committed."""
        self.promised: list[str] = []
        self.replaced: list[Committing] = []
        self.worker: Committing | None = None
        self.driver: Committing | None = None
        self.staged: list[LedgerEpoch] | None = None
        self.published = 0
        self.recover()

    # --- the job ----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Lose the attempt and the driver. The next driver commits what the newest checkpoint lists."""
        self.replaced += [each for each in (self.worker, self.driver) if each is not None]
        self.worker, self.staged = None, None
        self.driver = Committing(self, self.logged)

    def begin_an_attempt(self) -> None:
        self.attempt += 1
        self.staged, self.published = [], 0
        self.worker = Committing(self, [])
        self.logged = []
        # Files of earlier attempts that no checkpoint lists are removed.
        self.files.clear()

    def stage(self) -> None:
        """Pass a barrier. Its checkpoint is written to the log, or abandoned."""
        assert self.staged is not None
        self.checkpoint += 1
        rows = tuple(f"row {self.row + n}" for n in range(self.random.randint(1, 2)))
        self.row += len(rows)
        path = f"{self.attempt}/{self.checkpoint}"
        self.files[path] = rows
        writer = f"w{self.attempt}"
        file = StagedRowsFile(path, len(rows), 1, b"")
        self.staged.append(
            LedgerEpoch(
                "job", "sink", 0, self.attempt, writer, self.checkpoint, None, "t", ["n"], [], None,
                file, 1, self.published,
            )
        )  # fmt: skip
        if self.random.random() < 0.7:
            new = [epoch for epoch in self.staged if epoch.checkpoint > self.published]
            fresh = {epoch.file.path for epoch in new} - {epoch.file.path for epoch in self.logged}
            self.promised += [row for path in fresh if path in self.files for row in self.files[path]]
            self.logged = new

    def publish(self) -> None:
        """Let the worker commit what the newest checkpoint lists."""
        assert self.worker is not None
        if self.worker.done:
            self.worker.left = [each for each in self.logged if each.checkpoint > self.published]

    def committed(self, who: Committing, epoch: LedgerEpoch) -> None:
        if who is self.worker:
            self.published = max(self.published, epoch.checkpoint)

    # --- steps ------------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choices(*zip(*self.possible(), strict=True))[0]()
            self.check()
        self.end()

    def possible(self) -> list[tuple[Callable[[], None], int]]:
        found: list[tuple[Callable[[], None], int]] = [(self.recover, 1)]
        if self.working():
            found.append((self.step, 16))
        if self.staged is not None:
            found += [(self.stage, 4), (self.publish, 4)]
        elif self.driver is not None and self.driver.done:
            found.append((self.begin_an_attempt, 6))
        if self.late:
            found.append((self.arrive, 2))
        if self.replaced:
            found.append((self.die, 2))
        return found

    def working(self) -> list[Committing]:
        each = [*self.replaced, self.worker, self.driver]
        return [one for one in each if one is not None and not one.done]

    def step(self) -> None:
        one = self.random.choice(self.working())
        try:
            one.step(self.random.choice(["", "", "", "", "", "", "before", "after", "late"]))
        except UnrestorableError:
            # A replaced process may find that its file was removed. It never publishes a row.
            if one not in self.replaced:
                raise AssertionError("an error though the database has lost nothing") from None
            one.fail()
            one.left = []

    def die(self) -> None:
        """End a replaced process. The database rolls its transaction back."""
        self.replaced.pop(self.random.randrange(len(self.replaced))).fail()

    def arrive(self) -> None:
        late = self.late.pop(self.random.randrange(len(self.late)))
        if late in self.database.open:
            self.database.commit(late)

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        twice = [row for row, count in Counter(self.database.rows).items() if count > 1]
        assert not twice, f"twice: {twice}"
        assert set(self.database.rows) <= set(self.promised), "rows that the log does not have"

    def end(self) -> None:
        """Let a driver recover without faults, after the late commits."""
        while self.late:
            self.arrive()
        for each in [*self.replaced, self.worker, self.driver]:
            if each is not None:
                each.fail()
        self.replaced = []
        self.recover()
        assert self.driver is not None
        for _ in range(1000):
            if self.driver.done:
                break
            try:
                self.driver.step("")
            except UnrestorableError as error:
                raise AssertionError(f"a recovery fails: {error}") from None
        assert self.driver.done, "the recovery does not end"
        self.check()
        assert set(self.promised) == set(self.database.rows), "rows are lost"


def run_all(kind: type[World] = World, worlds: int = WORLDS) -> int:
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


def does_not_look(epoch: LedgerEpoch) -> Statements:
    """SL2: rows are written without the mark."""
    yield PutRows(epoch)
    yield CommitEpoch()


def looks_before_it_locks(epoch: LedgerEpoch) -> Statements:
    """SL3: the mark is read first, and raised whatever it is then."""
    mark = yield ReadWriterMark(epoch.writer)
    if mark is not None and mark >= epoch.checkpoint:
        return
    yield PutRows(epoch)
    if not (yield RaiseMark(epoch)) and mark is None:
        yield AddMark(epoch)
    yield CommitEpoch()


def writes_what_was_not_found(epoch: LedgerEpoch) -> Statements:
    """SL3: an epoch that did not raise the mark is written nevertheless."""
    yield RaiseMark(epoch)
    if (yield ReadWriterMark(epoch.writer)) is None:
        yield AddMark(epoch)
    yield PutRows(epoch)
    yield CommitEpoch()


def commits_the_mark_alone(epoch: LedgerEpoch) -> Statements:
    """SL2: an epoch counts as committed without its rows."""
    if not (yield RaiseMark(epoch)):
        if (yield ReadWriterMark(epoch.writer)) is not None:
            return
        yield AddMark(epoch)
    yield CommitEpoch()


def forgets_to_commit(epoch: LedgerEpoch) -> Statements:
    """SL2: the statements end before the commit."""
    if not (yield RaiseMark(epoch)) and (yield ReadWriterMark(epoch.writer)) is None:
        yield AddMark(epoch)
    yield PutRows(epoch)


@pytest.mark.parametrize(
    "broken",
    [
        {"rule": staticmethod(does_not_look)},
        {"rule": staticmethod(looks_before_it_locks)},
        {"rule": staticmethod(writes_what_was_not_found)},
        {"rule": staticmethod(commits_the_mark_alone)},
        {"rule": staticmethod(forgets_to_commit)},
        {"removes_early": True},
    ],
    ids=str,
)
def test_the_worlds_detect_broken_rules(broken: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="seed"):
        run_all(type("BrokenWorld", (World,), broken))


def test_the_worlds_detect_a_ledger_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """SL3."""
    monkeypatch.setattr(SimulatedDatabase, "locking", False)
    with pytest.raises(AssertionError, match="seed"):
        run_all()


# --- the statements alone -------------------------------------------------------------------------


def epoch(checkpoint: int, published: int = 0) -> LedgerEpoch:
    file = StagedRowsFile("1/a", 1, 1, b"")
    return LedgerEpoch(
        "job", "sink", 0, 1, "w", checkpoint, None, "t", ["n"], [], None, file, 1, published
    )


@pytest.mark.parametrize(("published", "mark"), [(2, None), (2, 1), (0, 1)])
def test_a_mark_that_is_not_what_was_known_is_an_error(published: int, mark: int | None) -> None:
    """SL5. A mark that `RaiseMark` should have found is an error, too."""
    statements = commit_statements(epoch(3, published))
    assert isinstance(next(statements), RaiseMark)
    assert statements.send(False) == ReadWriterMark("w")
    with pytest.raises(UnrestorableError, match="has lost rows"):
        statements.send(mark)
