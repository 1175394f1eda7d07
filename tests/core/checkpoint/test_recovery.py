"""Recovery: which parts of a checkpoint each subtask of the new attempt receives (CP12)."""

from __future__ import annotations

import zlib
from collections import Counter

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.continuation import check_fits
from rheos.core.checkpoint.events import JobShape
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import Decode, restored_state
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.checkpoint.state_assignment import shares
from rheos.core.errors import CheckpointError
from rheos.core.formats.arrow_bytes import table_bytes, table_of
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import (
    IN_FLIGHT_INPUT,
    IN_FLIGHT_OUTPUT,
    RECEIVER,
    PartMode,
    RestoredState,
    Snapshot,
    SnapshotPart,
    StateHandle,
    StateKind,
)
from rheos.core.state import format as state_format
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import SHAPE, completed, handle

SCHEMA = pa.schema({"key_group": pa.uint16(), "row": pa.string()})


def encoded(groups: list[int], tag: str) -> bytes:
    table = pa.table({"key_group": groups, "row": [f"{tag}:{i}" for i in range(len(groups))]}, SCHEMA)
    return table_bytes(table)


def decode(data: bytes, groups: range | None) -> pa.Table:
    table = table_of(data)
    if groups is None:
        return table
    return table.filter(
        pa.array([group in groups for group in table["key_group"].to_pylist()], pa.bool_())
    )


class Job:
    """Checkpoint that is built part by part."""

    def __init__(self, parallelism: int, max_parallelism: int = 8) -> None:
        self.store = MemoryStore()
        self.parallelism, self.max_parallelism = parallelism, max_parallelism
        self.handles: list[StateHandle] = []

    def part(
        self,
        subtask: int,
        groups: list[int],
        tag: str,
        kind: StateKind = StateKind.KEYED,
        mode: PartMode = PartMode.FULL,
        inline: bool = False,
    ) -> None:
        data = encoded(groups, tag)
        path = "" if inline else f"{tag}.arrow"
        if path:
            self.store.put(path, data)
        self.handles.append(
            handle(
                path,
                subtask=subtask,
                state=kind.value,
                kind=kind,
                mode=mode,
                rows=len(groups),
                checksum=zlib.crc32(data),
                inline=data if inline else b"",
                size_bytes=len(data),
            )
        )

    def table(self, subtask: int, state: str, table: pa.Table, kind: StateKind) -> None:
        """Return a part as it is really written."""
        data = state_format.encode(table, kind, PartMode.FULL)
        self.handles.append(
            handle(
                "",
                subtask=subtask,
                state=state,
                kind=kind,
                rows=table.num_rows,
                checksum=zlib.crc32(data),
                inline=data,
                size_bytes=len(data),
            )
        )

    def entry(self) -> CheckpointCompleted:
        return msgspec.structs.replace(
            completed(1),
            handles=self.handles,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
        )

    def restored(
        self, subtask: int, parallelism: int, kind: StateKind, decoder: Decode = decode
    ) -> list[list[str]]:
        state = restored_state(self.entry(), subtask, parallelism, self.store, decoder)
        assert list(state) == ["count"]
        tables = list(state[OperatorId("count")][kind.value])
        assert all(table.schema == SCHEMA for table in tables)
        return [table["row"].to_pylist() for table in tables]


class TestKeyed:
    def job(self) -> Job:
        job = Job(parallelism=2)
        for subtask in (0, 1):
            own = list(range(4 * subtask, 4 * subtask + 4))
            job.part(subtask, own, f"full {subtask}", inline=subtask == 0)
            job.part(subtask, own[:2], f"delta {subtask}", mode=PartMode.DELTA)
        return job

    def test_at_the_same_parallelism_each_receives_its_own_in_order(self) -> None:
        assert self.job().restored(1, 2, StateKind.KEYED) == [
            ["full 1:0", "full 1:1", "full 1:2", "full 1:3"],
            ["delta 1:0", "delta 1:1"],
        ]

    def test_scaled_in_one_subtask_receives_everything_in_order(self) -> None:
        tables = self.job().restored(0, 1, StateKind.KEYED)
        assert [rows[0] for rows in tables] == ["full 0:0", "delta 0:0", "full 1:0", "delta 1:0"]
        assert sum(map(len, tables)) == 12

    def test_scaled_out_each_subtask_receives_only_its_groups(self) -> None:
        job = self.job()
        assert job.restored(2, 4, StateKind.KEYED) == [
            ["full 1:0", "full 1:1"],
            ["delta 1:0", "delta 1:1"],
        ]
        assert job.restored(3, 4, StateKind.KEYED) == [["full 1:2", "full 1:3"], []]

    def test_a_subtask_without_key_groups_is_restored_too(self) -> None:
        assert self.job().restored(1, 16, StateKind.KEYED) == [[]]

    @given(st.integers(1, 9), st.integers(1, 9), st.integers(9, 40))
    def test_every_key_group_goes_to_its_owner(self, old: int, new: int, most: int) -> None:
        job = Job(old, most)
        for subtask in range(old):
            job.part(subtask, list(group_range(subtask, old, most)), f"{subtask}")
        given: Counter[int] = Counter()
        for subtask in range(new):
            state = restored_state(job.entry(), subtask, new, job.store, decode)
            tables = state[OperatorId("count")]["keyed"]
            groups = [group for table in tables for group in table["key_group"].to_pylist()]
            assert groups == list(group_range(subtask, new, most))
            given.update(groups)
        assert given == Counter(range(most))

    def test_whole_parts_are_read_without_a_filter(self) -> None:
        shared = shares(self.job().entry(), 0, 1)
        assert [share.groups for share in shared] == [None] * 4
        assert [share.groups for share in shares(self.job().entry(), 1, 4)] == [range(2, 4)] * 2


class TestListAndUnion:
    def job(self, rows: tuple[int, ...] = (3, 2), kind: StateKind = StateKind.LIST) -> Job:
        job = Job(len(rows))
        for subtask, count in enumerate(rows):
            job.part(subtask, [0] * count, f"{subtask}", kind)
        return job

    def test_at_the_same_parallelism_each_keeps_its_own(self) -> None:
        assert self.job().restored(1, 2, StateKind.LIST) == [["1:0", "1:1"]]

    def test_rows_are_distributed_round_robin(self) -> None:
        dealt = [self.job().restored(subtask, 3, StateKind.LIST) for subtask in range(3)]
        assert dealt == [[["0:0"], ["1:0"]], [["0:1"], ["1:1"]], [["0:2"]]]

    def test_a_subtask_without_rows_is_notified_that_it_is_restored(self) -> None:
        assert self.job((1, 0)).restored(2, 3, StateKind.LIST) == [[]]

    @given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 7))
    def test_every_row_is_assigned_once_and_evenly(self, rows: list[int], new: int) -> None:
        job = self.job(tuple(rows))
        dealt = [
            [row for table in job.restored(subtask, new, StateKind.LIST) for row in table]
            for subtask in range(new)
        ]
        everything = sorted(
            f"{subtask}:{i}" for subtask, count in enumerate(rows) for i in range(count)
        )
        assert sorted(row for share in dealt for row in share) == everything
        if new != len(rows):
            assert max(map(len, dealt)) - min(map(len, dealt)) <= 1

    def test_union_state_is_received_by_all(self) -> None:
        for parallelism in (2, 3):
            for subtask in range(parallelism):
                restored = self.job(kind=StateKind.UNION).restored(
                    subtask, parallelism, StateKind.UNION
                )
                assert restored == [["0:0", "0:1", "0:2"], ["1:0", "1:1"]]


class TestBroadcast:
    def job(self, parallelism: int) -> Job:
        job = Job(parallelism)
        for subtask in range(parallelism):
            for piece in ("a", "b"):
                job.part(subtask, [0], f"{subtask}{piece}", StateKind.BROADCAST)
        return job

    @given(st.integers(1, 6), st.integers(1, 9))
    def test_each_subtask_gets_broadcast_state_of_one_old_subtask(self, old: int, new: int) -> None:
        for subtask in range(new):
            source = subtask % old
            restored = self.job(old).restored(subtask, new, StateKind.BROADCAST)
            assert restored == [[f"{source}a:0"], [f"{source}b:0"]]

    def test_subtasks_beyond_a_narrower_operator_receive_no_rows(self) -> None:
        entry = self.job(3).entry()
        given_to = [len(shares(entry, subtask, 3, {OperatorId("count"): 2})) for subtask in range(3)]
        assert given_to == [2, 2, 0]

    @given(st.integers(1, 5), st.integers(1, 7))
    def test_rows_in_flight_are_those_that_the_same_old_subtask_still_lacked(
        self, old: int, new: int
    ) -> None:
        """Check that each row is received once: a row that a subtask had not processed is stored by it
        or by a sender."""
        job = Job(old)
        for subtask in range(old):
            lain = pa.table({"row": [f"at {subtask}"]})
            job.table(subtask, f"{IN_FLIGHT_INPUT}1", lain, StateKind.BROADCAST)
            waiting = [(to, f"{subtask} to {to}") for to in range(old) for _ in range(2)]
            sent = pa.table(
                {
                    RECEIVER: pa.array([to for to, _ in waiting], pa.uint16()),
                    "row": [text for _, text in waiting],
                }
            )
            job.table(subtask, f"{IN_FLIGHT_OUTPUT}1", sent, StateKind.BROADCAST)
        for subtask in range(new):
            source = subtask % old
            found = restored_state(job.entry(), subtask, new, job.store, state_format.decode)
            states = found[OperatorId("count")]

            def texts(state: str, of: dict[str, RestoredState] = states) -> list[str]:
                return [text for table in of[state] for text in table.column("row").to_pylist()]

            assert texts(f"{IN_FLIGHT_INPUT}1") == [f"at {source}"]
            wanted = [f"{sender} to {source}" for sender in range(old) for _ in range(2)]
            assert texts(f"{IN_FLIGHT_OUTPUT}1") == wanted


class TestFileSets:
    """A set of files is indivisible: a subtask that needs one of its groups receives all of it."""

    @given(st.integers(1, 6), st.integers(1, 6), st.integers(6, 40), st.integers(1, 3))
    def test_every_key_group_is_in_the_files_of_its_earlier_owner(
        self, old: int, new: int, most: int, files: int
    ) -> None:
        handles = [
            msgspec.structs.replace(
                handle(f"{subtask}-{number}", subtask=subtask, mode=PartMode.FILE), file=f"{number}.sst"
            )
            for subtask in range(old)
            for number in range(files)
        ]
        entry = msgspec.structs.replace(
            completed(1), handles=handles, parallelism=old, max_parallelism=most
        )
        for subtask in range(new):
            taken: Counter[int] = Counter()
            sets: dict[int, list[str]] = {}
            for share in shares(entry, subtask, new):
                sets.setdefault(share.handle.subtask, []).append(share.handle.file)
                had = group_range(share.handle.subtask, old, most)
                groups = had if share.groups is None else share.groups
                assert set(groups) <= set(had)
                if share.handle.file == "0.sst":
                    taken.update(groups)
            assert taken == Counter(group_range(subtask, new, most))
            assert all(names == [f"{n}.sst" for n in range(files)] for names in sets.values())


@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
)
def test_repeated_rescaling_loses_or_duplicates_nothing(
    parallelism: int, then: list[int], rows: list[int]
) -> None:
    """Check CP12 for every kind at once: each step changes the parallelism and restores the state of
    the one before."""
    most = 12
    lists = [[f"split {subtask}/{i}" for i in range(rows[subtask])] for subtask in range(parallelism)]
    keyed = [list(group_range(subtask, parallelism, most)) for subtask in range(parallelism)]
    unions = [[f"union {subtask}"] for subtask in range(parallelism)]
    every_list = sorted(row for share in lists for row in share)
    before = parallelism
    for new in then:
        handles: list[StateHandle] = []
        held: dict[str, list[object]] = {}
        for kind, content in (
            (StateKind.LIST, lists),
            (StateKind.KEYED, keyed),
            (StateKind.UNION, unions),
            (StateKind.BROADCAST, [["rules"]] * before),
        ):
            for subtask, share in enumerate(content):
                path = f"{kind.value}/{subtask}"
                held[path] = list(share)
                handles.append(
                    handle(path, subtask=subtask, state=kind.value, kind=kind, rows=len(share))
                )
        entry = msgspec.structs.replace(
            completed(1), handles=handles, parallelism=before, max_parallelism=most
        )

        def given_to(subtask: int, kind: StateKind) -> list[object]:
            found: list[object] = []
            for share in shares(entry, subtask, new):  # noqa: B023
                if share.handle.kind is kind:
                    content = held[share.handle.path][share.offset :: share.every]  # noqa: B023
                    found += [row for row in content if share.groups is None or row in share.groups]
            return found

        lists = [[str(row) for row in given_to(subtask, StateKind.LIST)] for subtask in range(new)]
        keyed = [sorted(given_to(subtask, StateKind.KEYED)) for subtask in range(new)]  # type: ignore
        assert sorted(row for share in lists for row in share) == every_list
        assert keyed == [list(group_range(subtask, new, most)) for subtask in range(new)]
        for subtask in range(new):
            assert given_to(subtask, StateKind.BROADCAST) == ["rules"]
            assert given_to(subtask, StateKind.UNION) == [row for share in unions for row in share]
        unions = [[f"union {subtask}"] for subtask in range(new)]
        before = new


class TestDamage:
    def job(self) -> Job:
        job = Job(1)
        job.part(0, [1, 2], "part")
        return job

    def test_a_missing_file_is_named(self) -> None:
        job = self.job()
        job.store.delete("part.arrow")
        with pytest.raises(
            CheckpointError, match=r"'keyed' of operator 'count', subtask 0, in part\.arrow"
        ):
            job.restored(0, 1, StateKind.KEYED)

    def test_a_changed_file_is_named(self) -> None:
        job = self.job()
        job.store.put("part.arrow", b"rubbish")
        with pytest.raises(CheckpointError, match=r"in part\.arrow is damaged"):
            job.restored(0, 1, StateKind.KEYED)

    @pytest.mark.parametrize("decoder", [decode, state_format.decode])
    def test_a_file_that_cannot_be_decoded_is_named(self, decoder: Decode) -> None:
        job = self.job()
        job.store.put("part.arrow", b"rubbish")
        job.handles[0] = msgspec.structs.replace(
            job.handles[0], checksum=zlib.crc32(b"rubbish"), size_bytes=7
        )
        with pytest.raises(CheckpointError, match=r"in part\.arrow could not be read"):
            job.restored(0, 1, StateKind.KEYED, decoder)


class TestFit:
    def test_the_same_program_fits(self) -> None:
        check_fits(completed(1), SHAPE)

    def test_a_new_operator_begins_empty(self) -> None:
        more = {**SHAPE.operators, OperatorId("new"): "new"}
        check_fits(completed(1), JobShape(more, 4, 8))

    def test_a_removed_operator_is_named(self) -> None:
        with pytest.raises(CheckpointError, match=r"'count per user' \(count\), 'files' \(sink\)"):
            check_fits(completed(1), JobShape({}, 2, 8))

    def test_a_stateless_operator_may_be_removed(self) -> None:
        entry = completed(1)
        entry.operators[OperatorId("map")] = "stateless"
        check_fits(entry, SHAPE)

    def test_key_groups_cannot_change_under_keyed_state(self) -> None:
        with pytest.raises(CheckpointError, match="was taken with max_parallelism 8, but the"):
            check_fits(completed(1), JobShape(SHAPE.operators, 2, 16))
        unkeyed = msgspec.structs.replace(completed(1), handles=[])
        check_fits(unkeyed, JobShape(SHAPE.operators, 2, 16))


def test_written_state_is_restored_at_another_parallelism() -> None:
    """Check this with the format of the state, through a store, from two subtasks to three."""
    store, io = MemoryStore(), SimIo(lambda: 0, lambda: 0)
    handles: list[StateHandle] = []
    for subtask in (0, 1):
        owned = group_range(subtask, 2, 8)
        writer = SnapshotWriter(JobId("job"), Attempt(1), subtask, store, io, state_format.encode)
        keys = pa.table(
            {
                "key_group": pa.array([group for group in owned for _ in range(2000)], pa.uint16()),
                "key": pa.array(range(2000 * len(owned)), pa.int64()),
            }
        )
        splits = pa.table({"split": pa.array([f"{subtask}/{i}" for i in range(2 - subtask)])})
        parts = [
            SnapshotPart("counts", StateKind.KEYED, lambda table=keys: table),
            SnapshotPart("splits", StateKind.LIST, lambda table=splits: table),
        ]
        pending = writer.begin(CheckpointId(1), [(OperatorId("count"), Snapshot(parts))])
        io.run_due()
        assert pending.failures() == []
        handles += pending.handles()
    assert len(store.files) == 2
    entry = msgspec.structs.replace(completed(1), handles=handles)

    groups, splits = [], []
    for subtask in range(3):
        state = restored_state(entry, subtask, 3, store, state_format.decode)[OperatorId("count")]
        groups.append({group for table in state["counts"] for group in table["key_group"].to_pylist()})
        splits.append([split for table in state["splits"] for split in table["split"].to_pylist()])
    assert groups == [set(group_range(subtask, 3, 8)) for subtask in range(3)]
    assert splits == [["0/0"], ["0/1"], ["1/0"]]

    # Of ten subtasks the last owns none of the eight groups.
    state = restored_state(entry, 9, 10, store, state_format.decode)[OperatorId("count")]
    assert [table.num_rows for tables in state.values() for table in tables] == [0, 0]
    assert next(iter(state["counts"])).schema.names == ["key_group", "key"]


class TestFiles:
    """State that two subtasks kept as files, of eight key groups."""

    def sets(self, subtask: int, parallelism: int) -> list[tuple[range, bool, dict[str, bytes]]]:
        job = Job(parallelism=2)
        for old in (0, 1):
            for name in ("a", "b"):
                job.part(old, [0], f"{old}{name}", mode=PartMode.FILE)
        job.handles = [
            msgspec.structs.replace(handle, file=handle.path.partition(".")[0])
            for handle in job.handles
        ]
        state = restored_state(job.entry(), subtask, parallelism, job.store, decode)
        restored = state[OperatorId("count")]["keyed"]
        with pytest.raises(CheckpointError, match="was stored by another state backend"):
            list(restored)
        return [
            (files.groups, files.whole, {name: read() for name, read in files.files.items()})
            for files in restored.files
        ]

    def test_each_subtask_receives_its_own_files(self) -> None:
        own = {name: encoded([0], name) for name in ("1a", "1b")}
        assert self.sets(1, 2) == [(range(4, 8), True, own)]

    def test_scaling_in_reads_a_set_of_each_old_subtask(self) -> None:
        assert [(groups, whole, sorted(files)) for groups, whole, files in self.sets(0, 1)] == [
            (range(0, 4), True, ["0a", "0b"]),
            (range(4, 8), True, ["1a", "1b"]),
        ]

    def test_scaling_out_limits_the_groups_to_read(self) -> None:
        assert [(groups, whole) for groups, whole, _ in self.sets(1, 3)] == [
            (range(3, 4), False),
            (range(4, 6), False),
        ]

    def test_a_subtask_without_groups_has_no_files(self) -> None:
        assert self.sets(1, 16) == []
