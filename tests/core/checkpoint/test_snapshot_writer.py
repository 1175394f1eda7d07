"""The snapshot writer: chains of parts, written concurrently with the processing (CP11)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pytest

from rheos.core.checkpoint.snapshot_writer import INLINE_BYTES, PendingSnapshot, SnapshotWriter
from rheos.core.errors import CheckpointError, UserFunctionError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import (
    PartMode,
    Snapshot,
    SnapshotFile,
    SnapshotFiles,
    SnapshotPart,
    StateKind,
)
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore

T = TypeVar("T")
COUNT, OTHER = OperatorId("count"), OperatorId("other")


def encode(table: pa.Table, kind: StateKind, mode: PartMode) -> bytes:
    """Encode a table as a string of the length that it specifies."""
    return str(table["text"][0]).encode()


def part(
    text: str | Callable[[], pa.Table], mode: PartMode = PartMode.FULL, state: str = "counts"
) -> SnapshotPart:
    write = (lambda: pa.table({"text": [text]})) if isinstance(text, str) else text
    return SnapshotPart(state, StateKind.KEYED, write, mode)


def delta(text: str, state: str = "counts") -> SnapshotPart:
    return part(text, PartMode.DELTA, state)


class Subtask:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.io = SimIo(lambda: 0, lambda: 0)
        self.writer = SnapshotWriter(JobId("job"), Attempt(2), 1, self.store, self.io, encode)

    def begin(self, checkpoint: int, *parts: SnapshotPart, operator: str = COUNT) -> PendingSnapshot:
        return self.writer.begin(
            CheckpointId(checkpoint), [(OperatorId(operator), Snapshot(list(parts)))]
        )

    def finish(self, *pending: PendingSnapshot) -> None:
        """Prepare the sets of files, and write everything."""
        self.io.run_due()
        for each in pending:
            each.done()
        self.io.run_due()
        assert all(each.done() for each in pending)

    def texts(self, pending: PendingSnapshot) -> list[str]:
        self.finish(pending)
        assert pending.failures() == []
        return [
            (self.store.get(handle.path) if handle.path else handle.inline).decode()
            for handle in pending.handles()
        ]


def test_small_parts_are_stored_in_the_log_and_large_ones_in_files() -> None:
    subtask = Subtask()
    small, large = "s" * INLINE_BYTES, "l" * (INLINE_BYTES + 1)
    pending = subtask.begin(7, part(small, state="small"), part(large, state="large one"))
    assert not pending.done()
    assert subtask.store.files == {}
    assert subtask.texts(pending) == [small, large]
    first, second = pending.handles()
    assert (first.path, first.size_bytes, first.rows) == ("", INLINE_BYTES, 1)
    assert second.inline == b""
    assert second.path == "job/state/2/7/count/1-large one-0.arrow"
    assert second.checksum == zlib.crc32(large.encode())
    assert list(subtask.store.files) == [second.path]


def test_every_checkpoint_refers_to_the_whole_chain() -> None:
    subtask = Subtask()
    assert subtask.texts(subtask.begin(1, part("full"))) == ["full"]
    assert subtask.texts(subtask.begin(2, delta("d1"))) == ["full", "d1"]
    assert subtask.texts(subtask.begin(3, delta("d2"))) == ["full", "d1", "d2"]
    assert subtask.texts(subtask.begin(4, part("full 2"))) == ["full 2"]
    assert subtask.texts(subtask.begin(5, delta("d3"))) == ["full 2", "d3"]


def test_unchanged_state_is_not_written_again() -> None:
    subtask = Subtask()
    same = replace(delta("never written"), unchanged=True)
    large = "l" * (INLINE_BYTES + 1)
    first = subtask.begin(1, part(large))
    assert subtask.texts(first) == [large]
    again = subtask.begin(2, same)
    assert subtask.texts(again) == [large]
    assert (again.handles(), again.written_bytes()) == (first.handles(), 0)
    assert subtask.texts(subtask.begin(3, delta("d1"))) == [large, "d1"]
    assert subtask.texts(subtask.begin(4, same)) == [large, "d1"]
    assert len(subtask.store.files) == 1


def test_a_state_that_has_not_changed_needs_its_chain_to_be_written() -> None:
    subtask = Subtask()
    same = replace(delta("never written"), unchanged=True)
    subtask.begin(1, part(lambda: 1 // 0))
    spoiled = subtask.begin(2, same)
    subtask.io.run_due()
    assert [failure.state for failure in spoiled.failures()] == ["counts"]
    with pytest.raises(AssertionError, match="CP11"):
        Subtask().begin(1, same)


def test_chains_are_by_operator_and_state() -> None:
    subtask = Subtask()
    subtask.begin(1, part("a", state="x"), part("b", state="y"))
    both = subtask.writer.begin(
        CheckpointId(2),
        [
            (COUNT, Snapshot([delta("a1", state="x"), part("b1", state="y")])),
            (OTHER, Snapshot([part("c", state="x")])),
        ],
    )
    assert subtask.texts(both) == ["a", "a1", "b1", "c"]


def test_state_that_a_snapshot_omits_is_gone() -> None:
    subtask = Subtask()
    subtask.begin(1, part("a", state="x"), part("b", state="y"))
    assert subtask.texts(subtask.begin(2, delta("b1", state="y"))) == ["b", "b1"]
    with pytest.raises(AssertionError, match="CP11"):
        subtask.begin(3, delta("a2", state="x"))


def test_a_chain_begins_with_a_full_part() -> None:
    with pytest.raises(AssertionError, match="CP11"):
        Subtask().begin(1, delta("d"))


def test_a_snapshot_names_a_state_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Subtask().begin(1, part("a"), part("b"))


def test_a_checkpoint_waits_for_the_parts_of_those_before_it() -> None:
    """Check this with an aborted checkpoint whose parts are still being written."""
    subtask = Subtask()
    late: list[bool] = []

    def slow() -> int:
        return 100 if not late else 0

    subtask.io = SimIo(lambda: 50, slow)
    subtask.writer = SnapshotWriter(JobId("job"), Attempt(2), 1, subtask.store, subtask.io, encode)
    subtask.begin(1, part("full"))
    late.append(True)
    second = subtask.begin(2, delta("d1"))
    subtask.io.run_due()
    assert not second.done()


def test_a_failed_part_invalidates_the_chain_until_the_next_full_one() -> None:
    subtask = Subtask()

    def fail(moment: str, operation: str, path: str) -> None:
        raise OSError("no space left on device")

    subtask.store.on_access = fail
    first = subtask.begin(1, part("l" * 20_000), part("s", state="small"))
    subtask.io.run_due()
    [failure] = first.failures()
    assert (failure.operator, failure.state) == (COUNT, "counts")
    assert isinstance(failure.error, CheckpointError)
    assert "state 'counts' could not be written: OSError: no space left" in str(failure.error)

    subtask.store.on_access = None
    second = subtask.begin(2, delta("d"), part("s", state="small"))
    subtask.io.run_due()
    assert [failure.state for failure in second.failures()] == ["counts"]
    assert subtask.texts(subtask.begin(3, part("full"), part("s", state="small"))) == ["full", "s"]


def test_an_error_of_rheos_is_kept_unchanged() -> None:
    subtask = Subtask()
    error = UserFunctionError("a value that cannot be encoded")

    def write() -> pa.Table:
        raise error

    pending = subtask.begin(1, part(write))
    subtask.io.run_due()
    assert [failure.error for failure in pending.failures()] == [error]


def test_an_empty_snapshot_is_done_at_once() -> None:
    pending = Subtask().begin(1)
    assert pending.done()
    assert pending.handles() == []


def texts_of(rows: list[str]) -> list[pa.Table]:
    return [pa.table({"text": [row]}) for row in rows]


def test_a_part_may_arrive_in_pieces_each_in_a_file() -> None:
    subtask = Subtask()
    large = ["a" * 20_000, "b" * 20_000, "c"]
    given = SnapshotPart("counts", StateKind.KEYED, lambda: iter(texts_of(large)))
    pending = subtask.begin(3, given)
    assert subtask.texts(pending) == large
    assert [handle.path for handle in pending.handles()] == [
        "job/state/2/3/count/1-counts-0.arrow",
        "job/state/2/3/count/1-counts-1.arrow",
        "",
    ]
    assert subtask.texts(subtask.begin(4, delta("d"))) == [*large, "d"]


def test_the_written_size_excludes_shared_parts() -> None:
    subtask = Subtask()
    first = subtask.begin(1, part("full"), part("l" * 20_000, state="large"))
    second = subtask.begin(2, delta("d2"), delta("d2", state="large"))
    subtask.io.run_due()
    assert (first.written_bytes(), second.written_bytes()) == (20_004, 4)


class Files:
    """State that is kept as files, and the requests made to it."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.released: list[int] = []
        self.broken: set[str] = set()
        self.prepared: list[int] = []

    def snapshot(self, number: int, *names: str) -> Snapshot:
        def complete() -> list[SnapshotFile]:
            assert number in self.prepared
            if "set" in self.broken:
                raise OSError("no link")
            return [SnapshotFile(name, partial(self._read, name)) for name in names]

        files = SnapshotFiles("db", lambda: self.prepared.append(number), complete)
        return Snapshot(files=files, release=lambda: self.released.append(number))

    def _read(self, name: str) -> bytes:
        assert not self.released or name not in self.read
        if name in self.broken:
            raise OSError("gone")
        self.read.append(name)
        return name.encode()


def begin_files(subtask: Subtask, number: int, snapshot: Snapshot) -> PendingSnapshot:
    return subtask.writer.begin(CheckpointId(number), [(COUNT, snapshot)])


def test_a_file_is_written_once_and_referred_to_from_then_on() -> None:
    subtask, files = Subtask(), Files()
    first = begin_files(subtask, 1, files.snapshot(1, "a", "b"))
    assert (files.read, files.released) == ([], [])
    assert subtask.texts(first) == ["a", "b"]
    second = begin_files(subtask, 2, files.snapshot(2, "b", "c"))
    assert sorted(subtask.texts(second)) == ["b", "c"]
    assert files.read == ["a", "b", "c"]
    assert files.released == [1, 2]
    assert (first.written_bytes(), second.written_bytes()) == (2, 1)
    assert {(handle.mode, handle.kind, handle.state) for handle in second.handles()} == {
        (PartMode.FILE, StateKind.KEYED, "db")
    }
    assert sorted(handle.file for handle in second.handles()) == ["b", "c"]
    # What a set has left is forgotten: were it to come back, it would be written again.
    assert sorted(subtask.texts(begin_files(subtask, 3, files.snapshot(3, "c")))) == ["c"]
    assert subtask.texts(begin_files(subtask, 4, files.snapshot(4))) == []
    assert files.released == [1, 2, 3, 4]


def test_large_files_keep_their_name() -> None:
    subtask, name = Subtask(), "1-1-000007.sst"
    file = SnapshotFile(name, lambda: b"x" * 20_000)
    given = Snapshot(files=SnapshotFiles("db", lambda: None, lambda: [file]))
    pending = begin_files(subtask, 5, given)
    subtask.finish(pending)
    assert [handle.path for handle in pending.handles()] == [f"job/state/2/5/count/1-db-{name}"]


def test_running_writes_are_awaited_and_failed_ones_retried() -> None:
    subtask, files = Subtask(), Files()
    files.broken.add("a")
    first = begin_files(subtask, 1, files.snapshot(1, "a", "b"))
    second = begin_files(subtask, 2, files.snapshot(2, "a", "b"))
    assert not second.done()
    subtask.finish(second)
    for pending in (first, second):
        [failure] = pending.failures()
        assert "state 'db' could not be written: OSError: gone" in str(failure.error)
    files.broken.clear()
    assert sorted(subtask.texts(begin_files(subtask, 3, files.snapshot(3, "a", "b")))) == ["a", "b"]
    assert files.read == ["b", "a"]
    assert sorted(files.released) == [1, 2, 3]


def test_a_set_that_cannot_be_listed_fails_and_the_next_one_is_written() -> None:
    subtask, files = Subtask(), Files()
    files.broken.add("set")
    failed = begin_files(subtask, 1, files.snapshot(1, "a"))
    subtask.finish(failed)
    [failure] = failed.failures()
    assert "state 'db' could not be written: OSError: no link" in str(failure.error)
    files.broken.clear()
    assert subtask.texts(begin_files(subtask, 2, files.snapshot(2, "a"))) == ["a"]
    assert (files.read, files.released) == (["a"], [1, 2])


def test_a_checkpoint_that_nobody_polls_does_not_delay_the_next() -> None:
    """Check this with an aborted checkpoint: its files are listed before those of the next one."""
    subtask, files = Subtask(), Files()
    begin_files(subtask, 1, files.snapshot(1, "a", "b"))
    second = begin_files(subtask, 2, files.snapshot(2, "b", "c"))
    assert sorted(subtask.texts(second)) == ["b", "c"]
    assert files.read == ["a", "b", "c"]
    assert second.written_bytes() == 1


def test_files_of_the_restored_checkpoint_are_not_written_again() -> None:
    before, files = Subtask(), Files()
    pending = begin_files(before, 1, files.snapshot(1, "a", "b"))
    before.finish(pending)
    chain = before.begin(2, part("full"))
    before.io.run_due()

    after = Subtask()
    after.writer = SnapshotWriter(JobId("job"), Attempt(3), 0, after.store, after.io, encode)
    after.writer.adopt([*pending.handles(), *chain.handles()])
    second = begin_files(after, 7, files.snapshot(2, "b", "c"))
    assert sorted(after.texts(second)) == ["b", "c"]
    assert files.read == ["a", "b", "c"]
    assert second.written_bytes() == 1
    assert {handle.subtask for handle in second.handles()} == {0}
    with pytest.raises(AssertionError, match="CP11"):
        after.begin(8, delta("a chain is not taken over"))


def test_the_first_snapshot_of_an_attempt_may_continue_a_restored_chain() -> None:
    first = Subtask()
    first.begin(1, part("full"))
    pending = first.begin(2, delta("d1"))
    first.texts(pending)
    handles = pending.handles()

    second = Subtask()
    second.store.files.update(first.store.files)
    second.writer.adopt(handles, {(COUNT, "counts"): handles})
    assert second.texts(second.begin(3, delta("d2"))) == ["full", "d1", "d2"]
    assert second.texts(second.begin(4, part("whole"))) == ["whole"]
