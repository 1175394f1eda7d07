"""Prompt of the shell at a terminal, with history and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.cli.shell.session import COMMANDS, ShellSession
from rheos.cli.terminal import report, say
from rheos.core.errors import ConfigurationError

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

# --- input: where statements end, and completions
# -------------------------------------------------------


KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "JOIN", "LEFT JOIN", "ON", "UNION ALL", "WITH"),
    *("INSERT INTO", "CREATE TABLE", "CREATE VIEW", "VALUES", "CASE WHEN", "INTERVAL", "WATERMARK FOR"),
    *("TUMBLE", "HOP", "CUMULATE", "SESSION", "DESCRIPTOR", "TABLE", "PARTITION BY", "ORDER BY"),
    *("MATCH_RECOGNIZE", "MEASURES", "PATTERN", "DEFINE", "EXPLAIN", "SHOW TABLES", "DESCRIBE", "SET"),
)

_PIECES = re.compile(
    r"""
    --[^\n]*                      # A comment, to the end of its line.
    | /\*.*?(?:\*/|\Z)            # One that says its end.
    | '(?:[^'\\]|\\.|'')*(?:'|\Z) # Texts and names in quotes, which hold no statement's end.
    | "(?:[^"\\]|\\.)*(?:"|\Z)
    | `[^`]*(?:`|\Z)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[\w.]*\Z")


def statements(text: str) -> tuple[list[str], str]:
    """Return the complete statements without their semicolons, and the rest after the last one."""
    found, begin = [], 0
    for piece in _PIECES.finditer(text):
        if piece["end"]:
            found.append(text[begin : piece.start()])
            begin = piece.end()
    return [each for each in found if not _is_empty(each)], text[begin:]


def is_whole(text: str) -> bool:
    """Return whether the input is complete: statements up to a semicolon, or a command."""
    return text.lstrip().startswith(".") or _is_empty(statements(text)[1])


def word_at_end(text: str) -> str:
    """Return the typed part of the word at the cursor."""
    found = _WORD.search(text)
    return "" if found is None else found[0]


def _is_empty(text: str) -> bool:
    return not _PIECES.sub(lambda piece: "" if piece[0][:2] in ("--", "/*") else piece[0], text).strip()


def completions(before: str, tables: Mapping[str, Sequence[str]], commands: Iterable[str]) -> list[str]:
    """Return completions for the word at the cursor: names of tables, their columns, and SQL keywords.
    `before` is the input up to the cursor."""
    word = word_at_end(before)
    if before.strip() == word and word.startswith("."):
        return [each for each in commands if each.startswith(word)]
    table, point, column = word.rpartition(".")
    if point:
        columns = (of for name, of in tables.items() if name.casefold() == table.casefold())
        return [f"{table}.{each}" for each in next(columns, ()) if _begins(each, column)]
    if not word:
        return []
    names = dict.fromkeys([*tables, *(each for columns in tables.values() for each in columns)])
    keywords = [each if word.isupper() else each.lower() for each in KEYWORDS]
    return [each for each in (*names, *keywords) if _begins(each, word)]


def _begins(name: str, word: str) -> bool:
    return name.casefold().startswith(word.casefold())


# --- the terminal -------------------------------------------------------------------------------------


try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import run_in_terminal
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
except ImportError:
    raise ConfigurationError(
        "the shell needs the package prompt_toolkit",
        hint="pip install 'rheos[sql]'; or, without it, use rheos sql -e or rheos sql < file",
    ) from None


HISTORY = ".rheos_sql_history"
"""Name of the file in the user's home directory."""


class _Completer(Completer):
    def __init__(self, session: ShellSession) -> None:
        self._session = session

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        commands = [each.partition(" ")[0] for each in COMMANDS]
        for each in completions(before, self._session.tables(), commands):
            yield Completion(each, start_position=-len(word_at_end(before)))


def asked(session: ShellSession) -> None:
    """Execute what the user types, until the shell ends. Prints errors and continues."""
    prompt: PromptSession[str] = PromptSession(
        "sql> ",
        history=FileHistory(str(Path.home() / HISTORY)),
        completer=_Completer(session),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_whole(prompt.default_buffer.text)),
        prompt_continuation="...> ",
    )

    def show_failures() -> None:
        for name, error in session.failures():
            say(f"{name} failed:")
            report(error)

    def look() -> None:
        """Print the jobs that have failed, above the input line."""
        if any(job.over for job in session.jobs):
            run_in_terminal(show_failures)

    def job_ended() -> None:
        loop = prompt.app.loop
        if loop is not None and prompt.app.is_running:
            loop.call_soon_threadsafe(look)

    session.job_ended = job_ended
    while not session.ended:
        try:
            text = prompt.prompt(pre_run=look)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            session.run(text)
        except (Exception, KeyboardInterrupt) as error:
            report(error)
