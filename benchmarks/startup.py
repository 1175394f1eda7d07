"""Processor time that a user's first commands take before they do any work.

    python benchmarks/startup.py [--runs 5]

The commands run in turn, and the least time of each counts, which says most on a machine that has other
work. Python keeps its bytecode in a folder of the benchmark, as it does where Rheos is installed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = """
import rheos as rh

env = rh.Environment()
env.from_source(rh.collection([{"word": "a", "n": 1}])).print("row")
env.execute("one row")
"""


def processor_s(command: list[str], bytecode: str) -> float:
    """Return the processor seconds of a command and of the processes that it waits for."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    cli = argparse.ArgumentParser()
    cli.add_argument("--runs", type=int, default=5)
    runs = cli.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job.py")
        job.write_text(JOB)
        rheos = [sys.executable, "-m", "rheos"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import rheos": [sys.executable, "-c", "import rheos"],
            "rheos --help": [*rheos, "--help"],
            "rheos run --help": [*rheos, "run", "--help"],
            "import polars, pyarrow.compute": [sys.executable, "-c", "import polars, pyarrow.compute"],
            "rheos.Environment": [sys.executable, "-c", "import rheos; rheos.Environment"],
            "rheos run --runtime simulated": [*rheos, "run", "--runtime", "simulated", str(job)],
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        for run in range(runs + 1):
            for name, command in commands.items():
                seconds = processor_s(command, folder)
                if run:  # The first one writes bytecode.
                    took[name].append(seconds)
    least = {name: min(seconds) for name, seconds in took.items()}
    for name, seconds in least.items():
        print(f"{name:32}{seconds:7.3f} s{seconds / least['python -c pass']:8.1f} times a bare Python")


if __name__ == "__main__":
    main()
