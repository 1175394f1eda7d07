"""`rheos init`: creates a project whose tests pass, or nothing."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rheos.api.partial_settings import from_file
from rheos.cli import init
from rheos.cli.main import app
from rheos.core.version import VERSION


def made(folder: Path) -> Path:
    result = CliRunner().invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"cd {folder}" in result.output
    return folder


def refused(folder: Path | str) -> str:
    result = CliRunner().invoke(app, ["init", str(folder)])
    assert result.exit_code == 2
    return result.stderr


def test_a_project_has_all_its_files_with_its_name(tmp_path: Path) -> None:
    project = made(tmp_path / "sensors")
    assert sorted(file.name for file in project.iterdir()) == sorted(init.FILES)
    for file in project.iterdir():
        assert "{{" not in file.read_text(), file
    assert 'env.execute("sensors")' in (project / "job.py").read_text()
    assert f"rheos>={VERSION}\n" in (project / "requirements.txt").read_text()
    assert tomllib.loads((project / "settings.toml").read_text())["parallelism"] == 2
    from_file(project / "settings.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["sensors"]


def test_every_template_is_a_file_of_the_project() -> None:
    templates = {path.name for path in (Path(init.__file__).parent / "project").iterdir()}
    assert templates == {f"{file.lstrip('.')}.template" for file in init.FILES}


def test_the_tests_of_a_new_project_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(made(tmp_path / "sensors"))
    for name in ("job", "test_job"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    tests = inspect.getmembers(importlib.import_module("test_job"), inspect.isfunction)
    own = [test for name, test in tests if name.startswith("test_")]
    assert len(own) == 3
    for test in own:
        given = {"rheos_seeds": [0]} if inspect.signature(test).parameters else {}
        test(**given)


@pytest.mark.slow
@pytest.mark.spark
def test_a_new_project_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = made(tmp_path / "sensors")
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "rheos.testing.pytest_plugin",
        "--rheos-seeds=0",
    ]
    subprocess.run(tests, cwd=project, check=True)
    run = [sys.executable, "-m", "rheos", "run", "job.py", "--config", "settings.toml"]
    subprocess.run([*run, "--param", "rows=400"], cwd=project, check=True)
    written = [file.read_text() for file in (project / "out/per-minute").glob("*.jsonl")]
    assert "".join(written).count("\n") == 80


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "sensors").mkdir()
    made(tmp_path / "sensors")


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "sensors").mkdir()
    (tmp_path / "sensors/notes").write_text("mine")
    assert "is not empty" in refused(tmp_path / "sensors")
    (tmp_path / "file").write_text("mine")
    assert "exists and is not a folder" in refused(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "sensors")
    assert "exists and is not a folder" in refused(tmp_path / "link")
    assert "does not exist" in refused(tmp_path / "missing/sensors")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {
        "file",
        "link",
        "sensors",
        "sensors/notes",
    }
    assert (tmp_path / "sensors/notes").read_text() == "mine"


@pytest.mark.parametrize("name", ["3x", "a b", "-x", "a.b", "ä", "x" * 65, "..", ""])
def test_invalid_names_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["init", "--", name])
    assert result.exit_code == 2
    assert "is not a valid job name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_if_one_file_cannot_be_written_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = init.text_of

    def text_of(file: str, name: str) -> str:
        if file == "settings.toml":
            raise OSError(28, "No space left on device")
        return whole(file, name)

    monkeypatch.setattr(init, "text_of", text_of)
    assert "could not be written: No space left on device" in refused(tmp_path / "sensors")
    assert list(tmp_path.iterdir()) == []
