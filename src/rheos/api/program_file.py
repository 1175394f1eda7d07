"""Run a user's file as `python` does, or only until its program is built."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rheos.api import overrides
from rheos.api.overrides import Overrides, ProgramCapture
from rheos.core.errors import ConfigurationError, ProgramError, Site
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.site import done_for


def run_file(file: Path, arguments: Sequence[str]) -> None:
    """Run a file as `__main__`, with its folder first on `sys.path` and `arguments` in `sys.argv`.

    The path may be a folder of SQL files. Raise ConfigurationError if the file does not exist or cannot
    be read, and ProgramError if it is not valid Python. Errors of the program itself are raised
    unchanged.
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
            _check_python(file)
            runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv = argv
        sys.path[:] = path


def _check_python(file: Path) -> None:
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except OSError as error:
        raise _unreadable(file, error.strerror) from None
    except (SyntaxError, ValueError) as error:  # A null byte is a ValueError in some versions.
        if not isinstance(error, SyntaxError) or error.lineno is None:
            raise _unreadable(file, str(error)) from None
        line = (error.text or "").rstrip()
        caret = " " * ((error.offset or 1) - 1) + "^"
        raise ProgramError(
            error.msg,
            site=Site(str(file), error.lineno),
            hint="correct the line; a job file is Python, or SQL if its name ends with .sql",
            detail=f"{line.expandtabs(1)}\n{caret}" if line else None,
        ) from None


def _unreadable(file: Path, why: object) -> ConfigurationError:
    return ConfigurationError(
        f"the job file {str(file)!r} cannot be read: {why}",
        hint="pass a Python file, or SQL in UTF-8 if its name ends with .sql",
    )


def no_program(file: Path) -> ProgramError:
    """Return the error for a file that has ended without a job, such as an empty one or a notebook."""
    if file.suffix == ".ipynb":
        return ProgramError(
            f"{file} is a notebook, not a program",
            hint=f"convert it first: jupyter nbconvert --to script {file}",
        )
    return ProgramError(
        f"{file} ended without a call of execute: it defines no program",
        hint='end it with env.execute("name"); it may be under `if __name__ == "__main__":`',
    )


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
        printed: list[str] = []
        session.say = printed.append
        if file.is_dir():
            run_folder(session, file)
        else:
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise _unreadable(file, error) from None
            if text.strip():
                session.script(text, str(file))
        for text in printed:
            print(text)
        if session.written:
            env.execute(file.resolve().stem)
        elif not printed:  # A script may contain only statements that print.
            raise ProgramError(
                "the SQL writes to no connector",
                site=Site(str(file), 1),
                hint="end it with INSERT INTO a table of a connector, or CREATE MATERIALIZED VIEW; "
                "to print the rows of a query, run rheos sql < FILE",
            )


def captured_program(file: Path, arguments: Sequence[str], settings: Overrides) -> ProgramCapture:
    """Run a file up to its first `execute`, and return the program; no job starts. Raise ProgramError
    if the file does not call `execute`, and the errors of `run_file`."""
    try:
        with overrides.applied(replace(settings, capture=True)):
            run_file(file, arguments)
    except ProgramCapture as captured:
        return captured
    raise no_program(file)


def planned_program(file: Path, arguments: Sequence[str], settings: Overrides) -> PhysicalPlan:
    """Return the plan of the program at the first `execute`. Raises like `captured_program`."""
    captured = captured_program(file, arguments, settings)
    with done_for(captured.site):
        return captured.environment.plan(captured.job_name)
