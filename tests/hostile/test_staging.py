"""A damaged or foreign staging of a DataFrame: it is read as it was written or refused, and nothing
is removed on doubt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pytest

from rheos.connectors.spark import staging_writer
from rheos.connectors.spark.staging import StagedSource, staged
from rheos.connectors.spark.staging_manifest import (
    MANIFEST,
    Manifest,
    StagedFile,
    identity,
    put_manifest,
)
from rheos.core.errors import InputError, RheosError, UnrestorableError
from tests.connectors.ports import Probe, read

SCHEMA = pa.schema({"user": pa.string(), "at": pa.int64()})
ID = "0123456789ab"
NAMES = ("00000-7.parquet", "00001-8.parquet")


def rows_of_file(number: int) -> list[dict[str, Any]]:
    return [{"user": f"u{i}", "at": 1000 * number + i} for i in range(40)]


ROWS = [row for number in range(len(NAMES)) for row in rows_of_file(number)]


def make(root: Path, id: str = ID) -> Manifest:
    """A staging of two files, as tasks of Spark write them, and what its manifest says."""
    task = staging_writer.WriteTask(str(root / id), SCHEMA, "at")
    files = []
    for number, name in enumerate(NAMES):
        writer = staging_writer.StagingWriter(task, name)
        writer.write(pa.RecordBatch.from_pylist(rows_of_file(number), SCHEMA))
        writer.finish()
        files.append(writer.finished())
    return Manifest(
        of=identity(str(root)),
        staging=id,
        schema=SCHEMA.serialize().to_pybytes(),
        event_time="at",
        files=files,
    )


def put(root: Path, manifest: Manifest) -> None:
    (root / MANIFEST).unlink(missing_ok=True)
    put_manifest(fsspec.filesystem("file"), str(root), manifest)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "job" / "staged" / "rows"
    put(folder, make(folder))
    return folder


def opened(root: Path) -> StagedSource:
    """As a job does that is started again: the DataFrame is not asked."""
    return staged(None, SCHEMA, "at", str(root))


def rows_of(source: StagedSource) -> list[dict[str, Any]]:
    return [
        row for split in source.splits() for row in read(source.open(split, None, Probe().context()))
    ]


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def flipped(data: bytes) -> Iterator[bytes]:
    """The data with a bit of each of its bytes flipped, one at a time."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def test_an_unmodified_staging_is_read(root: Path) -> None:
    assert rows_of(opened(root)) == ROWS


def test_a_flipped_bit_of_any_byte_of_a_manifest_is_refused_and_nothing_is_removed(root: Path) -> None:
    manifest = root / MANIFEST
    data = manifest.read_bytes()
    before = files_below(root / ID)
    for damaged in flipped(data):
        manifest.write_bytes(damaged)
        with pytest.raises(UnrestorableError, match=MANIFEST):
            opened(root)
    assert files_below(root / ID) == before
    manifest.write_bytes(data)
    assert rows_of(opened(root)) == ROWS


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_truncated_manifest_is_refused(root: Path, length: int) -> None:
    manifest = root / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:length])
    before = files_below(root)
    with pytest.raises(UnrestorableError, match="is damaged"):
        opened(root)
    assert files_below(root) == before


def test_a_dropped_entry_is_noticed(root: Path) -> None:
    manifest = root / MANIFEST
    envelope = msgspec.json.decode(manifest.read_bytes())
    del envelope["staging"]["files"][1]
    manifest.write_bytes(msgspec.json.encode(envelope))
    before = files_below(root)
    with pytest.raises(UnrestorableError, match="checksum does not match"):
        opened(root)
    assert files_below(root) == before


@pytest.mark.parametrize("name", ["../victim", "..", ".", "", "/", "0123456789AB", "0123456789ab/x"])
def test_a_staging_of_a_foreign_name_is_not_followed(root: Path, name: str) -> None:
    """With a checksum that matches: whoever writes the store can make one."""
    victim = root.parent / "victim"
    victim.mkdir()
    (victim / NAMES[0]).write_bytes(b"of somebody else")
    put(root, msgspec.structs.replace(make(root), staging=name))
    before = files_below(root.parent)
    with pytest.raises(UnrestorableError, match="is not a valid name of a staging"):
        opened(root)
    assert files_below(root.parent) == before


@pytest.mark.parametrize("name", ["../../victim", "/etc/passwd", "0.parquet", "00000-7.parquet/x", ""])
def test_a_file_of_a_foreign_name_is_not_followed(root: Path, name: str) -> None:
    good = make(root)
    bad = msgspec.structs.replace(good.files[0], name=name)
    put(root, msgspec.structs.replace(good, files=[bad, good.files[1]]))
    before = files_below(root.parent)
    with pytest.raises(UnrestorableError, match="is not a valid name of a staged file"):
        opened(root)
    assert files_below(root.parent) == before


def test_the_manifest_of_another_operator_is_refused(root: Path) -> None:
    other = root.parent / "others"
    put(other, make(other, "ba9876543210"))
    (root / MANIFEST).write_bytes((other / MANIFEST).read_bytes())
    before = files_below(root)
    with pytest.raises(UnrestorableError, match="it belongs in 'job/staged/others'"):
        opened(root)
    assert files_below(root) == before


def test_a_checkpoint_directory_may_be_moved(root: Path) -> None:
    elsewhere = root.parents[2] / "elsewhere"
    elsewhere.mkdir()
    root.parents[1].rename(elsewhere / "job")
    assert rows_of(opened(elsewhere / "job" / "staged" / "rows")) == ROWS


def test_a_manifest_with_missing_files_is_refused_and_nothing_is_removed(root: Path) -> None:
    put(root, msgspec.structs.replace(make(root), staging="ffffffffffff"))
    before = files_below(root)
    with pytest.raises(UnrestorableError, match="the staging ffffffffffff does not exist"):
        opened(root)
    assert files_below(root) == before


def test_leftovers_are_removed_and_foreign_files_kept(root: Path) -> None:
    make(root, "ffffffffffff")
    make(root, "eeeeeeeeeeee")
    foreign = ["notes.txt", "eeeeeeeeeeee/notes.txt", f"{ID}/mine.parquet", "backup/00000-7.parquet"]
    for name in foreign:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"of somebody else")
    (root / ID / "00000-9.parquet").write_bytes(b"of a task that Spark ran twice")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / NAMES[0]).write_bytes(b"behind a link")
    (root / "dddddddddddd").symlink_to(outside)
    assert rows_of(opened(root)) == ROWS
    ours = {MANIFEST, *(f"{ID}/{name}" for name in NAMES)}
    assert set(files_below(root)) == {*foreign, *ours}
    assert not (root / "ffffffffffff").exists()
    assert files_below(outside) == {NAMES[0]: b"behind a link"}


def test_a_flipped_bit_of_any_byte_of_a_staged_file_is_refused(root: Path) -> None:
    source = opened(root)
    [split, _] = source.splits()
    path = root / ID / NAMES[0]
    data = path.read_bytes()
    for damaged in flipped(data):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="checksum of its block 0 does not match"):
            read(source.open(split, None, Probe().context()))
    for length in (0, 8, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="were written"):
            read(source.open(split, None, Probe().context()))


def test_every_block_is_checked_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheos.connectors.files.checksummed_files.BLOCK_BYTES", 64)
    monkeypatch.setattr("rheos.connectors.spark.staging_manifest.BLOCK_BYTES", 64)
    put(tmp_path, make(tmp_path))
    source = opened(tmp_path)
    assert rows_of(source) == ROWS
    path = tmp_path / ID / NAMES[0]
    data = path.read_bytes()
    assert len(data) > 64 * 5
    for at in range(0, len(data), 64):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(InputError, match=f"checksum of its block {at // 64} does not match"):
            rows_of(source)


def test_a_file_in_the_place_of_another_is_refused(root: Path) -> None:
    (root / ID / NAMES[0]).write_bytes((root / ID / NAMES[1]).read_bytes())
    with pytest.raises(RheosError, match=r"does not match|were written"):
        rows_of(opened(root))


# --- of 0.1.0 -------------------------------------------------------------------------------------


def put_old(root: Path, **changed: Any) -> None:
    """As Rheos 0.1.0 wrote it: no envelope and no checksums."""
    manifest = make(root)
    files = [{"name": f.name, "rows": f.rows, "first_ms": f.first_ms} for f in manifest.files]
    old = {
        "staging": ID,
        "schema": manifest.schema,
        "event_time": "at",
        "files": files,
        "version": 1,
        **changed,
    }
    (root / MANIFEST).write_bytes(msgspec.json.encode(old))


def test_a_manifest_of_0_1_0_is_read_and_nothing_is_removed_because_of_it(root: Path) -> None:
    put_old(root)
    make(root, "ffffffffffff")
    before = files_below(root)
    source = opened(root)
    assert source.files[0] == StagedFile(NAMES[0], 40, 0)
    assert rows_of(source) == ROWS
    assert files_below(root) == before


@pytest.mark.parametrize("name", ["../victim", "1123456789ab"])
def test_a_manifest_of_0_1_0_with_another_staging_is_refused(root: Path, name: str) -> None:
    put_old(root, staging=name)
    (root.parent / "victim").mkdir()
    (root.parent / "victim" / NAMES[0]).write_bytes(b"of somebody else")
    before = files_below(root.parent)
    with pytest.raises(
        UnrestorableError, match=r"not a valid name of a staging|the staging .* does not exist"
    ):
        opened(root)
    assert files_below(root.parent) == before


def test_a_file_of_0_1_0_with_other_rows_is_refused(root: Path) -> None:
    put_old(root, files=[{"name": NAMES[0], "rows": 41, "first_ms": 0}])
    with pytest.raises(InputError, match="holds 40 rows, but 41 were staged"):
        rows_of(opened(root))
