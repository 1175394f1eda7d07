"""Compaction of a job's log: what it deletes and keeps, and that frozen writers stay safe (CP42 to
CP45). The writers here stop before one of their store operations, as a frozen or killed process does;
others run to their end in that moment. Blocks have two or three entries, so that a few entries are a
long log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core.checkpoint.log import JobLog, LogView
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    LogEntry,
    NumberedCheckpoint,
    Origin,
    Place,
    decode_entry,
    encode_entry,
)
from rheos.core.checkpoint.log_marks import LOG_BLOCK, floor_of, is_mark, marks_after
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import completed

JOB = JobId("job")
RETAIN = 2


class TestMarks:
    @pytest.mark.parametrize("block", [2, 3, 5])
    def test_a_writer_with_a_deleted_number_finds_a_mark(self, block: int) -> None:
        """Check all short logs, also with searches during which the log grows."""
        for newest in range(1, 90):
            for number in range(2, floor_of(newest, block)):
                if not is_mark(number, newest, block):
                    marks = list(marks_after(number, block))
                    there = [is_mark(mark, newest, block) for mark in marks]
                    assert any(there)
                    # The level at which a mark is found only rises, so no search runs past it.
                    later = [is_mark(mark, newest + 17, block) for mark in marks]
                    assert later.index(True) >= there.index(True)

    @given(st.integers(1, 10**9), st.integers(1, 10**9))
    def test_a_writer_finds_a_mark_with_real_block_sizes(self, number: int, later: int) -> None:
        newest = number + later
        if number < floor_of(newest) and not is_mark(number, newest):
            assert any(is_mark(mark, newest) for mark in marks_after(number))

    @pytest.mark.parametrize("block", [2, 3, 10])
    def test_deleted_entries_are_never_needed_again(self, block: int) -> None:
        """Check this so that a driver which was frozen within a compaction may continue it."""
        for newest in range(1, 150):
            for later in range(newest, newest + 60, 7):
                for number in range(1, newest + 1):
                    assert is_mark(number, newest, block) or not is_mark(number, later, block)
                    assert floor_of(newest, block) <= floor_of(later, block)

    @given(st.integers(1, 10**9))
    def test_no_search_finds_what_is_not_yet_written(self, newest: int) -> None:
        assert all(mark > newest for mark in marks_after(newest))
        assert len(list(marks_after(newest))) <= 4

    def test_the_number_of_marks_is_bounded(self) -> None:
        for newest in (10**4 - 1, 10**6 - 1, 10**6 + 12_345):
            marks = sum(is_mark(number, newest) for number in range(LOG_BLOCK, newest + 1, LOG_BLOCK))
            assert marks <= 99 * 3


# --- writers ------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


class Watched(MemoryStore):
    """Store that remembers the first content of each number, which is the true log."""

    def __init__(self) -> None:
        super().__init__(self._count)
        self.made: dict[int, bytes] = {}
        self.operations = 0
        self.interrupt: dict[int, Callable[[], None]] = {}
        """What happens before an operation, by its number."""
        self.lists_of: list[list[str]] = []
        self.stale = 0
        """Listings are by so many operations too old."""
        self._history: list[list[str]] = [[]]

    def _count(self, moment: str, operation: str, path: str) -> None:
        if moment != "before":
            return
        self.operations += 1
        happens = self.interrupt.pop(self.operations, None)
        if happens is not None:
            happens()

    def _write(self, path: str, data: bytes) -> None:
        super()._write(path, data)
        number = int(path[-15:-5])
        self.made.setdefault(number, data)
        self._history.append(sorted(self.files))

    def _deleted(self, path: str) -> None:
        super()._deleted(path)
        self._history.append(sorted(self.files))

    def list(self, prefix: str) -> list[str]:
        super().list(prefix)
        seen = self._history[max(0, len(self._history) - 1 - self.stale)]
        return [path for path in seen if "/.tmp-" not in path]


@dataclass
class Driver:
    """Driver that claims the job and writes checkpoints, as a master does, until it notices that it was
    replaced."""

    store: Watched
    owner: str
    block: int = 2
    origin: Origin | None = None
    entered: dict[int, bytes] = field(default_factory=dict)
    """What it believes to be in the log."""
    lost: bool = False
    view: LogView | None = None

    def run(self, checkpoints: int) -> None:
        try:
            self._run(checkpoints)
        except CheckpointError:
            self.lost = True

    def _run(self, checkpoints: int) -> None:
        log = JobLog(self.store, JOB, self.block)
        view = self.view = log.read()
        origin = self.origin or view.origin
        kept = list(view.completed) if origin == view.origin else []
        attempt, number = view.attempt + 1, view.next_number
        claim = AttemptStarted(
            attempt=Attempt(attempt),
            owner=self.owner,
            reserved_to=CheckpointId(view.reserved_to + 1),
            origin=origin,
            from_checkpoint=kept[-1].entry.checkpoint if kept else None,
            parallelism=2,
            completed=[numbered.number for numbered in kept],
        )
        if not self._enter(log, number, claim):
            return
        for step in range(1, checkpoints + 1):
            checkpoint = view.reserved_to + step
            beside = kept[max(0, len(kept) + 1 - RETAIN) :]
            entry = msgspec.structs.replace(
                completed(checkpoint, attempt, reserved=checkpoint + 1),
                owner=self.owner,
                origin=origin,
                kept=[numbered.number for numbered in beside],
                savepoint=f"s/{checkpoint}" if checkpoint % 5 == 0 else "",
            )
            if not self._enter(log, number + step, entry):
                return
            for dropped in kept[: len(kept) - len(beside)]:
                log.drop(dropped.number)
            kept = [*beside, NumberedCheckpoint(number + step, entry)]

    def _enter(self, log: JobLog, number: int, entry: LogEntry) -> bool:
        if not log.append(number, entry):
            self.lost = True
            return False
        self.entered[number] = self.store.made[number]
        assert decode_entry(self.store.made[number], "").entry == entry, f"{self.owner} at {number}"
        if (work := log.compaction()) is not None:
            log.compacted(work())
        return True


def whole(store: Watched) -> LogView:
    """Check that the log is complete: everything that retention keeps exists, in the order of
    creation."""
    store.stale = 0
    view = JobLog(store, JOB).read()
    assert view.next_number == max(store.made) + 1
    newest = decode_entry(store.made[view.next_number - 1], "").entry
    assert view.newest == newest
    for numbered in view.completed:
        assert numbered.entry == decode_entry(store.made[numbered.number], "").entry
    assert len(view.completed) <= RETAIN + 1
    return view


def operations_of(checkpoints: int, block: int) -> int:
    store = Watched()
    Driver(store, "before", block).run(7)
    begun = store.operations
    Driver(store, "me", block).run(checkpoints)
    return store.operations - begun


@pytest.mark.thinned(2)
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("others", [1, 12])
def test_a_driver_may_be_frozen_at_any_step(block: int, others: int) -> None:
    """Check a driver that resumes after the log has grown, when the entries it used may be
    compacted."""
    for step in range(1, operations_of(6, block) + 1):
        store = Watched()
        Driver(store, "before", block).run(7)
        frozen, successor = Driver(store, "frozen", block), Driver(store, "successor", block)
        store.interrupt[store.operations + step] = lambda of=successor: of.run(others)
        frozen.run(6)
        if not frozen.lost:  # It was frozen before it read the log, or after its last entry.
            assert list(frozen.entered) == list(range(min(frozen.entered), max(frozen.entered) + 1))
        assert whole(store).newest is not None
        assert not set(frozen.entered) & set(successor.entered)


def test_a_driver_may_be_killed_at_any_step() -> None:
    def die() -> None:
        raise Killed

    for step in range(1, operations_of(4, 2) + 1):
        store = Watched()
        Driver(store, "before").run(7)
        store.interrupt[store.operations + step] = die
        with pytest.raises(Killed):
            Driver(store, "killed").run(4)
        successor = Driver(store, "successor")
        successor.run(12)
        assert not successor.lost
        assert len(whole(store).completed) == RETAIN


@settings(max_examples=120)
@given(data=st.data(), block=st.integers(2, 4))
def test_three_drivers_with_stale_listings_keep_the_log_consistent(
    data: st.DataObject, block: int
) -> None:
    """Check drivers that freeze at some step while the next runs, with outdated listings. No number has
    two owners, and the log stays complete."""
    store = Watched()
    drivers = [Driver(store, name, block) for name in ("first", "second", "third")]
    Driver(store, "before", block).run(data.draw(st.integers(0, 12)))
    store.stale = data.draw(st.integers(0, 25))
    lengths = [data.draw(st.integers(1, 25)) for _ in drivers]

    def begin(place: int) -> None:
        if place + 1 < len(drivers):
            wakes = store.operations + data.draw(st.integers(1, 160))
            store.interrupt[wakes] = lambda: begin(place + 1)
        drivers[place].run(lengths[place])

    begin(0)
    believed = [number for driver in drivers for number in driver.entered]
    assert len(believed) == len(set(believed))
    whole(store)


def test_a_reader_during_compaction_gets_a_consistent_view() -> None:
    """Check that a reader gets a view that was true while it read, however fast the log grows."""
    for step in range(1, 12):
        store = Watched()
        driver = Driver(store, "writer")
        driver.run(8)
        before = JobLog(store, JOB).read().next_number
        writer = Driver(store, "next")
        store.interrupt[store.operations + step] = lambda of=writer: of.run(40)
        view = JobLog(store, JOB).read()
        assert before <= view.next_number <= whole(store).next_number
        assert view.completed
        writer = Driver(store, "third")
        store.interrupt[store.operations + step] = lambda of=writer: of.run(40)
        assert set(JobLog(store, JOB).savepoints()) >= {"s/5"}


def test_the_log_is_bounded_and_keeps_named_checkpoints() -> None:
    store = Watched()
    Driver(store, "first", block=10).run(200)
    Driver(store, "second", block=10, origin=Origin("id", "elsewhere/savepoint")).run(700)
    for owner in ("third", "fourth"):
        Driver(store, owner, block=10).run(30)
    made = [decode_entry(data, "").entry for data in store.made.values()]
    taken = {entry.savepoint for entry in made if isinstance(entry, CheckpointCompleted)} - {""}
    named = list(JobLog(store, JOB).savepoints())
    assert len(taken) > 150
    assert sorted(named) == sorted({*taken, "elsewhere/savepoint"})
    # Less what names savepoints: one block, one that grows, and the marks of two levels.
    assert len(store.files) - len(named) <= 2 * 10 + 3 * 9 + 5
    assert 1 in {int(path[-15:-5]) for path in store.files}


def test_entries_of_older_formats_stay() -> None:
    """Check that entries of old formats stay: their writers do not look for marks, so a frozen one must
    find its number in use."""
    store = Watched()
    Driver(store, "old", block=1000).run(11)
    log = JobLog(store, JOB)
    for number in range(1, 13):
        stored = decode_entry(store.files[log.path(number)], "")
        assert stored.place is not None
        entry, place = stored.entry, Place(JOB, stored.place.log, number)
        if isinstance(entry, CheckpointCompleted):
            entry = msgspec.structs.replace(entry, kept=None)
        store.files[log.path(number)] = encode_entry(entry, place, 2)
    old = set(store.files)
    new = Driver(store, "new")
    new.run(40)
    assert not new.lost
    assert old <= set(store.files)
    assert log.path(13) in store.files, "the claim that an old driver would want"
    assert len(whole(store).completed) == RETAIN


def test_unreadable_entries_are_not_deleted() -> None:
    store = Watched()
    Driver(store, "me", block=3).run(2)
    path = JobLog(store, JOB).path(2)
    store.files[path] = b"damaged"
    Driver(store, "next", block=3).run(40)
    assert store.files[path] == b"damaged"


def test_a_hole_above_the_floor_is_damage() -> None:
    store = Watched()
    Driver(store, "me", block=10).run(40)
    log = JobLog(store, JOB)
    last = max(store.made)
    store.delete(log.path(floor_of(last, 10)))
    with pytest.raises(UnrestorableError, match="has a gap"):
        log.read()


def test_a_failed_store_operation_is_retried_with_the_next_block() -> None:
    store = Watched()
    log = JobLog(store, JOB, 2)
    driver = Driver(store, "me", block=1000)
    driver.run(20)
    log.read()
    entry = msgspec.structs.replace(completed(22, 1, reserved=23), owner="me", kept=[])
    assert log.append(22, entry)
    work = log.compaction()
    assert work is not None
    assert log.compaction() is None

    def fail() -> None:
        raise PermissionError("not now")

    store.interrupt[store.operations + 5] = fail
    with pytest.raises(CheckpointError, match="not now"):
        work()
    assert log.append(23, msgspec.structs.replace(entry, checkpoint=CheckpointId(23)))
    assert log.compaction() is None
    assert log.append(24, msgspec.structs.replace(entry, checkpoint=CheckpointId(24)))
    again = log.compaction()
    assert again is not None
    assert again() > 10
