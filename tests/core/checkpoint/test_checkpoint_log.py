"""The job's log over a store: what it accepts and refuses, and the cost of reading it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.log import JobLog, LogView
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobFinished,
    LogEntry,
    NumberedCheckpoint,
    Place,
    decode_entry,
    encode_entry,
)
from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import CheckpointError
from rheos.core.protocol.control import Totals
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import completed


def started(attempt: int, kept: list[int], owner: str = "me") -> AttemptStarted:
    """Return a log in which entry n + 1 is checkpoint n."""
    newest = kept[-1] - 1 if kept else 0
    return AttemptStarted(
        attempt=Attempt(attempt),
        owner=owner,
        reserved_to=CheckpointId(newest + 1 + attempt),
        from_checkpoint=CheckpointId(newest) if kept else None,
        parallelism=2,
        completed=kept,
    )


FINISHED = JobFinished(
    attempt=Attempt(1), owner="me", reserved_to=CheckpointId(9), checkpoint=CheckpointId(2)
)


PLACE = Place(JobId("job"), "me", 7)


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__(self.count)
        self.reads: list[str] = []

    def count(self, moment: str, operation: str, path: str) -> None:
        if operation == "get" and moment == "before":
            self.reads.append(path)


def log_of(*entries: LogEntry) -> tuple[JobLog, Counting]:
    store = Counting()
    log = JobLog(store, JobId("job"))
    for number, entry in enumerate(entries, 1):
        assert log.append(number, entry)
    return log, store


def test_an_empty_log() -> None:
    log, _ = log_of()
    view = log.read()
    assert view == LogView(1, None, ())
    assert (view.attempt, view.reserved_to) == (0, 0)


@pytest.mark.parametrize("entry", [started(3, [1, 2]), completed(7, final=True), FINISHED])
def test_an_entry_is_read_back(entry: LogEntry) -> None:
    assert decode_entry(encode_entry(entry, PLACE), "path") == (entry, 3, PLACE)
    assert decode_entry(encode_entry(entry, None), "path") == (entry, 1, None)


def test_handles_keep_their_bytes() -> None:
    entry = completed(1)
    inline = msgspec.structs.replace(entry.handles[0], inline=bytes(range(256)), path="")
    totals = Totals({"a": 1}, {"b": 2}, {"a/late": 3})
    entry = msgspec.structs.replace(entry, handles=[inline], totals=totals)
    assert decode_entry(encode_entry(entry, PLACE), "path").entry == entry


def test_the_view_has_the_newest_entry_and_the_kept_checkpoints() -> None:
    log, _ = log_of(started(1, []), completed(1), completed(2), FINISHED)
    kept = (NumberedCheckpoint(2, completed(1)), NumberedCheckpoint(3, completed(2)))
    assert log.read() == LogView(5, FINISHED, kept)


def test_a_dropped_checkpoint_keeps_its_number() -> None:
    """Check CP1."""
    log, store = log_of(started(1, []), completed(1), completed(2))
    log.drop(2)
    log.drop(2)
    assert log.read() == LogView(4, completed(2), (NumberedCheckpoint(3, completed(2)),))
    assert log.append(2, started(2, [], owner="a sleeper")) is False
    assert len(store.files[log.path(2)]) < 400


def test_only_checkpoints_are_dropped() -> None:
    log, _ = log_of(started(1, []), completed(2), FINISHED)
    log.drop(1)
    assert log.read().newest == FINISHED


def test_reading_does_not_walk_over_failed_attempts() -> None:
    entries: list[LogEntry] = [started(1, []), *(completed(n) for n in range(1, 6))]
    entries += [started(n, [5, 6]) for n in range(2, 100)]
    log, store = log_of(*entries)
    store.reads.clear()
    view = JobLog(store, JobId("job")).read()
    assert [kept.number for kept in view.completed] == [5, 6]
    assert view.attempt == 99
    assert store.reads == [log.path(number) for number in (105, 104, 1, 103, 5, 6)]


def test_reading_stops_at_the_first_dropped_checkpoint() -> None:
    log, store = log_of(started(1, []), *(completed(n) for n in range(1, 50)))
    for number in range(2, 49):
        log.drop(number)
    store.reads.clear()
    assert [kept.number for kept in log.read().completed] == [49, 50]
    assert store.reads == [log.path(number) for number in (51, 50, 49, 48, 47)]


def test_kept_checkpoints_are_found_behind_a_claim_and_after_it() -> None:
    log, _ = log_of(started(1, []), completed(1), started(2, [2]), completed(3, 2, reserved=2))
    assert [kept.number for kept in log.read().completed] == [2, 4]
    log.drop(2)
    assert [kept.number for kept in log.read().completed] == [4]


def test_a_number_is_written_once() -> None:
    log, _ = log_of(started(1, [], owner="other"))
    assert log.append(1, started(1, [])) is False
    assert log.read().newest == started(1, [], owner="other")


def test_an_entry_whose_write_was_reported_lost_is_recognised() -> None:
    log, store = log_of()

    def lose(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("after", "put_if_absent"):
            raise TimeoutError("no answer")

    store.on_access = lose
    with pytest.raises(CheckpointError, match=r"job/log/0000000001\.json could not be written"):
        log.append(1, started(1, []))
    store.on_access = None
    assert log.append(1, started(1, [])) is True
    with pytest.raises(CheckpointError, match="an earlier write of the log entry"):
        log.append(1, started(2, []))


def test_a_gap_is_an_error() -> None:
    log, store = log_of(started(1, []), completed(1), completed(2))
    store.delete(log.path(2))
    with pytest.raises(CheckpointError, match="has a gap: entry 2 is missing, but 3 exists"):
        log.read()


def test_other_files_in_the_folder_are_no_entries() -> None:
    log, store = log_of(started(1, []))
    store.put("job/log/notes.txt", b"")
    assert log.read().next_number == 2


@given(cut=st.integers(0, 10_000), flip=st.booleans())
def test_the_error_for_a_damaged_entry_names_its_path(cut: int, flip: bool) -> None:
    whole = encode_entry(completed(1), PLACE)
    at = cut % len(whole)
    damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] if flip else whole[:at]
    with pytest.raises(CheckpointError, match=r"the log entry job/log/1\.json"):
        decode_entry(damaged, "job/log/1.json")


def test_an_entry_of_a_later_format_asks_for_a_later_version() -> None:
    data = msgspec.json.encode({"format": 4, "crc32": 0, "entry": {}})
    with pytest.raises(CheckpointError, match="has format 4") as caught:
        decode_entry(data, "path")
    assert "later" in str(caught.value.hint)


@pytest.mark.parametrize("operation", ["list", "get"])
def test_a_failing_store_is_an_error(operation: str) -> None:
    log, store = log_of(started(1, []))

    def fail(moment: str, now: str, path: str) -> None:
        if now == operation:
            raise PermissionError("not yours")

    store.on_access = fail
    with pytest.raises(CheckpointError, match="could not be read: not yours"):
        log.read()


@given(st.lists(st.text(max_size=8), min_size=2, max_size=2, unique=True))
def test_safe_names_are_unique_single_path_components(names: list[str]) -> None:
    first, second = map(safe_name, names)
    assert first != second
    for name in (first, second):
        assert name
        assert "/" not in name
        assert not name.startswith(".")


def test_long_names_stay_apart_and_short_enough() -> None:
    first, second = safe_name("x" * 500), safe_name("x" * 501)
    assert first != second
    assert len(first) <= 100
    assert safe_name("visitors per country") == "visitors per country"


def test_a_tombstone_describes_the_dropped_checkpoint() -> None:
    stone = completed(4).tombstone()
    assert isinstance(stone, CheckpointCompleted)
    assert (stone.checkpoint, stone.dropped, stone.handles, stone.committables) == (4, True, [], [])
