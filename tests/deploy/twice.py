"""Runs a program twice: the first run kills itself, and the second one resumes its job."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.processes import Started

ROOT = Path(__file__).parents[2]


def run_twice(
    started: Started,
    source: str,
    folder: Path,
    url: str,
    during_first: Callable[[], None] = lambda: None,
    **environment: str,
) -> None:
    """Run a program with the arguments `folder`, `url`, and "dies" or "lives".

    The first run ends by SIGKILL, after `during_first`. The second one prints "all rows".
    """
    program = folder / "program.py"
    program.write_text(source)
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, str(program), str(folder), url]
    first = started.command([*command, "dies"], **environment)
    during_first()
    assert first.wait(400) == -signal.SIGKILL, started.output(first)
    second = started.command([*command, "lives"], **environment)
    assert second.wait(400) == 0, started.output(second)
    assert "all rows" in started.output(second)
