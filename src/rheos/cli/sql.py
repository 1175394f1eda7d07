"""`rheos sql`: runs statements of `-e`, of a pipe, or of the interactive shell."""

from __future__ import annotations

import sys

from rheos.api import overrides
from rheos.api.environment import Environment
from rheos.api.overrides import Overrides
from rheos.cli.shell.session import ShellSession
from rheos.cli.terminal import Terminal, report
from rheos.core.errors import ConfigurationError
from rheos.ops.views import query


def sql(text: str | None, settings: Overrides, job: str | None = None) -> int:
    """Execute the statements in `text`, of a pipe, or typed by the user. Return the exit code. If `job`
    names a job, its materialized views and keyed states are tables."""
    typed = text is None and sys.stdin.isatty()
    try:
        with overrides.applied(settings):
            views = None if job is None else query(job)
            # The rows of views are in this process, so their queries need no Spark.
            env = Environment() if views is None else Environment(runtime="simulated")
            session = ShellSession(env, Terminal(), live=typed, views=views)
            if typed:
                from rheos.cli.shell.prompt import asked

                asked(session)
            else:
                session.run(_piped() if text is None else text)
            session.close(cancel=typed)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0


def _piped() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the standard input is not text: {error}", hint="pass SQL in UTF-8"
        ) from None
