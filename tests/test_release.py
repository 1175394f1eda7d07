"""The steps of `scripts/release` find what a release lacks."""

from __future__ import annotations

import shutil
import tomllib
from email.message import Message
from pathlib import Path

import pytest

from scripts.release_steps import MAX_NOTES_WORDS, ROOT, metadata_problems, notes_of, version_problems

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_all_files_name_the_version_of_the_project() -> None:
    assert version_problems(ROOT, VERSION) == []


def test_each_file_that_names_another_version_is_a_problem(tmp_path: Path) -> None:
    for path in (
        "src/rheos/core/version.py",
        "deploy/kubernetes/rheos/Chart.yaml",
        "deploy/kubernetes/rheos/values.yaml",
        "deploy/docker/Dockerfile",
        "CHANGELOG.md",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    assert len(version_problems(tmp_path, "9.9.9")) == 6


def test_the_notes_are_the_section_of_the_version() -> None:
    changelog = "# Changes\n\n## Unreleased\n\n- later\n\n## 1.1.0\n\n- new\n\n## 1.0.0\n\n- old\n"
    assert notes_of(changelog, "1.1.0") == "# Rheos 1.1.0\n\n- new\n"
    assert notes_of((ROOT / "CHANGELOG.md").read_text(), VERSION).count("\n- ") > 10


def test_missing_or_too_long_notes_stop_the_release() -> None:
    with pytest.raises(SystemExit, match=r"no section 2\.0\.0"):
        notes_of("## 1.0.0\n\n- old\n", "2.0.0")
    with pytest.raises(SystemExit, match="words"):
        notes_of("## 1.0.0\n\n" + "word " * (MAX_NOTES_WORDS + 1), "1.0.0")


def test_metadata_without_urls_classifiers_or_extras_is_refused() -> None:
    problems = metadata_problems(Message(), VERSION)
    for missing in ("Project-URL Repository", "Classifier", "Summary", "Version", "Markdown", "'all'"):
        assert any(missing in problem for problem in problems), missing
