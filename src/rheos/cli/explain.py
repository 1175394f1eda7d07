"""`rheos explain`: shows what a user's file builds, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.cli.terminal import report, say_lines
from rheos.core.site import done_for

Format = Literal["text", "mermaid", "plan", "spark"]


def explain(file: Path, arguments: Sequence[str], format_: Format, settings: Overrides) -> int:
    """Print the program of the first `execute` that the file reaches; return the exit code."""
    try:
        captured = captured_program(file, arguments, settings)
        with done_for(captured.site):
            say_lines(captured.environment.explain(format_, captured.job_name))
            if format_ == "text" and (session := captured.environment._sql) is not None:
                from rheos.sql.lineage import lineage

                say_lines(lineage(session.written).rstrip("\n"))
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0
