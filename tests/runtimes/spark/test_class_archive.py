"""The archive of Spark's classes: written once, then used, and never one that others could write."""

from __future__ import annotations

import os
import time
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
    """Return the JVM option that names an archive, and the archive."""
    name, _, path = class_archive.java_options(java, jars, folder)[0].partition("=")
    return name, Path(path)


def written(jars: Path, folder: Path, content: bytes = MAGIC + b"classes") -> Path:
    """Write an archive as a JVM does when it ends."""
    name, new = option(jars, folder)
    assert name == "-XX:ArchiveClassesAtExit"
    new.write_bytes(content)
    new.chmod(0o444)
    return new


def test_the_first_jvm_writes_the_archive_and_others_use_it(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "classes"
    new = written(jars, folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    name, archive = option(jars, folder)
    assert (name, archive.parent) == ("-XX:SharedArchiveFile", folder)
    assert option(jars, folder) == (name, archive)
    assert not new.exists()


def test_one_of_several_concurrent_archives_is_kept(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    new = written(jars, folder)
    for process in (1, 2):
        new.with_suffix("").with_suffix(f".{process}.new").write_bytes(new.read_bytes())
    _, archive = option(jars, folder)
    assert [path.name for path in folder.iterdir()] == [archive.name]


def test_other_jars_or_another_java_need_another_archive(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    assert option(jars, folder)[0] == "-XX:SharedArchiveFile"
    assert option(jars, folder, JAVA.replace("17.0.9", "17.0.10"))[0] == "-XX:ArchiveClassesAtExit"
    (jars / "spark-core.jar").write_bytes(b"other classes")
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"


def test_a_truncated_archive_is_not_used(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    new = written(jars, folder, bytes(100))
    assert option(jars, folder)[0] == "-XX:ArchiveClassesAtExit"
    os.utime(new, (0, 0))
    option(jars, folder)
    assert not new.exists()


def test_long_unused_archives_are_deleted(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    _, archive = option(jars, folder)
    old = archive.with_name(f"spark-{'0' * 16}.jsa")
    for path in (old, folder / "notes.txt"):
        path.write_bytes(MAGIC)
        os.utime(path, (0, 0))
    option(jars, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([archive.name, "notes.txt"])


def test_the_least_recently_used_archives_beyond_ten_are_deleted(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    written(jars, folder)
    _, archive = option(jars, folder)
    others = [archive.with_name(f"spark-{place:016x}.jsa") for place in range(12)]
    for age_s, path in enumerate(others):
        path.write_bytes(MAGIC)
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    option(jars, folder)
    assert {*folder.iterdir()} == {archive, *others[:9]}


def test_an_untrusted_archive_is_not_used(jars: Path, tmp_path: Path) -> None:
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


def test_an_untrusted_or_unusable_folder_is_left_alone(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    folder.mkdir(mode=0o755)
    assert class_archive.java_options(JAVA, jars, folder) == []
    (tmp_path / "file").touch()
    assert class_archive.java_options(JAVA, jars, tmp_path / "file" / "classes") == []
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path)
    assert class_archive.java_options(JAVA, jars, linked) == []


def test_the_archive_can_be_disabled_and_needs_hotspot(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert class_archive.java_options("Eclipse OpenJ9 VM", jars, tmp_path / "classes") == []
    monkeypatch.setenv("RHEOS_CLASS_ARCHIVE", "off")
    assert class_archive.java_options(JAVA, jars, tmp_path / "classes") == []
