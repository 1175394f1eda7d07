"""What an experiment is, how it is run, and the file that its results are kept in."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.disturbance import QuietRuns
from benchmarks.paper.plots import Plots
from rheos.cli.benchmarks.intervals import MIN_ROUNDS

RESULTS = Path(__file__).with_name("results")
"""Where results are that the page is made of. Those of `--quick` are in a folder of it."""


@dataclass(frozen=True)
class Options:
    """How an experiment is to be run."""

    seconds: float
    """That each run is measured for, after its warm-up."""
    rounds: int
    """How often every run is made, in turns with the others."""
    quick: bool
    """To try the command: fewer runs, smaller ones, under a minute in all."""

    @property
    def warmup_s(self) -> float:
        return 1.0 if self.quick else 3.0

    def say(self, text: str) -> None:
        """What goes on, to whoever waits."""
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Experiment:
    """One experiment. Its name is that of its command, its results and its place on the page."""

    name: str
    about: str
    run: Callable[[Options], dict[str, Any]]
    """Measures. What it gives is written as JSON."""
    show: Callable[[dict[str, Any], Plots], str]
    """Results as Markdown, with figures that the `Plots` draw. Every figure in the text is made of
    the results, so that the page stays true when they change."""
    seconds: float = 8.0
    rounds: int = MIN_ROUNDS

    def options(self, quick: bool, seconds: float | None, rounds: int | None) -> Options:
        """What was not said is the experiment's own."""
        return Options(
            seconds=seconds or (2.0 if quick else self.seconds),
            rounds=rounds or (1 if quick else self.rounds),
            quick=quick,
        )


def run(experiment: Experiment, options: Options) -> dict[str, Any]:
    """The whole file of an experiment's results."""
    began = time.monotonic()
    results = experiment.run(options)
    return {
        "experiment": experiment.name,
        "machine": machine(),
        "options": {"seconds": options.seconds, "rounds": options.rounds, "quick": options.quick},
        "took_s": round(time.monotonic() - began),
        "results": results,
    }


def extended(earlier: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return earlier results with the rounds of another sitting.

    Raises:
        ValueError: The machine or the length of the runs differs, so that rounds are not comparable.
    """
    for part, name in (("machine", "cores"), ("options", "seconds"), ("options", "quick")):
        was, is_now = earlier[part][name], more[part][name]
        if was != is_now:
            raise ValueError(f"the earlier results have {name} {was}, and these {is_now}: start anew")
    rounds = earlier["options"]["rounds"]
    runs = [{**run, "round": run.get("round", 1) + rounds} for run in more["results"]["runs"]]
    return {
        **more,
        "options": {**more["options"], "rounds": rounds + more["options"]["rounds"]},
        "took_s": earlier["took_s"] + more["took_s"],
        "results": {**more["results"], "runs": [*earlier["results"]["runs"], *runs]},
    }


def machine() -> dict[str, Any]:
    """What it was measured on: no names, no paths."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("rheos", "pyspark", "pyarrow", "polars")},
    }


def result_path(name: str, quick: bool = False, folder: Path = RESULTS) -> Path:
    return (folder / "quick" if quick else folder) / f"{name}.json"


def save(result: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


Cell = dict[str, Any]
"""What distinguishes a run from the others of its experiment, as plain JSON."""


def in_turns(
    options: Options, cells: Sequence[Cell], measure: Callable[[Cell], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Make every run once in each round, every second round backwards.

    So what else the machine does, and its heat, affects all of them. A run during which the machine was
    disturbed is repeated; quick runs are not judged.

    Returns:
        A dict for each run: its cell, its round, its measurements.
    """
    runs = []
    quiet = QuietRuns(os.cpu_count() or 1)
    for number in range(1, options.rounds + 1):
        for cell in cells if number % 2 else reversed(cells):
            what = ", ".join(f"{name} {value}" for name, value in cell.items() if value is not None)
            options.say(f"round {number} of {options.rounds}: {what}")
            measurements = measure(cell) if options.quick else quiet(partial(measure, cell))
            options.say("    " + ", ".join(f"{n} {v}" for n, v in measurements.items() if _is_short(v)))
            # A measurement of the same name, such as the busy cores, never replaces the cell's value.
            runs.append({**measurements, **cell, "round": number})
    return runs


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float | str)


def where(runs: Sequence[dict[str, Any]], **cell: Any) -> list[dict[str, Any]]:
    """The runs of a cell."""
    return [run for run in runs if all(run.get(name) == value for name, value in cell.items())]
