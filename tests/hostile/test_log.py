"""CP31: an entry of the log that does not belong in its place is refused."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    LogEntry,
    Place,
    StoredEntry,
    decode_entry,
    encode_entry,
)
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.runtimes.simulated.store import MemoryStore
from tests.compat.programs import ROWS
from tests.compat.test_golden import snapshot
from tests.hostile.jobs import Files, entry, error_of, lost, newest, rows_of

OLD_LOG = "kept"
"""The job of the stored folders of older versions."""


def stored(files: Files, number: int) -> StoredEntry:
    return decode_entry(files[entry(number)], entry(number))


def test_an_unmodified_log_is_accepted() -> None:
    assert rows_of(lost()) == ROWS


class TestOfAJob:
    """Each is a whole job that was lost, and is started again."""

    def test_copying_an_entry_over_the_next_is_noticed(self) -> None:
        files = lost()
        last = newest(files)
        files[entry(last)] = files[entry(last - 1)]
        error = error_of(files)
        assert isinstance(error, UnrestorableError), "else it would be restarted for ever"
        assert error.what == (
            f"the log entry {entry(last)} does not belong there: it is entry {last - 1}"
        )
        assert "restore the file from a copy" in str(error.hint)

    def test_copying_a_claim_over_the_newest_is_noticed(self) -> None:
        files = lost()
        files[entry(newest(files))] = files[entry(1)]
        assert "does not belong there: it is entry 1" in error_of(files).what

    def test_copying_a_tombstone_over_the_newest_is_noticed(self) -> None:
        files = lost()
        stone = stored(files, 2).entry
        assert isinstance(stone, CheckpointCompleted)
        assert stone.dropped, "retention has dropped the first checkpoint"
        files[entry(newest(files))] = files[entry(2)]
        assert "does not belong there: it is entry 2" in error_of(files).what

    def test_a_tombstone_of_the_newest_checkpoint_is_an_error(self) -> None:
        files = lost()
        last = newest(files)
        of = stored(files, last)
        assert isinstance(of.entry, CheckpointCompleted)
        files[entry(last)] = encode_entry(of.entry.tombstone(), of.place)
        assert "its checkpoint is the newest, but it was dropped (CP10)" in error_of(files).what

    def test_an_entry_of_another_job(self) -> None:
        files = lost()
        last = newest(files)
        of = stored(files, last)
        assert of.place is not None
        others = msgspec.structs.replace(of.place, job=JobId("another"))
        files[entry(last)] = encode_entry(of.entry, others)
        assert "it belongs to the job 'another'" in error_of(files).what

    def test_an_entry_of_another_log_of_the_job(self) -> None:
        """As that of a run in another directory, under the same number."""
        files = lost()
        last = newest(files)
        of = stored(files, last)
        assert of.place is not None
        others = msgspec.structs.replace(of.place, log="another driver")
        files[entry(last)] = encode_entry(of.entry, others)
        assert "it belongs to another log of this job" in error_of(files).what

    def test_a_missing_entry(self) -> None:
        files = lost()
        del files[entry(newest(files) - 1)]
        assert "has a gap" in error_of(files).what

    @pytest.mark.parametrize("left", [0, 1, 100, -1])
    def test_a_truncated_entry(self, left: int) -> None:
        files = lost()
        last = entry(newest(files))
        files[last] = files[last][:left]
        assert f"the log entry {last} is damaged" in error_of(files).what

    def test_a_newest_entry_without_its_place(self) -> None:
        """A downgrade: an old format says less, and so it may not follow one that says more."""
        files = lost()
        last = newest(files)
        files[entry(last)] = encode_entry(stored(files, last).entry, None)
        assert "it has format 1 after entries of format 3" in error_of(files).what


@pytest.mark.parametrize("version", ["0.1.0"])
class TestOlderFormats:
    """Their entries do not say where they belong; their order tells it."""

    def log(self, version: str) -> tuple[JobLog, MemoryStore, int]:
        store = snapshot(version, "checkpoints").store()
        log = JobLog(store, JobId(OLD_LOG))
        return log, store, log.read().next_number - 1

    def test_copying_an_entry_over_a_later_one_is_noticed(self, version: str) -> None:
        _, store, last = self.log(version)
        whole = dict(store.files)
        for number in range(1, last):
            store.files.update({**whole, entry(last): whole[entry(number)]})
            with pytest.raises(UnrestorableError, match=f"{last:010d}.json does not belong there"):
                JobLog(store, JobId(OLD_LOG)).read()

    def test_a_log_continues_in_the_new_format(self, version: str) -> None:
        log, store, last = self.log(version)
        view = log.read()
        newest = view.completed[-1]
        claim = AttemptStarted(
            attempt=Attempt(view.attempt + 1),
            owner="new",
            reserved_to=CheckpointId(view.reserved_to + 4),
            from_checkpoint=newest.entry.checkpoint,
            parallelism=2,
            completed=[newest.number],
        )
        assert log.append(last + 1, claim)
        place = decode_entry(store.files[entry(last + 1)], "p").place
        assert place == Place(JobId(OLD_LOG), log.identity(), last + 1, since=last + 1)
        read = JobLog(store, JobId(OLD_LOG)).read()
        assert (read.newest, read.completed) == (claim, (newest,))
        # And an old entry in the place of the new one is none of its time.
        store.files[entry(last + 1)] = store.files[entry(last)]
        with pytest.raises(UnrestorableError, match="does not belong there"):
            JobLog(store, JobId(OLD_LOG)).read()

    def test_a_tombstone_keeps_the_format_of_its_entry(self, version: str) -> None:
        log, store, _ = self.log(version)
        log.drop(log.read().completed[-1].number)
        formats = {decode_entry(data, p).format for p, data in store.files.items() if "/log/" in p}
        assert formats == {1}


class TestBits:
    """Of a small entry each bit is flipped: what is read is what was written, or nothing is."""

    ENTRY = AttemptStarted(
        attempt=Attempt(3),
        owner="driver",
        reserved_to=CheckpointId(9),
        from_checkpoint=CheckpointId(4),
        parallelism=2,
        completed=[2],
    )
    PLACE = Place(JobId("job"), "driver", 3)

    @pytest.mark.parametrize("place", [PLACE, None], ids=["format 3", "format 1"])
    def test_each(self, place: Place | None) -> None:
        whole = encode_entry(self.ENTRY, place)
        refused = 0
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                read = decode_entry(bytes(flipped), "p")
            except UnrestorableError:
                refused += 1
            else:
                assert (read.entry, read.place) == (self.ENTRY, place), f"bit {bit}"
        assert refused > 0.95 * 8 * len(whole)


class TestContent:
    """With a checksum that matches: somebody has written it so, or a version has a defect."""

    def read(self, made: LogEntry | bytes) -> None:
        store = MemoryStore()
        log = JobLog(store, JobId("job"))
        assert log.append(
            1, msgspec.structs.replace(TestBits.ENTRY, from_checkpoint=None, completed=[])
        )
        place = Place(JobId("job"), "driver", 2)
        store.put(log.path(2), made if isinstance(made, bytes) else encode_entry(made, place))
        log.read()

    def checkpoint(self, **changes: object) -> CheckpointCompleted:
        handle = StateHandle(
            operator="count",  # type: ignore[arg-type]
            subtask=0,
            state="counts",
            kind=StateKind.KEYED,
            mode=PartMode.FULL,
            size_bytes=10,
            rows=1,
            checksum=0,
            path="job/state/3/5/count/0-counts-0.arrow",
        )
        return CheckpointCompleted(
            attempt=Attempt(3),
            owner="driver",
            reserved_to=CheckpointId(9),
            checkpoint=CheckpointId(5),
            final=False,
            parallelism=2,
            max_parallelism=8,
            operators={},
            handles=[msgspec.structs.replace(handle, **changes)],
            committables=[],
        )

    def test_valid_content_is_accepted(self) -> None:
        self.read(self.checkpoint())

    @pytest.mark.parametrize(
        "path",
        [
            "job/state/../../victim/data.parquet",
            "../job/state/1/1/count/0-counts-0.arrow",
            "/etc/passwd",
            "other/state/3/5/count/0-counts-0.arrow",
            "job/state//3/5/0.arrow",
            "job/state/3/5/count/.hidden",
            "job/state/3/5/count/0\0.arrow",
            "job/log/0000000001.json",
            "job/state",
        ],
    )
    def test_a_path_outside_the_state_folder_is_refused(self, path: str) -> None:
        """CP32: else it would be opened, and once the checkpoint is dropped, deleted."""
        with pytest.raises(UnrestorableError, match="not a state file below 'job/state'"):
            self.read(self.checkpoint(path=path))

    @pytest.mark.parametrize(
        "changes",
        [
            {"mode": PartMode.FILE, "file": "../authorized_keys"},
            {"mode": PartMode.FILE, "file": ""},
            {"file": "unasked.sst"},
            {"subtask": 2},
            {"subtask": -1},
            {"rows": -1},
            {"size_bytes": -1},
            {"path": "", "inline": b"short"},
        ],
        ids=str,
    )
    def test_an_impossible_handle(self, changes: dict[str, object]) -> None:
        with pytest.raises(UnrestorableError, match=r"0000000002\.json does not belong there"):
            self.read(self.checkpoint(**changes))

    @pytest.mark.parametrize("around", ["", '"x":', '"place":{"job":', '"entry":{"states":{"a":'])
    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    def test_a_deeply_nested_entry(self, around: str, opening: str) -> None:
        body = b"{" + around.encode() + opening.encode() * 100_000
        data = b'{"format":2,"crc32":%d,"entry":%s}' % (zlib.crc32(body), body)
        with pytest.raises(UnrestorableError, match="is damaged"):
            self.read(data)

    def test_a_claim_that_lists_other_entries_than_checkpoints(self) -> None:
        for listed, why in (
            ([1], "but it is not one"),
            ([7], "does not precede it"),
            ([], "but the newest that it lists is"),
        ):
            claim = msgspec.structs.replace(
                TestBits.ENTRY, attempt=Attempt(4), completed=listed, from_checkpoint=CheckpointId(5)
            )
            with pytest.raises(CheckpointError, match=why):
                self.read(claim)
