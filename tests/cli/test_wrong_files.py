"""A file that is no job ends in one error, without a traceback of Rheos."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheos.api.overrides import Overrides
from rheos.cli.explain import explain
from rheos.cli.run import run
from rheos.cli.sql import sql

FILES = [
    ("gone.py", None, "'gone.py' does not exist"),
    ("empty.py", b"", "empty.py ended without a call of execute"),
    ("plain.py", b"x = 1\n", "plain.py ended without a call of execute"),
    ("made.py", b"import rheos as rh\nprint(rh)\n", "made.py ended without a call of execute"),
    ("syntax.py", b"import rheos as rh\ndef f(:\n", "syntax.py:2: invalid syntax"),
    ("indented.py", b"x = 1\n\ty = 2\n", "indented.py:2: unexpected indent"),
    ("null.py", b"\x00\x01\xff\xfe\x7fELF", "null.py' cannot be read"),
    ("binary", b"\x7fELF\x00\x02\x93", "binary' cannot be read"),
    ("latin.py", b'x = "\xff"\n', "latin.py:1: (unicode error)"),
    ("shell.txt", b"SELECT 1", "a job file is Python, or SQL if its name ends with .sql"),
    ("note.ipynb", b'{"cells": []}', "note.ipynb is a notebook"),
    ("empty.sql", b"", "empty.sql:1: the SQL writes to no connector"),
    ("comment.sql", b"-- nothing\n", "comment.sql:1: the SQL writes to no connector"),
    ("wrong.sql", b"SELECT 1;\nSELEC 1", "wrong.sql:2: this is not valid SQL"),
    ("unused.sql", b"SELECT 1", "unused.sql:1: the rows of this query are not used"),
    ("binary.sql", b"\x7fELF\x00\xff", "binary.sql' cannot be read"),
]


@pytest.mark.parametrize(("name", "content", "message"), FILES)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_wrong_file_ends_in_one_error(
    command: str,
    name: str,
    content: bytes | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content)
    if command == "run":
        code = run(Path(name), [], Overrides())
    else:
        code = explain(Path(name), [], "text", Overrides())
    printed = capsys.readouterr().err
    assert code in (1, 2)
    assert message in printed
    assert "what to do: " in printed
    assert "Traceback" not in printed


def test_a_file_of_a_folder_that_is_not_utf_8_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first.sql").write_text("SET 'parallelism' = '1'")
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    assert run(tmp_path, [], Overrides()) == 2
    printed = capsys.readouterr().err
    assert "latin.sql' cannot be read" in printed
    assert "what to do: store it as UTF-8" in printed
    assert "Traceback" not in printed


def test_a_folder_without_sql_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, [], Overrides()) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["SELEC 1", "SELECT 1 FROM gone", ".read gone.sql", ".nothing"])
def test_a_wrong_statement_of_the_shell_ends_in_one_error(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sql(text, Overrides()) != 0
    printed = capsys.readouterr().err
    assert printed
    assert "Traceback" not in printed
