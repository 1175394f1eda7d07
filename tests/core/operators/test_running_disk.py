"""Running aggregates on disk equal those in memory, however few keys memory may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.core import aggregates as agg
from rheos.core.errors import CheckpointError, ConfigurationError, UnrestorableError
from rheos.core.operators import running_disk
from rheos.core.operators.running import STATE, RunningOperator, RunningSpec
from rheos.core.operators.running_disk import DiskRunningState
from rheos.core.protocol.elements import TS
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import PartMode, RestoredFiles, RestoredState
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.state.rocksdb.files import FILES
from tests.core.operators.test_running import (
    AGGREGATES,
    ROWS,
    by_content,
    cut,
    expected,
    opened,
    operator,
    run,
    split,
)

ROW = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}
Files = dict[str, bytes]


def on_disk(
    folder: str | Path, *, state_bytes: int = 1 << 20, attempt: int = 1, **more: Any
) -> RunningOperator:
    op = operator(**more)
    op.ctx.state = StateConfig(Backend.ROCKSDB)
    op.ctx.attempt = Attempt(attempt)
    op.ctx.scratch = f"{folder}/{attempt}-{op.ctx.subtask}"
    op.ctx.state_bytes = state_bytes
    return RunningOperator(op.ctx, RunningSpec(more.get("aggregates") or AGGREGATES))


class Restored(RestoredState):
    """Files of earlier subtasks, for a new one."""

    def __init__(self, sets: Sequence[Files], op: RunningOperator) -> None:
        own = op.ctx.key_groups
        self.files = []
        for subtask, files in enumerate(sets):
            groups = group_range(subtask, len(sets), 128)
            taken = range(max(own.start, groups.start), min(own.stop, groups.stop))
            if taken:
                reads = {name: self._reader(data) for name, data in files.items()}
                self.files.append(RestoredFiles(taken, taken == groups, reads))

    @staticmethod
    def _reader(data: bytes) -> Callable[[], bytes]:
        return lambda: data

    def __iter__(self) -> Iterator[pa.Table]:
        raise CheckpointError("files")


def files_of(op: RunningOperator) -> Files:
    snapshot = op.snapshot(CheckpointId(1))
    assert not snapshot.parts
    assert snapshot.files is not None
    files = {file.name: file.read() for file in snapshot.files.complete()}
    assert snapshot.release is not None
    snapshot.release()
    return files


@settings(max_examples=30)
@given(ROWS, st.lists(st.integers(0, 12), max_size=5))
def test_every_row_leaves_with_the_values_of_a_loop(
    rows: list[dict[str, Any]], sizes: list[int]
) -> None:
    with TemporaryDirectory() as folder, patch.object(running_disk, "_FEWEST_KEYS", 1):
        op = on_disk(folder, state_bytes=0)
        op.open({})
        assert run(op, cut(rows, sizes)) == expected(rows)
        assert len(op.state) <= 14
        op.close()


@settings(max_examples=20)
@given(ROWS, ROWS, ROWS, st.integers(1, 3), st.integers(1, 3))
def test_state_is_restored_from_files_at_another_parallelism(
    first: list[dict[str, Any]],
    second: list[dict[str, Any]],
    after: list[dict[str, Any]],
    p: int,
    q: int,
) -> None:
    with TemporaryDirectory() as folder, patch.object(running_disk, "_FEWEST_KEYS", 2):
        ops = [on_disk(folder, state_bytes=0, subtask=i, parallelism=p) for i in range(p)]
        for op, a, b in zip(ops, split(first, p), split(second, p), strict=True):
            op.open({})
            run(op, a)
            files_of(op)
            run(op, b)
        sets = [files_of(op) for op in ops]
        for op in ops:
            op.close()
        ops = [on_disk(folder, attempt=2, subtask=i, parallelism=q) for i in range(q)]
        came = []
        for op, batches in zip(ops, split(after, q), strict=True):
            op.open({FILES: Restored(sets, op)})
            came += run(op, batches)
            op.close()
        past = first + second
        assert by_content(came) == by_content(expected(past + after)[len(past) :])


def test_a_savepoint_is_restored_in_memory_and_back_on_disk(tmp_path: Path) -> None:
    rows = [ROW | {"k": k % 300, "s": f"{k}", "n": None if k % 7 == 0 else k} for k in range(1000)]
    disk = on_disk(tmp_path)
    disk.open({})
    run(disk, cut(rows, [100] * 9))
    (part,) = disk.savepoint(disk.snapshot(CheckpointId(1)))
    run(disk, cut(rows, []))
    assert part.mode is PartMode.FULL
    tables = list(part.write())
    assert sum(table.num_rows for table in tables) == 300
    wanted = expected(rows + rows[:400])[1000:]

    memory = opened(operator(), tables)
    assert run(memory, cut(rows[:400], [])) == wanted
    again = opened(on_disk(tmp_path, attempt=2), tables)
    assert run(again, cut(rows[:400], [])) == wanted
    # The state of the memory backend is the same table.
    (whole,) = opened(operator(), tables).snapshot(CheckpointId(1)).parts
    table = whole.write()
    assert table.equals(
        pa.concat_tables(tables)
        .sort_by([("key_group", "ascending"), ("key.k", "ascending")])
        .select(table.column_names)
    )
    for op in (disk, again):
        op.close()


def test_a_snapshot_writes_only_changes(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    aggregates = {"rows": agg.count(), "total": agg.sum("v"), "mean": agg.mean("v")}
    op = on_disk(tmp_path, schema=schema, aggregates=aggregates, state_bytes=1 << 24)
    op.open({})
    rng = np.random.default_rng(1)

    def batch(keys: Any) -> pa.RecordBatch:
        columns = [pa.array(keys, pa.int64()), pa.array(rng.random(len(keys)))]
        return pa.record_batch(columns, schema=schema)

    run(op, [batch(np.arange(20_000))])
    before = files_of(op)
    run(op, [batch(np.arange(0, 20_000, 100))])
    after = files_of(op)
    written = sum(len(data) for name, data in after.items() if name not in before)
    assert 20 * written < sum(map(len, before.values()))
    op.close()


def test_keys_beyond_memory_are_read_from_disk(tmp_path: Path) -> None:
    op = on_disk(tmp_path, state_bytes=1 << 16)
    op.open({})
    rows = [ROW | {"k": k, "v": float(k)} for k in range(5000)]
    run(op, cut(rows, [500] * 9))
    assert len(op.state) < 1500
    made = run(op, cut(rows[::-1], [500] * 9))
    assert all(row["rows"] == 2 and row["total"] == 2.0 * row["k"] for row in made)
    op.close()


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.float64(), pa.decimal128(9, 2), pa.date32(), pa.bool_()]
)
def test_keys_and_extremes_may_have_other_types(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("k", kind), ("j", pa.int16()), ("v", kind)])
    aggregates = {"least": agg.min("v"), "most": agg.max("v"), "rows": agg.count()}
    numbers = [0, 1, 1, 0] if pa.types.is_boolean(kind) else [7, 0, 3, 7]
    values = pa.array(numbers, pa.int32() if pa.types.is_date(kind) else pa.int8()).cast(kind)
    batch = pa.record_batch([values, pa.array([1, 1, 2, 1], pa.int16()), values], schema=schema)
    with patch.object(running_disk, "_FEWEST_KEYS", 1):
        op = on_disk(tmp_path, schema=schema, aggregates=aggregates, keys=("k", "j"), state_bytes=0)
        op.open({})
        plain = operator(schema, aggregates, ("k", "j"))
        for rows in (batch.slice(0, 2), batch.slice(2), batch):
            assert run(op, [rows]) == run(plain, [rows])
        op.close()


def test_changed_programs_resume_from_old_state(tmp_path: Path) -> None:
    old = on_disk(tmp_path, aggregates={"rows": agg.count(), "a": agg.sum("v")})
    old.open({})
    run(old, cut([ROW], []))
    files = files_of(old)
    old.close()

    more = on_disk(tmp_path, attempt=2, aggregates={"a": agg.sum("v"), "b": agg.count()})
    more.open({FILES: Restored([files], more)})
    (made,) = run(more, cut([ROW], []))
    assert (made["a"], made["b"]) == (2.0, 1)
    later = files_of(more)
    more.close()
    again = on_disk(tmp_path, attempt=3, aggregates={"a": agg.sum("v"), "b": agg.count()})
    again.open({FILES: Restored([later], again)})
    (made,) = run(again, cut([ROW], []))
    assert (made["a"], made["b"]) == (3.0, 2)
    again.close()

    other = on_disk(tmp_path, attempt=4, aggregates={"a": agg.mean("v")})
    with pytest.raises(UnrestorableError, match="'a' was another aggregate"):
        other.open({FILES: Restored([files], other)})
    other.close()


def test_state_files_are_restored_in_memory(tmp_path: Path) -> None:
    disk = on_disk(tmp_path)
    disk.open({})
    run(disk, cut([ROW], []))
    files = files_of(disk)
    disk.close()
    memory = operator()
    with pytest.raises(UnrestorableError, match="the state was stored by the backend rocksdb, and"):
        memory.open({FILES: Restored([files], memory)})
    memory.ctx.scratch = str(tmp_path / "memory")
    memory.open({FILES: Restored([files], memory)})
    assert run(memory, cut([ROW], []))[0]["rows"] == 2
    assert memory.snapshot(CheckpointId(1)).parts[0].state == STATE


def test_state_on_disk_requires_a_disk() -> None:
    ctx = operator().ctx
    ctx.state = StateConfig(Backend.ROCKSDB)
    with pytest.raises(ConfigurationError, match="needs a local disk"):
        RunningOperator(ctx, RunningSpec(AGGREGATES))


def test_no_files_are_left(tmp_path: Path) -> None:
    op = on_disk(tmp_path)
    op.open({})
    run(op, cut([ROW], []))
    (part,) = op.savepoint(op.snapshot(CheckpointId(1)))
    list(part.write())
    del part
    files_of(op)
    assert isinstance(op.state, DiskRunningState)
    folder = Path(str(op.ctx.scratch))
    # The snapshot that nobody released is there still.
    assert sorted(path.name for path in folder.iterdir()) == ["db", "snapshot-1"]
    op.close()
