"""Runs a user's file as `python` would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from rheos.errors import ConfigurationError


def run_file(file: Path, arguments: Sequence[str]) -> None:
    """Runs the file as `__main__`, with its folder first on `sys.path` and `arguments` in `sys.argv`.

    Raises ConfigurationError where there is no such file, and whatever the program raises.
    """
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(
            f"the job file {str(file)!r} {what}", hint="give the Python file that builds the job"
        )
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv = argv
        sys.path[:] = path
