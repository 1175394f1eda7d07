"""State in RocksDB: written files, use of memory, and errors of the disk."""

from __future__ import annotations

import builtins
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rheos.core.errors import CheckpointError, ConfigurationError, StateError
from rheos.core.graph.state import ListState, MapState, ValueState
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.rocksdb.backend import RocksDbBackend
from rheos.core.state.rocksdb.database import failure
from rheos.core.state.rocksdb.layout import EntryForm, join, split
from rheos.core.state.scope import KeyScope
from rheos.core.state.timers import TIMERS
from rheos.runtimes.simulated.io import SimIo
from tests.core.state.keyed_jobs import GROUPS, MEMORY, OPERATOR, ROCKSDB, USERS, Job, declared

MIB = 1 << 20


def filled(folder: Path, users: int, size: int = 200, **options: Any) -> Job:
    job = Job(folder, declared(text=ValueState(str)), ROCKSDB, **options)
    for i in range(users):
        # Text that cannot be compressed to nothing.
        job[f"user {i}"].text.value = os.urandom(size // 2).hex()
    return job


def test_a_checkpoint_writes_only_changes(tmp_path: Path) -> None:
    # With so much memory nothing is written, and merged, before the checkpoint.
    job = filled(tmp_path, 5_000, 400, memory_bytes=64 * MIB)
    whole = job.checkpoint()
    assert whole.written_bytes > MIB
    for i in range(0, 5_000, 100):
        job[f"user {i}"].text.value = "changed"
    changed = job.checkpoint()
    assert changed.written_bytes < whole.written_bytes / 50
    assert sum(handle.size_bytes for handle in changed.entry.handles) > MIB
    assert {handle.mode for handle in changed.entry.handles} == {PartMode.FILE}
    unchanged = job.checkpoint()
    assert unchanged.written_bytes < 2_000
    job.close()


@pytest.mark.parametrize(("parallelism", "share"), [(1, 0.8), (2, 0.02), (3, 0.3), (4, 0.02)])
def test_after_a_restore_only_changes_are_written(
    tmp_path: Path, parallelism: int, share: float
) -> None:
    """Check another parallelism, too: a subtask takes one old subtask's files, and copies from the
    others."""
    job = filled(tmp_path, 3_000, 400, parallelism=2, memory_bytes=64 * MIB)
    whole = job.checkpoint()
    job.move(parallelism, ROCKSDB)
    job["user 0"].text.value = "changed"
    again = job.checkpoint()
    assert job["user 0"].text.value == "changed"
    assert len(job["user 1"].text.value) == 400
    assert again.written_bytes < share * whole.written_bytes
    job.close()


def test_a_checkpoint_has_the_state_at_its_barrier(tmp_path: Path) -> None:
    """Check CP20: the database is written to after the barrier, before the files are prepared."""
    states = declared(n=ValueState(int), log=ListState(int))
    job = Job(tmp_path, states, ROCKSDB)
    [task], [writer] = job.subtasks, job.writers
    io = SimIo(lambda: 0, lambda: 0)
    writer._io = io
    for i in range(50):
        job[f"user {i}"].n.value = i
        job[f"user {i}"].log.append(i)
    backend: Any = task.backend
    first = writer.begin(CheckpointId(1), [(OPERATOR, backend.snapshot())])
    for i in range(50):
        job[f"user {i}"].n.value = -1
        job[f"user {i}"].log.append(-1)
    backend._flush()
    abandoned = backend.snapshot()
    abandoned.release()
    job["user 1"].log.append(-2)
    second = writer.begin(CheckpointId(2), [(OPERATOR, backend.snapshot())])
    for pending in (first, second):
        io.run_due()
        pending.done()
    io.run_due()
    at_first, at_second = job._written([first], job.store), job._written([second], job.store)
    assert sorted(path.name for path in (tmp_path / "1-0").iterdir()) == ["db"]
    job.start(at_first)
    assert [job[f"user {i}"].n.value for i in range(50)] == list(range(50))
    assert [list(job[f"user {i}"].log) for i in range(50)] == [[i] for i in range(50)]
    job.start(at_second)
    assert {job[f"user {i}"].n.value for i in range(50)} == {-1}
    assert list(job["user 1"].log) == [1, -1, -2]
    job.close()


def test_a_file_name_identifies_its_content(tmp_path: Path) -> None:
    """Check CP20: attempts that begin from the same checkpoint number their files alike."""
    job = filled(tmp_path, 100)
    before = job.checkpoint()
    contents: dict[str, int] = {}
    for attempt in range(3):
        job.start(before)
        job["user 0"].text.value = f"attempt {attempt}"
        for handle in job.checkpoint().entry.handles:
            assert contents.setdefault(handle.file, handle.checksum) == handle.checksum
    assert len([name for name in contents if name.endswith(".sst")]) >= 4
    job.close()


def test_state_ten_times_the_memory_runs(tmp_path: Path) -> None:
    users = 12_000
    job = filled(tmp_path, users, 1_000, memory_bytes=MIB)
    [task] = job.subtasks
    backend = task.backend
    assert isinstance(backend, RocksDbBackend)
    for i in range(0, users, 7):
        assert len(job[f"user {i}"].text.value) == 1_000
        [table] = backend._tables.values()
        kept = sum(len(value) for of in (table.young, table.old) for value in of.values())
        assert kept < MIB
        assert len(backend._places) * 100 < MIB
    written = job.checkpoint()
    assert sum(handle.size_bytes for handle in written.entry.handles) > 6 * MIB
    job.start(written)
    assert len(job["user 11999"].text.value) == 1_000
    job.close()


def test_the_state_of_one_key_may_exceed_the_memory(tmp_path: Path) -> None:
    states = declared(seen=MapState(int, str), log=ListState(str))
    job = Job(tmp_path, states, ROCKSDB, memory_bytes=64 * 1024)
    for i in range(3_000):
        here = job["one"]
        here.seen[i] = "x" * 100
        here.log.append("y" * 100)
    [task] = job.subtasks
    assert isinstance(task.backend, RocksDbBackend)
    seen, log = task.backend._tables["seen"], task.backend._tables["log"]
    assert sum(len(entry) for entry in seen.young.values()) < 500
    assert sum(len(entry) for entry in log.young.values()) < 500
    assert job["one"].seen[1_234] == "x" * 100
    assert (len(job["one"].log), len(job["one"].seen)) == (3_000, 3_000)
    job.close()


def test_most_timers_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.core.state.rocksdb.timers._IN_MEMORY", 50)
    job = Job(tmp_path, {}, ROCKSDB, memory_bytes=64 * 1024)
    [task] = job.subtasks
    queue: Any = task.timers.event
    for i in range(2_000):
        job[f"user {i % 700}"].timers.register((i * 7919) % 5_000)
        assert len(queue.heap) <= 400
    job.start(job.checkpoint())
    [task] = job.subtasks
    queue = task.timers.event
    fired = []
    while (timer := queue.pop(10_000)) is not None:
        fired.append(timer)
    assert fired == sorted({((i * 7919) % 5_000, f"user {i % 700}") for i in range(2_000)})
    job.close()


def test_timers_on_disk_follow_deleted_ones_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check timers like those of sessions, which each row moves."""
    monkeypatch.setattr("rheos.core.state.rocksdb.timers._IN_MEMORY", 50)
    job = Job(tmp_path, {}, ROCKSDB, memory_bytes=4 * 1024)
    [task] = job.subtasks
    backend: Any = task.backend
    queue: Any = task.timers.event
    for i in range(300):
        job[f"user {i}"].timers.register(1_000 + i)
    assert len(queue.heap) < 300, "some are on disk alone"
    timers = job["user 0"].timers
    for i in range(200):
        timers.register(500 + i)
        timers.delete(500 + i)
    for i in range(200):
        backend.scope.key = f"user {i}"
        timers.delete(1_000 + i)
    backend.prepare([])
    assert queue.next_ms() == 1_200
    job.close()


def test_removed_declarations_drop_their_state(tmp_path: Path) -> None:
    both = declared(n=ValueState(int), old=ValueState(int))
    job = Job(tmp_path, both, ROCKSDB)
    job["a"].n.value = job["a"].old.value = 1
    written = job.checkpoint()
    job.states = declared(n=ValueState(int))
    job.start(written)
    written = job.checkpoint()
    job.states = declared(n=ValueState(int), old=ValueState(int))
    job.start(written)
    assert (job["a"].n.value, job["a"].old.value) == (1, None)
    # Nor is it what it was where it is declared as something else.
    written = job.checkpoint()
    job.states = declared(n=ListState(int))
    job.start(written)
    assert list(job["a"].n) == []
    job.close()


def test_unused_files_are_removed(tmp_path: Path) -> None:
    job = filled(tmp_path, 10)
    job.checkpoint()
    job.savepoint()
    assert sorted(path.name for path in (tmp_path / "1-0").iterdir()) == ["db"]
    job.move(2, MEMORY)
    assert len(job["user 3"].text.value) == 200
    assert [path.name for subtask in range(2) for path in (tmp_path / f"2-{subtask}").iterdir()] == []
    job.close()


def test_the_memory_backend_without_a_disk_refuses_files(tmp_path: Path) -> None:
    job = filled(tmp_path, 10)
    written = job.checkpoint()
    job.close()

    class Diskless(Job):
        def _backend(self, subtask: int) -> MemoryBackend:
            return MemoryBackend(self.keys, GROUPS, KeyScope(self.clock))

    other = Diskless(tmp_path, job.states, MEMORY, store=job.store)
    with pytest.raises(CheckpointError, match="was stored by another state backend") as caught:
        other.start(written)
    assert "savepoint" in str(caught.value.hint)


def test_a_disk_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StateError, match="taken"):
        Job(tmp_path / "taken", declared(n=ValueState(int)), ROCKSDB)
    full = failure("/disk/state", OSError(28, "No space left on device"))
    assert "the disk is full: state in /disk/state" in full.what
    assert full.hint is not None


def test_a_failing_disk_at_close_hides_no_other_error(tmp_path: Path) -> None:
    job = filled(tmp_path, 10)
    job.checkpoint()
    job["user 1"].text.value = "changed"
    shutil.rmtree(tmp_path)
    with pytest.raises(StateError, match="could not be written"):
        job.checkpoint()
    job.close()


def test_a_snapshot_that_cannot_be_linked_is_an_error(tmp_path: Path) -> None:
    job = filled(tmp_path, 10)
    (tmp_path / "1-0" / "snapshot-1").mkdir()
    with pytest.raises(StateError, match="1-0"):
        job.checkpoint()
    job.close()


def test_a_missing_rocksdict_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "rocksdict":
            raise ImportError("no module of that name")
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    Job(tmp_path, declared(n=ValueState(int)), MEMORY)
    with pytest.raises(ConfigurationError, match="rocksdict") as caught:
        Job(tmp_path, declared(n=ValueState(int)), ROCKSDB)
    assert "install" in str(caught.value.hint)


@pytest.mark.parametrize("form", list(EntryForm))
def test_keys_and_namespaces_are_distinguished(form: EntryForm) -> None:
    namespaces = {
        EntryForm.VALUE: [b""],
        EntryForm.LIST: [(0).to_bytes(8, "big"), (77).to_bytes(8, "big")],
        EntryForm.MAP: [b"", b"\xa1x", b"\xa2xy"],
        EntryForm.TIMERS: [b"e" + time.to_bytes(8, "big", signed=True) for time in (-5, 0, 5)],
    }[form]
    for key in map(USERS.encode, ("", "a", "ab", "a" * 300)):
        for namespace in namespaces:
            assert split(form, join(form, key, namespace)) == (key, namespace)
    if form is EntryForm.TIMERS:
        places = [join(form, b"\xa1a", namespace) for namespace in namespaces]
        assert places == sorted(places)


def test_savepoint_rows_are_sorted_and_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.core.state.rocksdb.database_rows._PIECE_ROWS", 100)
    states = declared(n=ValueState(int), counts=MapState(str, int))
    job = Job(tmp_path, states, ROCKSDB)
    for i in range(300):
        here = job[f"user {i}"]
        here.n.value = i
        here.counts["x"] = here.counts["y"] = i
        here.timers.register(1_000 - i)
    [task] = job.subtasks
    for part in task.backend.savepoint():
        written: Any = part.write()
        tables = list(written)
        assert max(table.num_rows for table in tables) <= 100
        rows = [
            (row["key_group"], row["key"], row["namespace"])
            for table in tables
            for row in table.to_pylist()
        ]
        assert rows == sorted(rows)
        assert len(rows) == (600 if part.state == "counts" else 300)
    assert {part.state for part in task.backend.savepoint()} == {"n", "counts", TIMERS}
    written = job.savepoint()
    handles = [handle for handle in written.entry.handles if handle.state == "counts"]
    assert [handle.operator for handle in handles] == [OPERATOR] * 6
    job.close()
