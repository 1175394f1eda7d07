"""The shell at a terminal: lines with history and completion."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.cli.failures import report
from rheos.cli.shell.lines import completions, is_whole, word_at_end
from rheos.cli.shell.session import COMMANDS, ShellSession
from rheos.cli.terminal import say
from rheos.core.errors import ConfigurationError

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import run_in_terminal
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory
except ImportError:
    raise ConfigurationError(
        "the shell needs the package prompt_toolkit",
        hint="pip install 'rheos[sql]'; without it there is rheos sql -e, and rheos sql < file",
    ) from None

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

HISTORY = ".rheos_sql_history"
"""In the home of the user."""


class _Completer(Completer):
    def __init__(self, session: ShellSession) -> None:
        self._session = session

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        commands = [each.partition(" ")[0] for each in COMMANDS]
        for each in completions(before, self._session.tables(), commands):
            yield Completion(each, start_position=-len(word_at_end(before)))


def asked(session: ShellSession) -> None:
    """Carries out what is typed, until the shell is ended. Errors are shown, and it goes on."""
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
            say(f"{name} has failed:")
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
