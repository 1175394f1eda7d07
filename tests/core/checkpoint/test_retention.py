"""Retention: which files and entries expire, and when (CP10)."""

from __future__ import annotations

import msgspec

from rheos.core.checkpoint.log_entries import CheckpointCompleted, NumberedCheckpoint
from rheos.core.checkpoint.names import state_path
from rheos.core.checkpoint.retention import ExpiredFiles, Retention, attempt_of, stale
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from tests.core.checkpoint.timelines import completed, handle


def checkpoint(number: int, *paths: str) -> CheckpointCompleted:
    return msgspec.structs.replace(completed(number), handles=[handle(path) for path in paths])


def test_a_chain_keeps_the_files_of_checkpoints_before_it() -> None:
    retention = Retention(retain=1)
    assert retention.completed(1, checkpoint(1, "full")) == ExpiredFiles()
    assert retention.completed(2, checkpoint(2, "full", "delta 1")) == ExpiredFiles((), (1,))
    assert retention.completed(3, checkpoint(3, "full", "delta 1", "delta 2")) == ExpiredFiles((), (2,))
    gone = ("delta 1", "delta 2", "full")
    assert retention.completed(4, checkpoint(4, "full 2")) == ExpiredFiles(gone, (3,))
    assert retention.newest == checkpoint(4, "full 2")


def test_files_that_only_open_checkpoints_have_named_are_kept() -> None:
    retention = Retention(retain=1)
    retention.completed(1, checkpoint(1, "a"))
    retention.noted(CheckpointId(2), [handle("c")])
    retention.noted(CheckpointId(3), [handle("b")])
    assert retention.completed(2, checkpoint(2, "d")) == ExpiredFiles(("a", "c"), (1,))
    assert retention.completed(3, checkpoint(3, "b")) == ExpiredFiles(("d",), (2,))


def test_a_file_of_an_aborted_checkpoint_stays_until_a_later_one_does_not_need_it() -> None:
    """Check that a completed older checkpoint has no influence: a chain may continue from the file."""
    retention = Retention(retain=1)
    retention.noted(CheckpointId(2), [handle("aborted")])
    assert retention.completed(1, checkpoint(1, "a")) == ExpiredFiles()
    chained = checkpoint(3, "a", "aborted", "b")
    assert retention.completed(2, chained) == ExpiredFiles((), (1,))
    assert retention.completed(3, checkpoint(4, "whole")) == ExpiredFiles(("a", "aborted", "b"), (2,))


def test_a_late_message_of_an_older_checkpoint_does_not_keep_a_file() -> None:
    retention = Retention(retain=1)
    retention.completed(1, checkpoint(2, "a"))
    retention.noted(CheckpointId(1), [handle("late")])
    assert retention.completed(2, checkpoint(3, "b")) == ExpiredFiles(("a", "late"), (1,))


def test_small_parts_have_no_files() -> None:
    retention = Retention(retain=1)
    retention.completed(1, checkpoint(1, ""))
    assert retention.completed(2, checkpoint(2)) == ExpiredFiles((), (1,))


def test_checkpoints_kept_by_earlier_drivers_are_trimmed() -> None:
    kept = [NumberedCheckpoint(n, checkpoint(n, f"file {n}")) for n in (3, 4, 5)]
    retention = Retention(2, kept)
    assert retention.trim() == ExpiredFiles(("file 3",), (3,))
    assert retention.trim() == ExpiredFiles()
    assert retention.numbers == [4, 5]
    assert retention.needed == {"file 4", "file 5"}


def test_one_checkpoint_is_always_kept() -> None:
    retention = Retention(retain=0)
    assert retention.completed(1, checkpoint(1, "a")) == ExpiredFiles()
    assert retention.numbers == [1]


def test_the_sweep_removes_unreferenced_files_of_earlier_attempts() -> None:
    job = JobId("a job/1")

    def path(attempt: int, state: str) -> str:
        return state_path(job, Attempt(attempt), CheckpointId(7), OperatorId("op/x"), 3, state)

    files = [path(1, "old"), path(1, "kept"), path(2, "old"), path(3, "new"), "a job%2F1/state/readme"]
    assert files[0] == "a job%2F1/state/1/7/op%2Fx/3-old-0.arrow"
    assert stale(files, Attempt(3), frozenset([files[1]])) == [files[0], files[2]]
    through = [stale(files, Attempt(3), frozenset(), CheckpointId(n)) for n in (6, 7)]
    assert through == [files[:3], files[:4]]
    assert attempt_of(files[3]) == 3
    assert attempt_of("a job/log/0000000001.json") is None


def test_an_entry_lists_the_kept_checkpoints() -> None:
    """Check that nothing is dropped until the entry is in the log; after that, exactly the listed
    checkpoints are kept."""
    for retain in (0, 1, 2, 3):
        retention = Retention(retain)
        for number in range(1, 6):
            listed = retention.numbers_with_next
            retention.completed(number, checkpoint(number))
            assert retention.numbers == [*listed, number]
