"""Files that are executed are kept only where no other user can write."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheos.runtimes.host import user_cache
from rheos.runtimes.host.user_cache import own_user_cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rheos" / "compiled"


def test_the_folder_belongs_to_the_user_alone(cache: Path) -> None:
    assert own_user_cache("compiled") == str(cache)
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_is_not_used(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o770)
    assert own_user_cache("compiled") is None


def test_there_may_be_no_folder(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file in its place")
    assert own_user_cache("compiled") is None


def test_the_folder_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_cache, "_MOST_FILES", 2)
    for count in (1, 2, 3):
        Path(own_user_cache("compiled") or "", f"{count}.py").write_text("")
    assert len(list(cache.iterdir())) == 3
    own_user_cache("compiled")
    assert not list(cache.iterdir())
