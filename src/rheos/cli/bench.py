"""`rheos bench`: runs a benchmark and prints its figures."""

from __future__ import annotations

import json

from rich.console import Console

from rheos.bench.driver import BenchSettings, Progress, run
from rheos.bench.programs import PROGRAMS
from rheos.bench.report import as_json, as_table
from rheos.cli.failures import report
from rheos.errors import ConfigurationError


def bench(name: str, settings: BenchSettings, as_json_text: bool) -> int:
    """Runs the benchmark of that name. Gives the exit code."""
    try:
        program = PROGRAMS.get(name)
        if program is None:
            raise ConfigurationError(
                f"there is no benchmark {name!r}", hint=f"there are {', '.join(PROGRAMS)}"
            )
        console = Console(stderr=True)
        with console.status(f"{name}: starting") as shown:
            progress: Progress = lambda what: shown.update(f"{name}: {what}")  # noqa: E731
            outcome = run(program, settings, progress)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json_text:
        print(json.dumps(as_json(outcome)))
    else:
        Console().print(as_table(outcome))
    return 0
