from __future__ import annotations

import errno
import gzip
import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from rheos.connectors import files
from rheos.connectors.files.committer import _decoder
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import STAGING
from rheos.connectors.files.sink import FileSink
from rheos.core.connectors.contract import SinkWriter
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    ProgramError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from tests.connectors.ports import batch_of, read_all, sink_context

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])
C1, C2 = CheckpointId(1), CheckpointId(2)


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n}", "n": n} for n in numbers))


def writer(sink: FileSink, **place: Any) -> SinkWriter:
    return sink.open(sink_context(SCHEMA, **place))


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def staged(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / STAGING).rglob("*") if path.is_file())


def read_back(folder: Path) -> list[int]:
    return sorted(row["n"] for row in read_all(files.source(folder, schema=SCHEMA)))


@pytest.mark.parametrize(
    ("format", "compression", "end"),
    [
        ("parquet", None, "parquet"),
        ("parquet", "zstd", "parquet"),
        ("jsonl", None, "jsonl"),
        ("jsonl", "gzip", "jsonl.gz"),
    ],
)
def test_rows_are_visible_once_committed(
    tmp_path: Path, format: Any, compression: str | None, end: str
) -> None:
    sink = files.sink(tmp_path / "out", format=format, compression=compression)
    out = writer(sink)
    out.write(rows(1, 2))
    out.write(rows(3))
    committables = out.prepare(C1)
    assert visible(tmp_path / "out") == []
    sink.committer().commit(committables)
    [name] = visible(tmp_path / "out")
    assert name.endswith(f"-1-0-00000.{end}")
    assert read_back(tmp_path / "out") == [1, 2, 3]
    out.close()
    assert not (tmp_path / "out" / STAGING).exists()


def test_committing_twice_changes_nothing(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    out = writer(sink)
    out.write(rows(1))
    first = out.prepare(C1)
    out.write(rows(2))
    both = first + out.prepare(C2)
    sink.committer().commit(first)
    sink.committer().commit(both)
    sink.committer().commit(both)
    assert read_back(tmp_path) == [1, 2]
    assert len(visible(tmp_path)) == 2


def test_an_interrupted_commit_is_completed_by_the_next(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    committables = []
    for subtask in range(3):
        out = writer(sink, subtask=subtask)
        out.write(rows(subtask))
        committables += out.prepare(C1)
    file = _decoder.decode(committables[1])
    os.rename(tmp_path / file.staged, tmp_path / file.target)
    sink.committer().commit(committables)
    assert read_back(tmp_path) == [0, 1, 2]


def test_recovery_commits_prepared_epochs_and_aborts_the_rest(
    tmp_path: Path,
) -> None:
    sink = files.sink(tmp_path)
    lost = writer(sink, attempt=1)
    lost.write(rows(1))
    logged = lost.prepare(C1)
    lost.write(rows(2))
    lost.prepare(C2)  # Never made it into the log.
    lost.write(rows(3))  # Nor was this prepared.
    other = writer(sink, attempt=1, job="another job")
    other.write(rows(100))
    kept = other.prepare(C1)

    sink.committer().commit(logged)
    sink.committer().abort_stale(JobId("job"), Attempt(2), logged)
    assert read_back(tmp_path) == [1]
    assert [_decoder.decode(one).staged for one in kept] == [
        str(p.relative_to(tmp_path)) for p in staged(tmp_path)
    ]

    again = writer(sink, attempt=2)
    again.write(rows(2, 3))
    sink.committer().commit(again.prepare(C2))
    sink.committer().commit(kept)
    assert read_back(tmp_path) == [1, 2, 3, 100]
    assert not (tmp_path / STAGING).exists()


def test_aborting_spares_kept_files_and_later_attempts(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    committables = {}
    for attempt in (1, 2, 10):
        out = writer(sink, attempt=attempt)
        out.write(rows(attempt))
        committables[attempt] = out.prepare(C1)
    sink.committer().abort_stale(JobId("job"), Attempt(10), committables[1])
    assert {path.parent.name for path in staged(tmp_path)} == {"1", "10"}
    sink.committer().abort_stale(JobId("no such job"), Attempt(10), [])


def test_an_epoch_without_rows_makes_no_file(tmp_path: Path) -> None:
    out = writer(files.sink(tmp_path))
    assert out.prepare(C1) == []
    out.write(rows())
    assert out.prepare(C2) == []
    assert staged(tmp_path) == []


def test_closing_drops_unprepared_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FileSink.open.__globals__, "_BUFFER_ROWS", 1)
    for format, compression in (("parquet", None), ("jsonl", None), ("jsonl", "gzip")):
        out = writer(files.sink(tmp_path, format=format, compression=compression))  # type: ignore[arg-type]
        out.write(rows(1, 2))
        assert len(staged(tmp_path)) == 1
        out.close()
        assert list(tmp_path.iterdir()) == []


def test_files_roll_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FileSink.open.__globals__, "_BUFFER_ROWS", 2)
    sink = files.sink(tmp_path, roll_bytes=1)
    out = writer(sink)
    for n in range(5):
        out.write(rows(n))
    committables = out.prepare(C1)
    assert [_decoder.decode(one).rows for one in committables] == [2, 2, 1]
    assert all(_decoder.decode(one).size_bytes > 0 for one in committables)
    sink.committer().commit(committables)
    assert [name[-13:] for name in visible(tmp_path)] == [f"0000{n}.parquet" for n in range(3)]
    assert read_back(tmp_path) == [0, 1, 2, 3, 4]


def test_staged_files_are_invisible_to_readers(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    out = writer(sink)
    out.write(rows(1))
    sink.committer().commit(out.prepare(C1))
    out.write(rows(2))
    out.prepare(C2)
    assert read_back(tmp_path) == [1]
    assert pl.read_parquet(f"{tmp_path}/*.parquet")["n"].to_list() == [1]


def test_a_lost_or_foreign_file_is_an_error(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    out = writer(sink)
    out.write(rows(1))
    committables = out.prepare(C1)
    file: FileCommittable = _decoder.decode(committables[0])
    (tmp_path / file.target).write_text("somebody else's")
    with pytest.raises(CheckpointError, match="exists already"):
        sink.committer().commit(committables)
    assert (tmp_path / file.target).read_text() == "somebody else's"
    (tmp_path / file.target).unlink()
    (tmp_path / file.staged).unlink()
    with pytest.raises(UnrestorableError, match=r"\(1 rows\) is lost"):
        sink.committer().commit(committables)


def test_two_sinks_of_a_job_share_a_folder(tmp_path: Path) -> None:
    sink = files.sink(tmp_path)
    committables = []
    for name in ("sink a", "sink b"):
        ctx = sink_context(SCHEMA)
        ctx.operator = name
        out = sink.open(ctx)
        out.write(rows(1))
        committables += out.prepare(C1)
    sink.committer().commit(committables)
    assert read_back(tmp_path) == [1, 1]


def test_a_full_disk_is_an_error_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = writer(files.sink(tmp_path))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    out.write(rows(1))
    with pytest.raises(UnavailableError, match=f"below {tmp_path}: .*No space left") as caught:
        out.prepare(C1)
    assert caught.value.hint is not None
    out.close()
    assert list(tmp_path.iterdir()) == []


def test_unwritable_columns_are_refused_when_the_program_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        files.sink(tmp_path / "file" / "out").validate(SCHEMA)
    with pytest.raises(ConfigurationError, match="published exactly once on ftp"):
        files.sink("ftp://host/out").validate(SCHEMA)
    with pytest.raises(SchemaError, match="cannot be written as JSON"):
        files.sink(tmp_path, format="jsonl").validate(pa.schema([("b", pa.binary())]))
    with pytest.raises(SchemaError, match="at least one column"):
        files.sink(tmp_path).validate(pa.schema([]))
    files.sink(tmp_path / "new" / "out").validate(SCHEMA)
    assert not (tmp_path / "new").exists()
    for wrong in ({"format": "xml"}, {"compression": "rar"}, {"roll_bytes": 0}):
        with pytest.raises(ProgramError):
            files.sink(tmp_path, **wrong)  # type: ignore[arg-type]


def test_json_lines_show_times_in_utc(tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    record = pa.struct([("at", pa.timestamp("us", "UTC")), ("x", pa.int64())])
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "Europe/Berlin")),
            ("naive", pa.timestamp("ms")),
            ("d", pa.date32()),
            ("list", pa.list_(pa.timestamp("ms", "UTC"))),
            ("r", record),
            ("x", pa.float64()),
        ]
    )
    row = {
        "at": at,
        "naive": at.replace(tzinfo=None),
        "d": date(2026, 1, 2),
        "list": [at, None],
        "r": {"at": at, "x": 1},
        "x": float("nan"),
    }
    empty = dict.fromkeys(row)
    sink = files.sink(tmp_path, format="jsonl", compression="gzip")
    sink.validate(schema)
    out = sink.open(sink_context(schema))
    out.write(batch_of(schema, row, empty))
    sink.committer().commit(out.prepare(C1))
    [path] = tmp_path.glob("*.jsonl.gz")
    first, second = (json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines())
    assert first == {
        "at": "2026-01-02T03:04:05.678000Z",
        "naive": "2026-01-02T03:04:05.678Z",
        "d": "2026-01-02",
        "list": ["2026-01-02T03:04:05.678Z", None],
        "r": {"at": "2026-01-02T03:04:05.678000Z", "x": 1},
        "x": None,
    }
    assert second == empty
    assert read_all(files.source(tmp_path, schema=schema)) == [{**row, "x": None}, empty]


def test_a_file_system_with_rename_is_written_by_its_url() -> None:
    sink = files.sink("memory://sink-test/out")
    sink.validate(SCHEMA)
    out = writer(sink)
    out.write(rows(1, 2))
    committables = out.prepare(C1)
    sink.committer().commit(committables)
    sink.committer().commit(committables)
    out.close()
    found = read_all(files.source("memory://sink-test/out", schema=SCHEMA))
    assert [row["n"] for row in found] == [1, 2]


class RememberingFileSystem(MemoryFileSystem):
    """File system that caches listings and trusts them, as those of object stores do."""

    cachable = False

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.dircache[path] = super().ls(path, detail=True)
        listed = self.dircache[path]
        return listed if detail else [entry["name"] for entry in listed]

    def exists(self, path: str, **kwargs: Any) -> bool:
        path = self._strip_protocol(path)
        listed = self.dircache.get(self._parent(path))
        return super().exists(path) if listed is None else path in {entry["name"] for entry in listed}

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


def test_files_staged_by_others_are_found_despite_cached_listings() -> None:
    there = SinkFolder("memory://seen")
    there.system = RememberingFileSystem()
    there.create("staged/first").close()
    assert there.names("staged") == ["first"]
    there.remove_if_empty("staged")
    SinkFolder("memory://seen").create("staged/second").close()
    assert there.exists("staged/second")
    assert there.names("staged") == ["first", "second"]


def test_a_folder_that_vanishes_while_it_is_created_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, make, found = SinkFolder(str(tmp_path)), os.mkdir, []

    def vanishing(path: Any, *args: Any, **kwargs: Any) -> None:
        """Behave as if the folder were there, and gone when that is checked."""
        if Path(path).name == "staged" and len(found) < 3:
            found.append(path)
            raise FileExistsError(path)
        make(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", vanishing)
    folder.create("staged/rows").close()
    assert folder.names("staged") == ["rows"]
    assert len(found) == 3
    with pytest.raises(FileExistsError):
        folder.create("staged/rows/more")


def test_a_folder_whose_parent_vanishes_while_it_is_created_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, make, tries = SinkFolder(str(tmp_path)), os.mkdir, []

    def make_or_fail(path: Any, *args: Any, **kwargs: Any) -> None:
        """Behave three times as if another subtask had just removed the parent."""
        if Path(path).name == "1" and len(tries) < 3:
            tries.append(path)
            raise FileNotFoundError(path)
        make(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", make_or_fail)
    folder.create("staged/1/rows").close()
    assert folder.names("staged/1") == ["rows"]


def run_of(folder: Path, job: str = "shop", sink: str = "sink-1", **settings: Any) -> FileSink:
    """Return the sink of a run of the job."""
    return files.sink(folder, **settings).prepared(SCHEMA, (job, sink))


def run_once(sink: FileSink, *numbers: int, run: str) -> None:
    """Run without a checkpoint, and write rows."""
    committer = sink.committer()
    committer.check()
    committer.begin()
    out = writer(sink, job=run)
    out.write(rows(*numbers))
    committer.commit(out.prepare(C1))
    out.close()


def test_a_run_without_checkpoint_does_not_duplicate_rows(tmp_path: Path) -> None:
    run_once(run_of(tmp_path), 1, 2, run="shop-1")
    with pytest.raises(ConfigurationError, match="\\), but this job starts from scratch") as refused:
        run_of(tmp_path).committer().check()
    assert 'mode="overwrite"' in str(refused.value.hint)
    with pytest.raises(ConfigurationError, match="\\), but this job starts from scratch"):
        files.sink(tmp_path).committer().check()  # Before it is prepared, too.
    assert read_back(tmp_path) == [1, 2]


def test_a_run_may_append_or_replace_its_own_files(tmp_path: Path) -> None:
    run_once(run_of(tmp_path), 1, 2, run="shop-1")
    run_once(run_of(tmp_path, mode="append"), 3, run="shop-2")
    assert read_back(tmp_path) == [1, 2, 3]
    run_once(run_of(tmp_path, mode="overwrite"), 4, run="shop-3")
    assert read_back(tmp_path) == [4]


def test_overwriting_spares_other_sinks_and_refuses_foreign_files(
    tmp_path: Path,
) -> None:
    run_once(run_of(tmp_path, sink="sink-2"), 10, run="shop-1")
    run_once(run_of(tmp_path, mode="append"), 1, run="shop-1")
    (tmp_path / "_SUCCESS").touch()
    run_once(run_of(tmp_path, mode="overwrite"), 2, run="shop-2")
    assert read_back(tmp_path) == [2, 10]
    for name in ("notes.txt", "part-0123456789ab-1-0-00000.parquet"):
        (tmp_path / name).touch()
        with pytest.raises(ConfigurationError, match=f"files of another origin \\({name}\\)"):
            run_of(tmp_path, mode="overwrite").committer().check()
        (tmp_path / name).unlink()
    with pytest.raises(ConfigurationError, match='\\), which mode="overwrite" does not delete'):
        run_of(tmp_path, job="another", mode="overwrite").committer().check()


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_sink_without_rows_leaves_a_readable_folder(
    tmp_path: Path, format: Any, compression: str | None
) -> None:
    sink = run_of(tmp_path / "out", format=format, compression=compression)
    for _ in range(2):  # An attempt that fails before its first checkpoint is followed by another.
        sink.committer().check()
        sink.committer().begin()
    assert len(visible(tmp_path / "out")) == 1
    assert read_back(tmp_path / "out") == []
    if format == "parquet":
        assert pl.read_parquet(tmp_path / "out").schema == {"k": pl.String, "n": pl.Int64}


def test_a_run_may_begin_in_a_folder_without_rows(tmp_path: Path) -> None:
    run_of(tmp_path).committer().begin()
    run_of(tmp_path, job="another").committer().check()


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="mode='replace' is not known"):
        files.sink(tmp_path, mode="replace")  # type: ignore[arg-type]
