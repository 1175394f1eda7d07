"""`rheos bench`: runs a benchmark and prints its metrics. `rheos bench sql` compares SQL programs with
the same programs written with the API."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table

from rheos.cli.benchmarks.driver import BenchSettings, Progress, run
from rheos.cli.benchmarks.intervals import MIN_ROUNDS
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.report import as_json, as_table
from rheos.cli.benchmarks.sql_comparison import (
    SQL,
    Comparison,
    comparison_object,
    measure_with,
    run_pairs,
)
from rheos.cli.terminal import FAILED, Terminal, report
from rheos.core.errors import ConfigurationError
from rheos.core.known_names import names_hint


def bench(name: str, settings: BenchSettings, as_json_text: bool) -> int:
    """Run the benchmark with this name; return the exit code."""
    try:
        program = PROGRAMS.get(name)
        if program is None:
            raise ConfigurationError(
                f"unknown benchmark {name!r}", hint=names_hint(name, PROGRAMS, "the benchmarks are")
            )
        console = Terminal(stderr=True)
        with console.status(f"{name}: starting") as shown:
            progress: Progress = lambda what: shown.update(f"{name}: {what}")  # noqa: E731
            outcome = run(program, settings, progress)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json_text:
        print(json.dumps(as_json(outcome)))
    else:
        Terminal().print(as_table(outcome))
    return 0


def bench_sql(settings: BenchSettings, as_json_text: bool) -> int:
    """Run each SQL program and its counterpart in turns. Return the exit code: 1 if one of them does
    not reach its target."""
    try:
        console = Terminal(stderr=True)
        with console.status("sql: starting") as shown:
            measure = measure_with(settings, lambda what: shown.update(f"sql: {what}"))
            found = run_pairs(SQL, measure)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json_text:
        print(json.dumps([comparison_object(each) for each in found]))
    else:
        Terminal().print(_comparison_table(found))
    return 0 if all(each.reached_target for each in found) else FAILED


def _comparison_table(found: Sequence[Comparison]) -> Table:
    table = Table(
        title=f"SQL compared with the API: medians of {MIN_ROUNDS} rounds", title_justify="left"
    )
    table.add_column("in SQL")
    table.add_column("baseline")
    for heading in ("ratio of rates", "ratio per processor time", "target"):
        table.add_column(heading, justify="right")
    for each in found:
        cells = (*each.cells(), f"{each.pair.target:g}")
        table.add_row(each.pair.name, each.pair.baseline, *cells)
    return table
