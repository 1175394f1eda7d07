"""Reading the logs of a Structured Streaming checkpoint: complete, damaged, and of other versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.ops.migration import spark_checkpoint
from rheos.ops.migration.positions import KafkaOffsets, ReadFiles
from rheos.ops.migration.spark_checkpoint import read_checkpoint
from rheos.runtimes.host.stores import LocalStore


def write(folder: Path, path: str, *lines: Any, version: str = "v1") -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    of = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    file.write_text("\n".join([version, *of]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with two committed batches, and a third that was planned."""
    for batch in range(3):
        plan = {"batchWatermarkMs": batch * 1000, "conf": {}}
        write(
            tmp_path, f"offsets/{batch}", plan, {"t": {"0": batch, "1": 7}}, {"logOffset": batch}, "-"
        )
    for batch in range(2):
        write(tmp_path, f"commits/{batch}", {"nextBatchWatermarkMs": batch * 1000 + 1000})
        write(tmp_path, f"sources/1/{batch}", {"path": f"file:///in/{batch}", "batchId": batch})
    write(tmp_path, "offsets/.1.crc", "binary")
    return tmp_path


def test_the_last_committed_batch_counts(folder: Path) -> None:
    found = read_checkpoint(str(folder))
    assert (found.batch, found.fired_ms, found.watermark_ms) == (1, 1000, 2000)
    assert found.positions == [
        KafkaOffsets({("t", 0): 1, ("t", 1): 7}),
        ReadFiles(frozenset({"file:///in/0", "file:///in/1"})),
        "-",
    ]
    assert not found.has_state


def test_compacted_lists_of_files_are_read(folder: Path) -> None:
    both = [{"path": f"file:///in/{batch}"} for batch in ("a", "b")]
    write(folder, "sources/1/0.compact", *both)
    (found,) = [p for p in read_checkpoint(str(folder)).positions if isinstance(p, ReadFiles)]
    assert found.paths == {"file:///in/a", "file:///in/b", "file:///in/1"}


def test_wrong_folders_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        read_checkpoint(str(tmp_path / "none"))
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(CheckpointError, match=r"it has no folder offsets/"):
        read_checkpoint(str(other))
    for batch in range(2):
        (folder / f"commits/{batch}").unlink()
    with pytest.raises(CheckpointError, match="has not completed a batch"):
        read_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("v2\n{}", "has the version 'v2', but only 'v1' is known"),
        ("v1", "it has only one line"),
        ("", "it has no text"),
        ("v1\n[1]", "is damaged: Expected `object`"),
        ("v1\n{", "is damaged"),
    ],
)
def test_damaged_logs_are_named(folder: Path, text: str, problem: str) -> None:
    (folder / "commits/1").write_text(text)
    with pytest.raises(CheckpointError, match=problem) as caught:
        read_checkpoint(str(folder))
    assert "commits/1" in str(caught.value)


def test_a_large_log_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "offsets/1").write_text("v1\n" + " " * 100)
    monkeypatch.setattr(spark_checkpoint, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(LocalStore, "get", lambda store, path: pytest.fail(f"{path} is read"))
    with pytest.raises(CheckpointError, match="it has 103 bytes, more than 100"):
        read_checkpoint(str(folder))


def test_a_large_log_is_refused_if_the_storage_reports_no_size(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "offsets/1").write_text("v1\n" + " " * 100)
    monkeypatch.setattr(spark_checkpoint, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(spark_checkpoint, "size_of", lambda path: None)
    with pytest.raises(CheckpointError, match="it has 103 bytes, more than 100"):
        read_checkpoint(str(folder))
