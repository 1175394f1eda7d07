"""`rheos sql` at a terminal, and in a pipe."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PATIENCE_S = 120


class Terminal:
    """The command at a pseudo terminal."""

    def __init__(self, home: Path) -> None:
        self._side, inner = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rheos", "sql", "--runtime", "simulated"],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            start_new_session=True,
        )
        os.close(inner)
        self._unread = ""

    def types(self, text: str) -> None:
        os.write(self._side, text.encode())

    def shows(self, word: str) -> None:
        """Wait until the terminal has shown this string, after those that were expected before."""
        until_s = time.monotonic() + _PATIENCE_S
        while word not in self._unread:
            assert time.monotonic() < until_s, self._unread
            if select.select([self._side], [], [], 1)[0]:
                self._unread += os.read(self._side, 1 << 16).decode(errors="replace")
        self._unread = self._unread.partition(word)[2]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(30)
        os.close(self._side)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()


@pytest.mark.deploy
def test_multi_line_statements_errors_and_history_work(terminal: Terminal, tmp_path: Path) -> None:
    terminal.shows("sql>")
    terminal.types("SELECT 1 AS first,\r")
    terminal.shows("...>")
    terminal.types("'x' AS second;\r")
    terminal.shows("(1 row)")
    terminal.shows("sql>")
    terminal.types("SELECT nope;\r")
    terminal.shows("^^^^")
    terminal.shows("sql>")
    terminal.types("\x1b[A")
    terminal.shows("SELECT nope")
    terminal.types("\x15CREATE VIEW pages AS SELECT 7 AS visits;\r")
    terminal.types("SHOW TABLES;\r")
    terminal.shows("pages  view, append-only")
    terminal.shows("sql>")
    terminal.types("SELECT pages.v\t")
    terminal.shows("isits")
    terminal.types(" FROM pages;\r")
    terminal.shows("(1 row)")
    # Before it asks, the terminal itself would take the end of input.
    terminal.shows("sql>")
    terminal.types("\x04")
    assert terminal.process.wait(60) == 0
    assert "+'x' AS second;" in (tmp_path / ".rheos_sql_history").read_text()


@pytest.mark.deploy
def test_a_failed_job_is_reported_while_nothing_is_typed(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "views.jsonl").write_text('{"page": 7}\n')
    terminal.shows("sql>")
    terminal.types(
        f"CREATE TABLE views (page STRING) WITH ('connector' = 'files', 'path' = "
        f"'{tmp_path}/*.jsonl', 'format' = 'jsonl');\r"
    )
    terminal.shows("sql>")
    terminal.types("CREATE TABLE seen (page STRING) WITH ('connector' = 'print');\r")
    terminal.shows("sql>")
    terminal.types("INSERT INTO seen SELECT page FROM views;\r")
    terminal.shows("sql-insert-1 failed")
    terminal.shows("column 'page' must be a string, but is a number")
    terminal.types("SELECT 1 AS one;\r")
    terminal.shows("(1 row)")


@pytest.mark.deploy
def test_a_pipe_is_executed_until_its_first_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rheos", "sql", "--runtime", "simulated"]
    text = "CREATE VIEW v AS SELECT 1 AS a;\nSELECT a FROM v;\nSELECT b FROM v;\nSELECT 2 AS c;"
    ran = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    assert ran.stdout == "a\n-\n1\n(1 row)\n"
    assert ran.stderr.startswith("sql:3: unknown column 'b'")
    assert ran.returncode == 1
