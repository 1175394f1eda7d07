"""Jars pinned by a list, downloaded from a repository in a folder."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.servers import jars

CONTENT = b"classes"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one jar, which the list `small` names."""
    (tmp_path / "small.jars").write_text(
        f"# a list\norg.a.b:thing:1.0 {hashlib.sha256(CONTENT).hexdigest()} {len(CONTENT)}\n"
    )
    root = tmp_path / "repository"
    jar = root / "org/a/b/thing/1.0/thing-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(CONTENT)
    monkeypatch.setattr(jars, "_file", lambda name: tmp_path / f"{name}.jars")
    monkeypatch.setenv("RHEOS_MAVEN", root.as_uri())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def test_jars_are_downloaded_once(repository: Path) -> None:
    folder = jars.installed("small")
    shutil.rmtree(repository)
    assert jars.installed("small") == folder
    assert [(jar.name, jar.read_bytes()) for jar in folder.iterdir()] == [("thing-1.0.jar", CONTENT)]
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("served", [b"clasSes", b"classes and more", b"class"])
def test_a_download_that_differs_from_the_list_is_refused(repository: Path, served: bytes) -> None:
    next(repository.rglob("*.jar")).write_bytes(served)
    with pytest.raises(ConfigurationError, match=r"is not the org\.a\.b:thing:1\.0"):
        jars.installed("small")
    assert list(jars.default_folder().iterdir()) == []


def test_the_error_for_an_unreachable_jar_suggests_a_mirror(repository: Path) -> None:
    shutil.rmtree(repository)
    with pytest.raises(ConfigurationError, match="RHEOS_MAVEN"):
        jars.installed("small")
    assert list(jars.default_folder().iterdir()) == []


@pytest.mark.parametrize("damage", [b"other", None])
def test_a_changed_jar_is_not_used(repository: Path, damage: bytes | None) -> None:
    (jar,) = jars.installed("small").iterdir()
    jar.unlink()
    if damage is not None:
        jar.write_bytes(damage)
    with pytest.raises(ConfigurationError, match="remove the folder"):
        jars.installed("small")


def test_the_lists_are_well_formed() -> None:
    listed = jars.listed("kafka")
    assert "kafka_2.13-4.1.1.jar" in {jar.name for jar in listed}
    assert len({jar.name for jar in listed}) == len(listed)
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in listed)
