"""The archive of Spark's classes: written once, then used, and never one that others could write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rheos.runtimes.spark import class_archive

JAVA = 'openjdk version "17.0.9"\nOpenJDK 64-Bit Server VM (build 17.0.9+9, mixed mode, sharing)\n'
MAGIC = bytes.fromhex("a8ab0bf0")


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RHEOS_CLASS_ARCHIVE", raising=False)
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark-core.jar").write_bytes(b"classes")
    return folder


def option(jars: Path, folder: Path, java: str = JAVA) -> tuple[str, Path]:
    """Which of its options names a file, and which file."""
    name, _, path = class_archive.java_options(java, jars, folder)[0].partition("=")
    return name, Path(path)


def written(jars: Path, folder: Path, content: bytes = MAGIC + b"classes") -> Path:
    """A JVM wrote its archive as it ended."""
    name, new = option(jars, folder)
    assert name == "-XX:ArchiveClassesAtExit"
    new.write_bytes(content)
    new.chmod(0o444)
    return new


def test_the_first_jvm_writes_it_and_the_next_use_it(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "classes"
    new = written(jars, folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    name, archive = option(jars, folder)
    assert (name, archive.parent) == ("-XX:SharedArchiveFile", folder)
    assert option(jars, folder) == (name, archive)
    assert not new.exists()


def test_of_several_that_were_written_at_a_time_one_stays(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    new = written(jars, folder)
    for process in (1, 2):
        new.with_suffix("").with_suffix(f".{process}.new").write_bytes(new.read_bytes())
    _, archive = option(jars, folder)
    assert [path.name for path in folder.iterdir()] == [archive.name]


def test_other_jars_and_another_java_have_another(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    assert option(jars, folder)[0] == "-XX:SharedArchiveFile"
    assert option(jars, folder, JAVA.replace("17.0.9", "17.0.10"))[0] == "-XX:ArchiveClassesAtExit"
    (jars / "spark-core.jar").write_bytes(b"other classes")
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"


def test_one_that_was_broken_off_is_not_used(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    new = written(jars, folder, bytes(100))
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"
    os.utime(new, (0, 0))
    option(jars, folder)
    assert not new.exists()


def test_what_is_long_unused_goes_and_what_is_not_ours_stays(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    _, archive = option(jars, folder)
    old = archive.with_name(f"spark-{'0' * 16}.jsa")
    for path in (old, folder / "notes.txt"):
        path.write_bytes(MAGIC)
        os.utime(path, (0, 0))
    option(jars, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([archive.name, "notes.txt"])


def test_one_that_others_could_write_or_that_lies_elsewhere_is_not_used(
    jars: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    _, archive = option(jars, folder)
    archive.chmod(0o666)
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"
    archive.unlink()
    elsewhere = tmp_path / "elsewhere.jsa"
    elsewhere.write_bytes(MAGIC)
    archive.symlink_to(elsewhere)
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"


def test_a_folder_that_others_may_enter_or_that_cannot_be_made_is_left_alone(
    jars: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "classes"
    folder.mkdir(mode=0o755)
    assert class_archive.java_options(JAVA, jars, folder) == []
    (tmp_path / "file").touch()
    assert class_archive.java_options(JAVA, jars, tmp_path / "file" / "classes") == []
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    assert class_archive.java_options(JAVA, jars, linked) == []


def test_it_can_be_switched_off_and_only_hotspot_has_one(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert class_archive.java_options("Eclipse OpenJ9 VM", jars, tmp_path / "classes") == []
    monkeypatch.setenv("RHEOS_CLASS_ARCHIVE", "off")
    assert class_archive.java_options(JAVA, jars, tmp_path / "classes") == []
