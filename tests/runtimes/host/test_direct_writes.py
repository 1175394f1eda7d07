"""Direct writes of large files: every byte arrives, whatever the file system supports."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from rheos.runtimes.host import direct_writes
from rheos.runtimes.host.direct_writes import LEAST_BYTES, write_directly
from rheos.runtimes.host.stores import LocalStore

SIZES = [0, 1, 4095, 4096, 4097, LEAST_BYTES, LEAST_BYTES + 4096, 2 * LEAST_BYTES + 77]


def written(path: Path, data: bytes) -> bytes:
    with path.open("wb") as file:
        write_directly(file.fileno(), data)
    return path.read_bytes()


@pytest.mark.parametrize("size", SIZES)
def test_files_of_any_length_are_complete(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    assert written(tmp_path / "file", data) == data


def test_the_descriptor_writes_as_usual_afterwards(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        write_directly(file.fileno(), b"x" * 8192)
        file.write(b"more")
    assert (tmp_path / "file").read_bytes() == b"x" * 8192 + b"more"


def test_a_file_system_may_refuse_direct_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(LEAST_BYTES + 1)
    monkeypatch.setattr(direct_writes, "_set_direct", lambda descriptor, direct: False)
    assert written(tmp_path / "file", data) == data


@pytest.mark.parametrize("calls", [0, 1])
def test_a_file_system_may_refuse_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    data, left, write = os.urandom(2 * LEAST_BYTES + 1), [calls], os.write

    def refuse(descriptor: int, data: Any) -> int:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.EINVAL, "not aligned")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    assert written(tmp_path / "file", data) == data


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, write = os.urandom(LEAST_BYTES + 1), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:100_000]))
    assert written(tmp_path / "file", data) == data


def test_other_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="disk is full"):
        LocalStore(tmp_path).put("state/1", bytes(LEAST_BYTES))
    assert LocalStore(tmp_path).unfinished("") == []


def test_a_store_writes_large_files_directly(tmp_path: Path) -> None:
    store, data = LocalStore(tmp_path), os.urandom(LEAST_BYTES + 5)
    store.put("state/1", data)
    assert store.put_if_absent("state/2", data)
    assert store.get("state/1") == store.get("state/2") == data


@pytest.mark.parametrize("begin", [0, 1, 64])
def test_memory_that_begins_at_a_page_is_not_copied(tmp_path: Path, begin: int) -> None:
    memory = memoryview(mmap.mmap(-1, LEAST_BYTES + 8192))
    memory[:] = os.urandom(len(memory))
    data = memory[begin : begin + LEAST_BYTES + 5]
    store = LocalStore(tmp_path)
    store.put("state/1", data)
    assert store.get("state/1") == data
