"""`rheos explain`: shows what a user's file builds, and runs none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rheos.api import overrides
from rheos.api.overrides import Overrides, ProgramCaptured
from rheos.cli.failures import report
from rheos.cli.program_file import run_file
from rheos.errors import ProgramError
from rheos.site import done_for

Format = Literal["text", "mermaid", "plan", "spark"]


def explain(file: Path, arguments: Sequence[str], format_: Format, settings: Overrides) -> int:
    """Prints the program of the first `execute` that the file comes to. Gives the exit code."""
    try:
        with overrides.applied(replace(settings, capture=True)):
            run_file(file, arguments)
        raise ProgramError(
            f"{file} ended without a call of execute: there is no program to explain",
            hint='end it with env.execute("name"); it may stand under `if __name__ == "__main__":`',
        )
    except ProgramCaptured as captured:
        try:
            with done_for(captured.site):
                print(captured.environment.explain(format_, captured.job_name))
        except Exception as error:
            return report(error)
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
