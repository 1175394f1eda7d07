"""The folder of sockets: only its user enters it, and only certain leftovers are removed."""

from __future__ import annotations

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from rheos.runtimes.host.sockets import SocketFolder, in_folder, listen


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short, as paths of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="rh-", dir="/tmp") as base:
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base)


def left_over(base: Path, name: str = "rheos-sockets-left") -> Path:
    """As after a kill: a socket that nobody listens at, and a lock that nobody holds."""
    folder = base / name
    folder.mkdir(mode=0o700)
    (folder / "lock").touch(0o600)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
    return folder


def test_only_its_user_enters_the_folder(temporary: Path) -> None:
    folder = SocketFolder()
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    assert Path(folder.path).parent == temporary
    folder.close()
    assert list(temporary.iterdir()) == []


def test_leftovers_of_killed_processes_are_removed_and_live_sockets_kept(temporary: Path) -> None:
    left = left_over(temporary)
    alive = SocketFolder()
    assert not left.exists()
    SocketFolder().close()
    assert Path(alive.path).exists()
    alive.close()


def test_nothing_is_removed_in_doubt(temporary: Path) -> None:
    """A name proves nothing: each of these looks like a folder of ours but for one thing."""
    victim = temporary / "victim"
    victim.mkdir(mode=0o700)
    (victim / "lock").touch()
    (temporary / "rheos-sockets-link").symlink_to(victim)
    more = left_over(temporary, "rheos-sockets-more")
    (more / "notes.txt").write_text("the user's")
    open_ = left_over(temporary, "rheos-sockets-open")
    open_.chmod(0o755)
    unlocked = left_over(temporary, "rheos-sockets-new")
    (unlocked / "lock").unlink()
    linked = left_over(temporary, "rheos-sockets-linked")
    (linked / "lock").unlink()
    (linked / "lock").symlink_to(victim / "lock")
    SocketFolder().close()
    assert (victim / "lock").exists()
    assert (more / "notes.txt").read_text() == "the user's"
    for kept in (open_, unlocked, linked):
        assert (kept / "s").exists()


def test_a_folder_of_another_user_is_kept(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_over(temporary)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    SocketFolder().close()
    assert left.exists()


def test_a_temporary_folder_with_a_long_path_is_not_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = SocketFolder()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as listening:
        assert listen(listening, in_folder(folder.path), 100).startswith("ipc:///tmp/rheos-sockets-")
    folder.close()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_another_user_cannot_connect() -> None:
    folder = SocketFolder()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as listening:
        path = listen(listening, in_folder(folder.path), 100).removeprefix("ipc://")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setuid(65534)
                with socket.socket(socket.AF_UNIX) as stranger:
                    stranger.connect(path)
            except PermissionError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    folder.close()


if sys.platform == "linux":

    def test_another_user_with_access_to_the_folder_is_refused() -> None:
        """The socket asks the system who connects."""
        folder = SocketFolder()
        with zmq.Context() as context, context.socket(zmq.ROUTER) as listening:
            listening.setsockopt(zmq.IPC_FILTER_UID, os.getuid() + 1)
            listening.bind(address := in_folder(folder.path))
            with context.socket(zmq.DEALER) as stranger:
                stranger.setsockopt(zmq.LINGER, 0)
                stranger.connect(address)
                stranger.send(b"x")
                assert not listening.poll(300)
        folder.close()


def test_an_empty_folder_of_a_process_that_died_before_its_lock_is_swept(temporary: Path) -> None:
    old, young, used = (temporary / f"rheos-sockets-{name}" for name in ("old", "young", "used"))
    for folder in (old, young, used):
        folder.mkdir(mode=0o700)
    (used / "new").touch()
    for folder in (old, used):
        os.utime(folder, (0, 0))
    SocketFolder().close()
    assert [each.exists() for each in (old, young, used)] == [False, True, True]
