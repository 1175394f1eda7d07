"""Behaviour of every store: the same cases on the disk, in fsspec's memory, and in the simulated
store."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ports import Store
from rheos.runtimes.host.stores import FsspecStore, LocalStore, check_writable, open_store
from rheos.runtimes.simulated.store import MemoryStore

STORES: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(folder / "not yet there"),
    "local, not durable": lambda folder: LocalStore(folder, durable=False),
    "file URL": lambda folder: open_store(f"file://{folder}/job dir"),
    "fsspec memory": lambda folder: open_store(f"memory://{uuid4().hex}/deep"),
    "simulated": lambda folder: MemoryStore(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


class TestContract:
    def test_put_stores_and_replaces(self, store: Store) -> None:
        store.put("a/b/file", b"one")
        assert store.get("a/b/file") == b"one"
        store.put("a/b/file", b"two, and longer")
        assert store.get("a/b/file") == b"two, and longer"
        store.put("top", b"")
        assert store.get("top") == b""

    def test_put_if_absent_writes_once(self, store: Store) -> None:
        assert store.put_if_absent("log/1", b"first") is True
        assert store.put_if_absent("log/1", b"second") is False
        assert store.get("log/1") == b"first"

    def test_a_writer_that_finds_its_own_content_has_written_it(self, store: Store) -> None:
        """A client repeats a write whose answer was lost. So every store compares the content."""
        assert store.put_if_absent("log/1", b"first") is True
        assert store.put_if_absent("log/1", b"first") is True
        assert store.put_if_absent("log/1", b"") is False

    def test_put_if_absent_after_put_and_delete(self, store: Store) -> None:
        store.put("x", b"put")
        assert store.put_if_absent("x", b"new") is False
        store.delete("x")
        assert store.put_if_absent("x", b"new") is True
        store.put("x", b"replaced")
        assert store.get("x") == b"replaced"

    def test_one_of_many_writers_wins(self, store: Store) -> None:
        barrier = threading.Barrier(4)
        won: list[int] = []

        def write(writer: int) -> None:
            for round in range(5):
                barrier.wait()
                if store.put_if_absent(f"round {round}", str(writer).encode()):
                    won.append(round * 10 + writer)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [winner // 10 for winner in sorted(won)] == [0, 1, 2, 3, 4]
        for winner in won:
            assert store.get(f"round {winner // 10}") == str(winner % 10).encode()

    def test_getting_a_missing_file_is_an_error(self, store: Store) -> None:
        with pytest.raises(FileNotFoundError):
            store.get("nowhere/file")

    def test_list_is_sorted_complete_and_below_the_folder(self, store: Store) -> None:
        for path in ("job/state/2/b", "job/state/10/a", "job/log/1", "job/statement", "job2/state/x"):
            store.put(path, b"-")
        assert store.list("job/state") == ["job/state/10/a", "job/state/2/b"]
        assert store.list("job") == ["job/log/1", "job/state/10/a", "job/state/2/b", "job/statement"]
        assert store.list("none") == []

    def test_delete_is_idempotent_and_leaves_the_rest(self, store: Store) -> None:
        store.put("a/b/c", b"-")
        store.put("a/d", b"-")
        store.delete("a/b/c")
        store.delete("a/b/c")
        store.delete("never/was")
        assert store.list("a") == ["a/d"]
        store.put("a/b/c", b"again")
        assert store.get("a/b/c") == b"again"

    def test_names_may_have_spaces_and_special_characters(self, store: Store) -> None:
        path = "visitors per country/state/1/op%2Fx/0-größe.arrow"
        store.put(path, b"-")
        assert store.list("visitors per country") == [path]
        assert store.get(path) == b"-"

    def test_written_files_are_not_unfinished(self, store: Store) -> None:
        store.put("a/b", b"-")
        store.put_if_absent("a/c", b"-")
        store.put_if_absent("a/c", b"-")
        assert store.unfinished("") == []

    def test_the_check_for_writing_leaves_no_file(self, store: Store) -> None:
        check_writable(store, "DIR")
        assert store.list(".probe") == []


@pytest.mark.parametrize("path", ["../victim", "a/../../victim", "/etc/passwd"])
@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "simulated"])
def test_nothing_outside_the_root_is_touched(kind: str, path: str, tmp_path: Path) -> None:
    """Invariant CP32."""
    store = STORES[kind](tmp_path / "root")
    (tmp_path / "victim").write_bytes(b"theirs")
    touching: list[Callable[[], object]] = [
        lambda: store.get(path),
        lambda: store.put(path, b"ours"),
        lambda: store.put_if_absent(path, b"ours"),
        lambda: store.delete(path),
    ]
    for touch in touching:
        with pytest.raises(PermissionError, match="is outside of the store"):
            touch()
    assert (tmp_path / "victim").read_bytes() == b"theirs"


class TestLocal:
    def test_no_temporary_files_and_no_empty_folders_stay(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path)
        store.put("a/b/c", b"-")
        store.put_if_absent("a/b/d", b"-")
        store.put_if_absent("a/b/d", b"-")
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c", "d"]
        store.delete("a/b/c")
        store.delete("a/b/d")
        assert list(tmp_path.iterdir()) == []

    def test_a_link_whose_answer_was_lost_is_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """NFS repeats a request without an answer, and reports what it finds then."""
        store, link = LocalStore(tmp_path), os.link

        def link_twice(source: Path, target: Path) -> None:
            link(source, target)
            link(source, target)

        monkeypatch.setattr(os, "link", link_twice)
        assert store.put_if_absent("file", b"ours") is True
        assert store.put_if_absent("file", b"theirs") is False
        assert store.get("file") == b"ours"

    def test_a_torn_write_is_never_seen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = LocalStore(tmp_path)
        store.put("file", b"whole")

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        for write in (store.put, store.put_if_absent):
            with pytest.raises(OSError, match="No space"):
                write("file", b"half")
        assert store.get("file") == b"whole"
        assert store.list("") == ["file"]

    def test_files_of_a_killed_writer_are_not_listed(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path)
        store.put("a/b", b"-")
        (tmp_path / "a" / ".tmp-xyz").write_bytes(b"half")
        assert store.list("a") == ["a/b"]

    def test_files_of_a_killed_writer_can_be_deleted(self, tmp_path: Path) -> None:
        store = LocalStore(tmp_path)
        store.put("a/b", b"-")
        left = tmp_path / "a" / "c" / ".tmp-xyz"
        left.parent.mkdir()
        left.write_bytes(b"half")
        assert store.unfinished("a") == ["a/c/.tmp-xyz"]
        assert store.unfinished("none") == []
        assert store.unfinished("a", idle_s=60) == []
        os.utime(left, (0, left.stat().st_mtime - 61))
        assert store.unfinished("a", idle_s=60) == ["a/c/.tmp-xyz"]
        store.delete("a/c/.tmp-xyz")
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b"]

    @pytest.mark.parametrize("write", ["put", "put_if_absent"])
    def test_a_writer_whose_unfinished_file_is_deleted_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
    ) -> None:
        store = LocalStore(tmp_path)
        sync = os.fsync

        def meanwhile(descriptor: int) -> None:
            sync(descriptor)
            for path in store.unfinished(""):
                store.delete(path)

        monkeypatch.setattr(os, "fsync", meanwhile)
        with pytest.raises(OSError, match="No such file"):
            getattr(store, write)("a/b", b"whole")
        monkeypatch.undo()
        assert store.list("") == []
        getattr(store, write)("a/b", b"whole")
        assert store.get("a/b") == b"whole"

    def test_the_error_names_a_folder_that_cannot_be_created(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(ConfigurationError, match="file/below' cannot be created"):
            open_store(str(tmp_path / "file" / "below"))

    def test_the_error_names_an_unwritable_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*args: Any, **kwargs: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr("tempfile.mkstemp", refuse)
        with pytest.raises(ConfigurationError, match=r"directory 'DIR' cannot be written.*denied"):
            check_writable(LocalStore(tmp_path), "DIR")

    def test_a_disk_without_hard_links_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(source: Path, target: Path) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(ConfigurationError, match="'DIR' cannot be written"):
            check_writable(LocalStore(tmp_path), "DIR")


class TestRemote:
    @pytest.mark.parametrize("url", ["sftp://name/dir", "http://host/dir", "ftp://host/dir"])
    def test_a_scheme_without_conditional_puts_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match=f"cannot be stored in '{url}'.*put-if-absent"):
            open_store(url)

    def test_the_error_names_a_missing_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(url: str, **options: Any) -> None:
            raise ImportError("Install s3fs to access S3")

        monkeypatch.setattr("fsspec.core.url_to_fs", missing)
        with pytest.raises(ConfigurationError, match="'s3://bucket/dir' cannot be opened") as caught:
            open_store("s3://bucket/dir")
        assert f"{sys.executable} -m pip install 'rheos[s3]'" in str(caught.value.hint)

    def test_a_service_that_ignores_the_condition_is_refused(self) -> None:
        class Ignoring(MemoryStore):
            def put_if_absent(self, path: str, data: bytes) -> bool:
                self.put(path, data)
                return True

        with pytest.raises(ConfigurationError, match="'DIR' ignores put-if-absent"):
            check_writable(Ignoring(), "DIR")

    def test_a_failed_precondition_differs_from_a_failed_write(self) -> None:
        """Services raise different exceptions, so the existence of the file decides."""
        store = FsspecStore(f"memory://{uuid4().hex}")

        class Refusing:
            def __init__(self, inner: Any, error: Exception) -> None:
                self._inner, self._error = inner, error

            def __getattr__(self, name: str) -> Any:
                return getattr(self._inner, name)

            def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
                raise self._error

        inner = store._fs
        store._fs = Refusing(inner, OSError(errno.EINVAL, "PreconditionFailed"))
        with pytest.raises(OSError, match="PreconditionFailed"):
            store.put_if_absent("x", b"1")
        inner.pipe_file(store._full("x"), b"theirs")
        assert store.put_if_absent("x", b"1") is False
        store._fs = Refusing(inner, RuntimeError("the service is away"))
        with pytest.raises(OSError, match="RuntimeError: the service is away"):
            store.put("y", b"1")


def test_a_folder_that_vanishes_while_it_is_created_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, make, found = LocalStore(tmp_path), os.mkdir, []

    def vanishing(path: Any, *args: Any, **kwargs: Any) -> None:
        """Behave as if the folder were there, and gone when that is checked."""
        if Path(path).name == "job" and len(found) < 3:
            found.append(path)
            raise FileExistsError(path)
        make(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", vanishing)
    store.put("job/one", b"1")
    assert (store.list(""), len(found)) == (["job/one"], 3)
    with pytest.raises(FileExistsError):
        store.put("job/one/two", b"2")
