"""Draws what the page shows of each experiment, from its results.

`docs/benchmarks.md` is written by hand: what was done, and what figures do not say. Between two marks

    <!-- results: NAME -->
    <!-- end -->

stands what an experiment shows of its results. That is made anew here, and its plots with it; what has
no results stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.disturbance import summary
from benchmarks.paper.experiment import Experiment, load, result_path
from benchmarks.paper.plots import Plots
from benchmarks.paper.tables import sections
from rheos.cli.benchmarks.intervals import APPROXIMATELY, MIN_ROUNDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
PLOTS = "benchmarks"
"""The folder of the plots, beside the page."""

TOO_FEW = (
    f"**Not enough rounds for a comparison.** A value after {APPROXIMATELY} is from fewer than "
    f"{MIN_ROUNDS} rounds. It shows an order of magnitude, and no difference between cells."
)
"""Stands above results that have such a value."""

_BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def footnote(result: dict[str, Any]) -> str:
    """How it was run: the command, and on what."""
    machine, options = result["machine"], result["options"]
    command = f"python -m benchmarks.paper {result['experiment']}" + " --quick" * options["quick"]
    return (
        f"`{command}`: {options['seconds']:g} s a run, {options['rounds']} "
        f"round{'s' * (options['rounds'] > 1)}, {result['took_s']} s in all; {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, PySpark {machine['versions']['pyspark']}."
    )


def block(shown: str, result: dict[str, Any], footnote: str) -> str:
    """Return what the page shows of an experiment: with a notice if a cell has too few rounds."""
    notice = TOO_FEW if APPROXIMATELY in shown else ""
    return sections(notice, shown, sections(summary(result["results"].get("runs", [])), footnote))


def rewrite(
    experiments: Sequence[Experiment],
    results: Path,
    page: Path = PAGE,
    footnote: Callable[[dict[str, Any]], str] = footnote,
) -> list[str]:
    """Makes the blocks of the page anew. Gives the names of those that had results."""
    plots = Plots(page.parent / PLOTS, PLOTS)
    shown = {}
    for experiment in experiments:
        path = result_path(experiment.name, folder=results)
        if path.exists():
            result = load(path)
            shown[experiment.name] = block(
                experiment.show(result["results"], plots), result, footnote(result)
            )
    text = page.read_text()
    missing = sorted(set(shown) - {found[1] for found in _BLOCK.findall(text)})
    if missing:
        raise ValueError(f"{page} has no place for {', '.join(missing)}")
    page.write_text(_BLOCK.sub(lambda found: _filled(found, shown), text))
    return list(shown)


def _filled(found: re.Match[str], shown: dict[str, str]) -> str:
    return f"{found[1]}{shown[found[2]]}\n{found[3]}" if found[2] in shown else found[0]
