"""The snapshot writer: chains of parts, written beside the processing (CP11)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pytest

from rheos.checkpoint.snapshot_writer import INLINE_BYTES, PendingSnapshot, SnapshotWriter
from rheos.errors import CheckpointError, UserFunctionError
from rheos.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore

T = TypeVar("T")
COUNT, OTHER = OperatorId("count"), OperatorId("other")


def encode(table: pa.Table, kind: StateKind, mode: PartMode) -> bytes:
    """The table's text, of a length that it tells."""
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

    def texts(self, pending: PendingSnapshot) -> list[str]:
        self.io.run_due()
        assert pending.done()
        assert pending.failures() == []
        return [
            (self.store.get(handle.path) if handle.path else handle.inline).decode()
            for handle in pending.handles()
        ]


def test_small_parts_lie_in_the_log_and_large_ones_in_files() -> None:
    subtask = Subtask()
    small, large = "s" * INLINE_BYTES, "l" * (INLINE_BYTES + 1)
    pending = subtask.begin(7, part(small, state="small"), part(large, state="large one"))
    assert not pending.done()
    assert subtask.store.files == {}
    assert subtask.texts(pending) == [small, large]
    first, second = pending.handles()
    assert (first.path, first.size_bytes, first.rows) == ("", INLINE_BYTES, 1)
    assert second.inline == b""
    assert second.path == "job/state/2/7/count/1-large one.arrow"
    assert second.checksum == zlib.crc32(large.encode())
    assert list(subtask.store.files) == [second.path]


def test_every_checkpoint_refers_to_the_whole_chain() -> None:
    subtask = Subtask()
    assert subtask.texts(subtask.begin(1, part("full"))) == ["full"]
    assert subtask.texts(subtask.begin(2, delta("d1"))) == ["full", "d1"]
    assert subtask.texts(subtask.begin(3, delta("d2"))) == ["full", "d1", "d2"]
    assert subtask.texts(subtask.begin(4, part("full 2"))) == ["full 2"]
    assert subtask.texts(subtask.begin(5, delta("d3"))) == ["full 2", "d3"]


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


def test_what_a_snapshot_leaves_out_is_gone() -> None:
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
    """One may have been aborted while its parts were still on their way."""
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


def test_a_failed_part_spoils_the_chain_until_the_next_full_one() -> None:
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


def test_an_error_of_ours_is_kept_as_it_is() -> None:
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
