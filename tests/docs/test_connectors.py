"""The programs of docs/connectors.md: its files are written, its tests run, and its job."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"
FILES = {step.file: step.code for step in steps(PAGE) if step.file is not None}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    for file, code in FILES.items():
        (tmp_path / file).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    names = [file.removesuffix(".py") for file in FILES]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: importlib.import_module(name) for name in names}


def test_the_tests_of_the_page_pass(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    tests = inspect.getmembers(modules["test_connectors"], inspect.isfunction)
    run = []
    for name, test in tests:
        if name.startswith("test_"):
            folder = tmp_path / name
            folder.mkdir()
            test(folder)
            run.append(name)
    assert run == [
        "test_a_job_with_faults",
        "test_the_first_source",
        "test_the_sink",
        "test_the_source",
    ]


def test_the_job_of_the_page_appends(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (job,) = [step.code for step in steps(PAGE) if step.file is None]
    names = {**vars(modules["appending"]), "__name__": "__main__"}
    exec(compile(job, str(PAGE), "exec"), names)
    written = [file.read_text() for file in sorted((tmp_path / "lines").glob("*.txt"))]
    assert "".join(written) == "a\nb\n"


def test_the_connectors_of_the_page_are_short() -> None:
    first, source, sink, _ = (
        len([line for line in code.splitlines() if line.strip()]) for code in FILES.values()
    )
    assert list(FILES) == ["lines.py", "tailing.py", "appending.py", "test_connectors.py"]
    assert first <= 25
    assert source <= 30
    assert source + sink < 100
