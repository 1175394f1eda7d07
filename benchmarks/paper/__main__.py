"""`python -m benchmarks.paper EXPERIMENT | all | page`, from the root of the repository."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.paper.experiment import RESULTS, extended, load, result_path, run, save
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.page import PAGE, ROOT, rewrite
from benchmarks.paper.plots import Plots


def main() -> None:
    named = {experiment.name: experiment for experiment in EXPERIMENTS}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description="The experiments of the paper. Each writes its results as JSON, and its plots.",
        epilog="\n".join(f"{name:16} {each.about}" for name, each in named.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=[*named, "all", "page"], metavar="EXPERIMENT|all|page")
    parser.add_argument("--quick", action="store_true", help="under a minute each, to try it")
    parser.add_argument("--seconds", type=float, help="that each run is measured for")
    parser.add_argument("--rounds", type=int, help="how often each run is made")
    parser.add_argument(
        "--more", action="store_true", help="add these rounds to the results that are there"
    )
    parser.add_argument("--json", type=Path, help="the file of the results (of one experiment)")
    parser.add_argument("--leave-out", nargs="+", default=[], choices=list(named), help="of all")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of results for page")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that is rewritten")
    given = parser.parse_args()
    if given.what == "page":
        shown = ", ".join(rewrite(EXPERIMENTS, given.results, given.page))
        print(f"{given.page}: {shown or 'there are no results'}")
        return
    if given.what == "all":
        options = ["--quick"] * given.quick
        options += [f"--seconds={given.seconds}"] if given.seconds else []
        options += [f"--rounds={given.rounds}"] if given.rounds else []
        options += ["--more"] * given.more
        sys.exit(_all([name for name in named if name not in given.leave_out], options))
    # The workers find these modules, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    experiment = named[given.what]
    result = run(experiment, experiment.options(given.quick, given.seconds, given.rounds))
    path = given.json or result_path(experiment.name, given.quick)
    if given.more and path.exists():
        result = extended(load(path), result)
    save(result, path)
    print(experiment.show(load(path)["results"], Plots(path.parent, str(path.parent))))
    print(f"\n{path}: {result['took_s']} s in all")


def _all(names: list[str], options: list[str]) -> int:
    """Each in a process of its own. Gives how many have failed."""
    command = [sys.executable, "-m", "benchmarks.paper"]
    failed = [
        name for name in names if subprocess.run([*command, name, *options], check=False).returncode
    ]
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    main()
