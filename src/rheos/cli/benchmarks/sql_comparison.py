"""`rheos bench sql`: programs in SQL and the same programs with the API, run in turns and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rheos.cli.benchmarks.driver import BenchSettings, Progress, run
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.report import as_json
from rheos.core.errors import JobFailedError

Measure = Callable[[str], dict[str, Any]]
"""Runs the program with this name and returns its metrics by the names of `as_json`."""


@dataclass(frozen=True)
class Beside:
    """Comparison of two programs: the first should reach `target` of the other's records in the same
    processor time.
    """

    name: str
    beside: str
    target: float


SQL = (
    Beside("sql-grep", "grep", 0.9),
    Beside("sql-grouping", "table", 0.9),
    Beside("sql-tumbling", "tumbling", 0.9),
)

ROUNDS = 3


@dataclass(frozen=True)
class Compared:
    """Metrics of all rounds. Runs of the two programs at the same index belong together."""

    of: Beside
    runs: Sequence[dict[str, Any]]
    beside: Sequence[dict[str, Any]]

    @property
    def of_rate(self) -> float:
        """Return the ratio of the rates: the median over the rounds."""
        return median(self._ratios("records_per_s"))

    @property
    def of_processor_time(self) -> float:
        """Return the ratio of records per processor time. It is less sensitive than the rate to other
        load on the machine.
        """
        return median(1 / ratio for ratio in self._ratios("processor_us_per_record"))

    @property
    def held(self) -> bool:
        return self.of_processor_time >= self.of.target

    def _ratios(self, figure: str) -> list[float]:
        return [one[figure] / other[figure] for one, other in zip(self.runs, self.beside, strict=True)]


def compared(pairs: Sequence[Beside], measure: Measure, rounds: int = ROUNDS) -> list[Compared]:
    """Measure each pair this many times. The two programs of a pair run one after the other, and take
    turns at going first, so that other load on the machine affects both.
    """
    found: dict[Beside, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
        pair: ([], []) for pair in pairs
    }
    for number in range(rounds):
        for pair in pairs:
            sides = [(pair.name, found[pair][0]), (pair.beside, found[pair][1])]
            for name, runs in sides if number % 2 == 0 else reversed(sides):
                runs.append(measure(name))
    return [Compared(pair, runs, beside) for pair, (runs, beside) in found.items()]


def measuring(settings: BenchSettings, progress: Progress) -> Measure:
    """Return a function that runs benchmarks with these settings, in one Spark session."""

    def measure(name: str) -> dict[str, Any]:
        figures = as_json(run(PROGRAMS[name], settings, lambda what: progress(f"{name}, {what}")))
        if not figures["records_per_s"]:
            raise JobFailedError(
                f"{name}: no record reached the end of the job within {settings.seconds:g} s",
                hint="measure for longer: --seconds 30",
            )
        return figures

    return measure


def comparison(each: Compared) -> dict[str, Any]:
    """Return the comparison as an object for `--json`."""
    return {
        "name": each.of.name,
        "beside": each.of.beside,
        "target": each.of.target,
        "of_rate": round(each.of_rate, 3),
        "of_processor_time": round(each.of_processor_time, 3),
        "runs": list(each.runs),
        "runs_beside": list(each.beside),
    }
