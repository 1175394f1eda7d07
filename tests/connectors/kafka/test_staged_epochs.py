"""Epochs in files: only records that were written are read back, and no needed file is removed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from rheos.connectors.kafka.staged_epochs import EpochStaging, StagedEpoch, StagedEpochs, decode_epoch
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt

RECORDS = pa.RecordBatch.from_pydict({"value": [b"a", b"b", None]})


def stage(folder: Path, writer: str = "w", attempt: int = 1, checkpoint: int = 7) -> StagedEpoch:
    staging = EpochStaging(str(folder), writer, "visits", Attempt(attempt))
    staging.write(RECORDS)
    staging.write(RECORDS)
    return staging.finish(checkpoint)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_staged_records_are_read_back(tmp_path: Path) -> None:
    epoch = decode_epoch(stage(tmp_path).encoded())
    assert (epoch.records, epoch.checkpoint, epoch.path) == (6, 7, "1/w-0.arrow")
    assert [batch.num_rows for batch in StagedEpochs(str(tmp_path)).batches(epoch)] == [3, 3]


def test_an_epoch_without_records_has_no_file(tmp_path: Path) -> None:
    epoch = EpochStaging(str(tmp_path), "w", "visits", Attempt(1)).finish(7)
    assert list(StagedEpochs(str(tmp_path)).batches(epoch)) == []
    assert names(tmp_path) == []


def test_each_epoch_has_a_file_and_unfinished_ones_are_removed(tmp_path: Path) -> None:
    staging = EpochStaging(str(tmp_path), "w", "visits", Attempt(1))
    for checkpoint in (7, 8):
        staging.write(RECORDS)
        staging.finish(checkpoint)
    staging.write(RECORDS)
    assert names(tmp_path) == ["1/w-0.arrow", "1/w-1.arrow", "1/w-2.arrow"]
    staging.abandon()
    assert names(tmp_path) == ["1/w-0.arrow", "1/w-1.arrow"]


@pytest.mark.parametrize("damage", ["a byte", "cut", "longer", "gone", "other records"])
def test_a_file_that_was_changed_is_not_read(tmp_path: Path, damage: str) -> None:
    epoch = stage(tmp_path)
    path = tmp_path / epoch.path
    data = bytearray(path.read_bytes())
    match damage:
        case "a byte":
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:-8])
        case "longer":
            path.write_bytes(bytes(data) + bytes(8))
        case "gone":
            path.unlink()
        case "other records":
            epoch = msgspec.structs.replace(epoch, records=5)
    with pytest.raises(UnrestorableError, match="staged for checkpoint 7 cannot be read") as lost:
        list(StagedEpochs(str(tmp_path)).batches(epoch))
    assert lost.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"writer": "../../etc/passwd"},
        {"writer": "a/b"},
        {"writer": ".hidden"},
        {"writer": ""},
        {"topic": "a b"},
        {"attempt": -1},
        {"number": -1},
        {"checkpoint": 0},
        {"records": -1},
    ],
)
def test_a_committable_with_a_foreign_path_or_topic_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with pytest.raises(UnrestorableError, match="the checkpoint's list of staged rows is damaged"):
        decode_epoch(msgspec.structs.replace(stage(tmp_path), **change).encoded())
    with pytest.raises(UnrestorableError, match="the checkpoint's list of staged rows is damaged"):
        decode_epoch(b"\xc1")


def test_the_note_rises_and_committed_files_are_removed(tmp_path: Path) -> None:
    staged = StagedEpochs(str(tmp_path))
    epoch = stage(tmp_path)
    assert staged.noted(epoch) == 0
    staged.settle(epoch, 0)
    assert names(tmp_path) == ["1/w-7.done"]
    staged.settle(msgspec.structs.replace(epoch, checkpoint=9, records=0), 7)
    assert names(tmp_path) == ["1/w-9.done"]
    assert staged.noted(epoch) == 9
    staged.settle(epoch, 9)  # Once more, from a list of before.
    assert names(tmp_path) == ["1/w-9.done"]
    assert staged.noted(msgspec.structs.replace(epoch, writer="w-1")) == 0


def test_only_unlisted_files_of_earlier_attempts_are_removed(tmp_path: Path) -> None:
    staged = StagedEpochs(str(tmp_path))
    stage(tmp_path, "lost", attempt=1)
    listed = stage(tmp_path, "listed", attempt=1)
    committed = stage(tmp_path, "committed", attempt=2)
    staged.settle(committed, 0)
    stage(tmp_path, "next", attempt=3)
    (tmp_path / "notes of a person").write_text("keep")
    staged.clear(Attempt(3), [listed, committed])
    assert names(tmp_path) == [
        "1/listed-0.arrow",
        "2/committed-7.done",
        "3/next-0.arrow",
        "notes of a person",
    ]
    staged.clear(Attempt(4), [])
    assert names(tmp_path) == ["notes of a person"]
