"""The savepoint's folder: its manifest, and errors for folders that are not savepoints."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint.savepoint import (
    MANIFEST,
    Savepoint,
    discard_savepoint,
    folder_name,
    part_path,
    read_savepoint,
    verify_savepoint,
    write_savepoint,
)
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.snapshots import StateHandle
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import completed, handle

PART = b"the state"


def part(subtask: int, data: bytes = PART) -> StateHandle:
    path = part_path(OperatorId("count"), subtask, "counts", "0.arrow")
    return msgspec.structs.replace(
        handle(path, subtask=subtask, checksum=zlib.crc32(data)), size_bytes=len(data)
    )


def savepoint(id: str = "one") -> Savepoint:
    entry = msgspec.structs.replace(
        completed(7, savepoint="S"), handles=[part(0), part(1)], committables=[]
    )
    return Savepoint(id=id, job=JobId("a job"), name="a job", version="1.2", taken_ms=99, entry=entry)


def whole() -> MemoryStore:
    store = MemoryStore()
    for written in savepoint().entry.handles:
        store.put(written.path, PART)
    write_savepoint(store, savepoint())
    return store


def test_a_savepoint_is_read_back() -> None:
    store = whole()
    read = read_savepoint(store, "S")
    assert read == savepoint()
    verify_savepoint(store, read, "S")


def test_writing_a_savepoint_again_changes_nothing() -> None:
    """Check a write that was reported as failed but had succeeded."""
    store = whole()
    write_savepoint(store, savepoint())
    assert read_savepoint(store, "S") == savepoint()


def test_another_savepoint_is_never_overwritten() -> None:
    store = whole()
    with pytest.raises(CheckpointError, match="the savepoint's manifest could not be written: the"):
        write_savepoint(store, savepoint("two"))
    assert read_savepoint(store, "S") == savepoint()


def test_a_store_that_fails() -> None:
    def fails(moment: str, operation: str, path: str) -> None:
        raise PermissionError("not yours")

    store = whole()
    store.on_access = fails
    with pytest.raises(CheckpointError, match="could not be read: not yours"):
        read_savepoint(store, "S")
    with pytest.raises(CheckpointError, match="could not be written: not yours"):
        write_savepoint(store, savepoint())


def test_a_folder_without_savepoint_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="there is no savepoint in 'S'"):
        read_savepoint(MemoryStore(), "S")


def test_an_unfinished_savepoint_is_an_error() -> None:
    store = whole()
    store.delete(MANIFEST)
    with pytest.raises(CheckpointError, match=r"the savepoint 'S' is incomplete: it has state, but no"):
        read_savepoint(store, "S")


def test_a_savepoint_of_a_newer_version_is_an_error() -> None:
    store = whole()
    store.files[MANIFEST] = store.files[MANIFEST].replace(b'"format":1', b'"format":2')
    with pytest.raises(CheckpointError, match="has format 2; this version reads up to 1") as caught:
        read_savepoint(store, "S")
    assert "the version of rheos that took it" in str(caught.value)


@given(st.data())
def test_a_damaged_manifest_is_always_refused(data: st.DataObject) -> None:
    store = whole()
    written = store.files[MANIFEST]
    at = data.draw(st.integers(0, len(written) - 1))
    if data.draw(st.booleans()):
        store.files[MANIFEST] = written[:at]
    else:
        flipped = written[at] ^ (1 << data.draw(st.integers(0, 7)))
        store.files[MANIFEST] = written[:at] + bytes([flipped]) + written[at + 1 :]
    with pytest.raises(CheckpointError, match=r"'S' is damaged|'S' has format"):
        read_savepoint(store, "S")


def test_state_that_is_missing_or_damaged_is_named() -> None:
    store = whole()
    paths = [written.path for written in savepoint().entry.handles]
    store.delete(paths[0])
    store.put(paths[1], PART[:-1] + b"!")
    with pytest.raises(CheckpointError, match="'S' is incomplete: 2 of 2 parts of its state") as caught:
        verify_savepoint(store, read_savepoint(store, "S"), "S")
    assert f"{paths[0]}: missing" in str(caught.value)
    assert f"{paths[1]}: damaged" in str(caught.value)
    store.put(paths[0], PART)
    store.put(paths[1], PART[:-1])
    with pytest.raises(CheckpointError, match="1 of 2 parts") as caught:
        verify_savepoint(store, savepoint(), "S")
    assert f"{paths[1]}: 8 bytes, but 9 were written" in str(caught.value)


def test_leftovers_of_a_failed_savepoint_are_removed() -> None:
    store = whole()
    store.put("notes.txt", b"not of ours")
    store.files["state/count/.tmp-0-counts"] = b"of a worker that was killed"
    discard_savepoint(store)
    assert list(store.files) == ["notes.txt"]


def test_names_of_folders_are_single_path_components() -> None:
    assert folder_name(JobId("a/b"), 3, "cafe") == "a%2Fb-3-cafe"
