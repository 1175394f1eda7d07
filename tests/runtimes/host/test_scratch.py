"""Local folders: private, deleted with their owner, and never deleted under a living owner."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rheos.runtimes.host import scratch
from rheos.runtimes.host.scratch import private_folder, scratch_folder


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def left_by_a_killed_process(base: Path) -> tuple[Path, Path]:
    folder, lock = base / "rheos-state-dead", base / "rheos-state-dead.lock"
    folder.mkdir()
    (folder / "table").write_text("state")
    lock.touch()
    return folder, lock


def test_state_on_disk_is_private_and_deleted_at_the_end(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with scratch_folder(str(tmp_path)) as folder:
            [lock] = tmp_path.glob("*.lock")
            assert (mode(folder), mode(lock)) == (0o700, 0o600)
            Path(folder, "table").write_text("state")
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == []


def test_folders_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    dead = left_by_a_killed_process(tmp_path)
    with scratch_folder(str(tmp_path)) as first, scratch_folder(str(tmp_path)) as second:
        assert not any(path.exists() for path in dead)
        assert os.path.isdir(first)
        assert os.path.isdir(second)


def test_a_concurrent_cleanup_leaves_a_locked_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[set[str]] = []
    flock = fcntl.flock

    def in_between(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and not swept:
            swept.append({path.name for path in tmp_path.glob("*.lock")})
            scratch._sweep(tmp_path)
            assert not list(tmp_path.iterdir()), "it has taken the lock for one that was left"
        flock(descriptor, operation)

    monkeypatch.setattr(scratch.fcntl, "flock", in_between)
    with scratch_folder(str(tmp_path)) as folder:
        [lock] = tmp_path.glob("*.lock")
        assert {lock.name} != swept[0]
        assert lock.with_suffix("") == Path(folder)
        scratch._sweep(tmp_path)
        assert lock.exists()
        assert os.path.isdir(folder)
    assert list(tmp_path.iterdir()) == []


def test_folders_of_every_kind_are_deleted_after_a_kill(tmp_path: Path) -> None:
    """A process makes one folder of each kind and is killed; the next process deletes them."""
    made = (
        "import os, sys; from rheos.runtimes.host import scratch\n"
        "kept = [scratch.OwnedFolder(kind, sys.argv[1]) for kind in scratch._KINDS]\n"
        "[open(os.path.join(each.path, 'file'), 'w').close() for each in kept]\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", made, str(tmp_path)], check=False)
    assert len(list(tmp_path.glob("*/file"))) == len(scratch._KINDS)
    others = [tmp_path / "rheos-of-others.lock", tmp_path / "rheos-of-others"]
    others[0].touch()
    others[1].mkdir()
    folder = scratch.OwnedFolder("rheos-jvm-", tmp_path)
    assert set(tmp_path.iterdir()) == {*others, Path(folder.path), Path(f"{folder.path}.lock")}
    folder.close()
    assert set(tmp_path.iterdir()) == set(others)


def test_a_forked_process_leaves_the_folder_to_its_owner(tmp_path: Path) -> None:
    folder = scratch.OwnedFolder("rheos-jvm-", tmp_path)
    forked = os.fork()
    if not forked:
        folder.close()
        os._exit(0)
    os.waitpid(forked, 0)
    assert os.path.isdir(folder.path)
    folder.close()


def test_temporary_folders_are_made_only_in_known_places() -> None:
    """Other temporary folders would stay after a kill. The listed ones are removed in another way."""
    source = Path(scratch.__file__).parents[2]
    known = {
        "cli/benchmarks/driver.py",
        "cli/benchmarks/soak.py",
        "cli/init.py",  # The folder becomes the project.
        "connectors/staged_files.py",  # The folder is its example.
        "runtimes/host/scratch.py",  # A known name that another user has taken.
        "runtimes/host/sockets.py",  # Deleted through a lock within it.
        "testing/connector_kit/sink_rules.py",
        "testing/harness.py",
        "ops/servers/jars.py",
        "ops/servers/postgres.py",  # The keeper of a server removes its folder.
        "ops/servers/server.py",
    }
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"mkdtemp\(|TemporaryDirectory\(", path.read_text())
    }
    assert found == known


def test_folders_of_another_user_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = left_by_a_killed_process(tmp_path)
    monkeypatch.setattr(scratch.os, "geteuid", lambda: os.getuid() + 1)
    scratch._sweep(tmp_path)
    assert all(path.exists() for path in theirs)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder, lock = left_by_a_killed_process(tmp_path)
    lock.unlink()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    lock.symlink_to(precious)
    scratch._sweep(tmp_path)
    assert folder.exists()
    assert precious.read_text() == "mine"


def test_an_unusable_folder_is_reported_by_its_writer(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with scratch_folder(str(tmp_path / "file")) as folder:
        assert not os.path.exists(folder)


def test_a_known_name_is_used_if_we_own_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    folder = private_folder("rheos-known")
    assert (folder, mode(folder)) == (str(tmp_path / "rheos-known"), 0o700)
    assert private_folder("rheos-known") == folder


@pytest.mark.parametrize("taken", ["open to others", "a file", "a link", "of another user"])
def test_a_known_name_taken_by_others_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    place = tmp_path / "rheos-known"
    uid: Any = os.geteuid
    if taken == "a file":
        place.touch()
    elif taken == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir(mode=0o777 if taken == "open to others" else 0o700)
        place.chmod(0o777 if taken == "open to others" else 0o700)
        if taken == "of another user":
            uid = lambda: os.getuid() + 1  # noqa: E731
    monkeypatch.setattr(scratch.os, "geteuid", uid)
    folder = private_folder("rheos-known")
    assert folder.startswith(f"{place}-")
    assert mode(folder) == 0o700
