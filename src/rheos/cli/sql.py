"""`rheos sql`: runs statements of `-e`, of a pipe, or of the interactive shell."""

from __future__ import annotations

import sys

from rheos.api import overrides
from rheos.api.environment import Environment
from rheos.api.overrides import Overrides
from rheos.cli.shell.session import ShellSession
from rheos.cli.terminal import Terminal, report


def sql(text: str | None, settings: Overrides) -> int:
    """Execute the statements in `text`, of a pipe, or typed by the user. Return the exit code."""
    typed = text is None and sys.stdin.isatty()
    try:
        with overrides.applied(settings):
            session = ShellSession(Environment(), Terminal(), live=typed)
            if typed:
                from rheos.cli.shell.prompt import asked

                asked(session)
            else:
                session.run(sys.stdin.read() if text is None else text)
            session.close(cancel=typed)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0
