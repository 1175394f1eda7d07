"""`rheos bench sql`: programs in SQL and the same programs with the API, run in turns and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rheos.cli.benchmarks.driver import BenchSettings, Progress, run
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.report import as_json
from rheos.core.errors import JobFailedError

Measure = Callable[[str], dict[str, Any]]
"""Function that runs the program with this name, and returns its metrics by the names of `as_json`."""


@dataclass(frozen=True)
class ProgramPair:
    """Comparison of two programs: the first should reach `target` of the other's records in the same
    processor time."""

    name: str
    baseline: str
    target: float


SQL = (
    ProgramPair("sql-grep", "grep", 0.9),
    ProgramPair("sql-grouping", "table", 0.9),
    ProgramPair("sql-tumbling", "tumbling", 0.9),
)


@dataclass(frozen=True)
class Comparison:
    """Metrics of all rounds. Runs of the two programs at the same index belong together."""

    pair: ProgramPair
    runs: Sequence[dict[str, Any]]
    baseline_runs: Sequence[dict[str, Any]]

    @property
    def rate_ratio(self) -> float:
        """Return the ratio of the rates: the median over the rounds."""
        return median(self._ratios("records_per_s"))

    @property
    def processor_time_ratio(self) -> float:
        """Return the ratio of records per processor time. It is less sensitive than the rate to other
        load on the machine."""
        return median(self._processor_time_ratios())

    def cells(self) -> tuple[str, str]:
        """Return both ratios with their intervals, for a table."""
        form = "{:.2f}".format
        return cell(self._ratios("records_per_s"), form), cell(self._processor_time_ratios(), form)

    @property
    def reached_target(self) -> bool:
        return self.processor_time_ratio >= self.pair.target

    def _processor_time_ratios(self) -> list[float]:
        return [1 / ratio for ratio in self._ratios("processor_us_per_record")]

    def _ratios(self, metric: str) -> list[float]:
        return [
            one[metric] / other[metric]
            for one, other in zip(self.runs, self.baseline_runs, strict=True)
        ]


def run_pairs(
    pairs: Sequence[ProgramPair], measure: Measure, rounds: int = MIN_ROUNDS
) -> list[Comparison]:
    """Measure each pair this many times. The two programs of a pair run one after the other, and take
    turns at going first, so that other load on the machine affects both."""
    found: dict[ProgramPair, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
        pair: ([], []) for pair in pairs
    }
    for number in range(rounds):
        for pair in pairs:
            sides = [(pair.name, found[pair][0]), (pair.baseline, found[pair][1])]
            for name, runs in sides if number % 2 == 0 else reversed(sides):
                runs.append(measure(name))
    return [Comparison(pair, runs, baseline) for pair, (runs, baseline) in found.items()]


def measure_with(settings: BenchSettings, progress: Progress) -> Measure:
    """Return a function that runs benchmarks with these settings, in one Spark session."""

    def measure(name: str) -> dict[str, Any]:
        metrics = as_json(run(PROGRAMS[name], settings, lambda what: progress(f"{name}, {what}")))
        if not metrics["records_per_s"]:
            raise JobFailedError(
                f"{name}: no record reached the end of the job within {settings.seconds:g} s",
                hint="measure for longer: --seconds 30",
            )
        return metrics

    return measure


def comparison_object(each: Comparison) -> dict[str, Any]:
    """Return the comparison as an object for `--json`."""
    return {
        "name": each.pair.name,
        "baseline": each.pair.baseline,
        "target": each.pair.target,
        "rate_ratio": round(each.rate_ratio, 3),
        "processor_time_ratio": round(each.processor_time_ratio, 3),
        "runs": list(each.runs),
        "baseline_runs": list(each.baseline_runs),
    }
