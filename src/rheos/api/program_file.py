"""Run a user's file as `python` does, or only until its program is built."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rheos.api import overrides
from rheos.api.overrides import Overrides, ProgramCaptured
from rheos.core.errors import ConfigurationError, ProgramError, Site
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.site import done_for


def run_file(file: Path, arguments: Sequence[str]) -> None:
    """Run a file as `__main__`, with its folder first on `sys.path` and `arguments` in `sys.argv`.

    For SQL, the path may be a folder of files. Raise ConfigurationError if the file does not exist, and
    any error of the program.
    """
    models = file.is_dir() and any(file.rglob("*.sql"))
    if not file.is_file() and not models:
        what = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(
            f"the job file {str(file)!r} {what}", hint="pass the Python file that builds the job"
        )
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve() if models else file.resolve().parent))
    try:
        if models or file.suffix == ".sql":
            _run_script(file, arguments)
        else:
            runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv = argv
        sys.path[:] = path


def _run_script(file: Path, arguments: Sequence[str]) -> None:
    """Run the statements of a file, or of the files in a folder, as one job with its name."""
    from rheos.api.environment import Environment
    from rheos.sql.folders import run_folder

    if arguments:
        raise ConfigurationError(
            f"a SQL file takes no arguments, but got: {' '.join(arguments)}",
            hint="put settings before the file name; only Python files take parameters",
        )
    with done_for(Site(str(file), 1)):
        env = Environment()
        session = env._sql_session()
        said: list[str] = []
        session.say = said.append
        if file.is_dir():
            run_folder(session, file)
        else:
            session.script(file.read_text(), str(file))
        for text in said:
            print(text)
        # A script may contain only queries, and no INSERT.
        if session.written or not said:
            env.execute(file.resolve().stem)


def captured_program(file: Path, arguments: Sequence[str], settings: Overrides) -> ProgramCaptured:
    """Return the program at the first `execute` of a file; nothing runs. Raises ProgramError if the
    file does not call it, and like `run_file`.
    """
    try:
        with overrides.applied(replace(settings, capture=True)):
            run_file(file, arguments)
    except ProgramCaptured as captured:
        return captured
    raise ProgramError(
        f"{file} ended without a call of execute: it defines no program",
        hint='end it with env.execute("name"); it may be under `if __name__ == "__main__":`',
    )


def planned_program(file: Path, arguments: Sequence[str], settings: Overrides) -> PhysicalPlan:
    """Return the plan of the program at the first `execute`. Raises like `captured_program`."""
    captured = captured_program(file, arguments, settings)
    with done_for(captured.site):
        return captured.environment.plan(captured.job_name)
