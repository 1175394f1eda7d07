"""CP32: state files that were exchanged, and manifests with foreign paths."""

from __future__ import annotations

import zlib
from contextlib import suppress

import msgspec
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.checkpoint.savepoint import (
    MANIFEST,
    Savepoint,
    read_savepoint,
    verify_savepoint,
    write_savepoint,
)
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.snapshots import PartMode
from rheos.runtimes.simulated.store import MemoryStore
from tests.compat.test_golden import VERSIONS, snapshot
from tests.hostile.jobs import lost

# --- a checkpoint's ---------------------------------------------------------------------------------


def test_two_exchanged_files_are_refused() -> None:
    files = lost()
    handles = JobLog(stored(files), JobId("kept")).read().completed[-1].entry.handles
    one, *others = (handle for handle in handles if handle.path)
    other = next(handle for handle in others if files[handle.path] != files[one.path])
    read_part(stored(files), one)
    swapped = {**files, one.path: files[other.path], other.path: files[one.path]}
    for handle in (one, other):
        with pytest.raises(UnrestorableError, match=f"in {handle.path} is damaged"):
            read_part(stored(swapped), handle)


# --- a savepoint's ----------------------------------------------------------------------------------


@pytest.fixture(params=VERSIONS)
def whole(request: pytest.FixtureRequest) -> dict[str, bytes]:
    return snapshot(request.param, "savepoint").files


def changed(files: dict[str, bytes], **changes: object) -> None:
    """Writes the manifest anew, with one handle changed and a checksum that matches."""
    found = read(files)
    first, *others = found.entry.handles
    entry = msgspec.structs.replace(
        found.entry, handles=[msgspec.structs.replace(first, **changes), *others]
    )
    store = stored(files)
    store.delete(MANIFEST)
    write_savepoint(store, msgspec.structs.replace(found, entry=entry))
    files[MANIFEST] = store.files[MANIFEST]


def stored(files: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    store.files.update(files)
    return store


def read(files: dict[str, bytes]) -> Savepoint:
    return read_savepoint(stored(files), "S")


@pytest.mark.parametrize(
    "path",
    [
        "../victim/state/0.arrow",
        "state/../../victim",
        "/etc/passwd",
        "victim/0.arrow",
        "state//0.arrow",
    ],
)
def test_a_manifest_with_a_foreign_path_is_refused(whole: dict[str, bytes], path: str) -> None:
    changed(whole, path=path)
    with pytest.raises(UnrestorableError, match="not a state file below 'state'") as caught:
        read(whole)
    assert "start from another savepoint" in str(caught.value.hint)


def test_a_foreign_file_name_is_refused(whole: dict[str, bytes]) -> None:
    changed(whole, mode=PartMode.FILE, file="../../.ssh/authorized_keys")
    with pytest.raises(UnrestorableError, match="has a file named"):
        read(whole)


def test_a_flipped_bit_of_the_manifest_is_noticed(whole: dict[str, bytes]) -> None:
    """Every 37th: it has some 10,000 bytes."""
    manifest, wanted = whole[MANIFEST], read(whole)
    for bit in range(0, 8 * len(manifest), 37):
        flipped = bytearray(manifest)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(CheckpointError):
            assert read({**whole, MANIFEST: bytes(flipped)}) == wanted, f"bit {bit}"


def test_a_deeply_nested_manifest_is_refused(whole: dict[str, bytes]) -> None:
    body = b'{"entry":' + b'{"states":{"a":{"b":{"value":' + b'{"value":' * 100_000
    data = b'{"format":1,"crc32":%d,"body":%s}' % (zlib.crc32(body), body)
    with pytest.raises(UnrestorableError, match="is damaged"):
        read({**whole, MANIFEST: data})


def test_two_exchanged_files_of_a_savepoint_are_refused(whole: dict[str, bytes]) -> None:
    handles = sorted(read(whole).entry.handles, key=lambda handle: handle.path)
    one = handles[0].path
    other = next(h.path for h in handles[1:] if whole[h.path] != whole[one])
    swapped = {**whole, one: whole[other], other: whole[one]}
    with pytest.raises(CheckpointError, match=r"2 of .* parts of its state cannot be read"):
        verify_savepoint(stored(swapped), read(swapped), "S")
