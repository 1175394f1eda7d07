"""Processor time that a user's first commands take before they do any work.

    python benchmarks/startup.py [--runs 5] [--exit]

The commands run in turn, and the least time of each counts, which says most on a machine that has other
work. Python keeps its bytecode in a folder of the benchmark, as it does where Rheos is installed.

With `--exit`, jobs on Spark run instead, and the time from the result to the end of the process counts.
The first run of each does not count: Spark's class archive may be written as it ends.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = """
import rheos as rh

env = rh.Environment()
env.from_source(rh.collection([{"word": "a", "n": 1}])).print("row")
env.execute("one row")
"""


ENDING = """
import sys, time
import rheos as rh

env = rh.Environment(2, runtime=sys.argv[1])
rows = env.from_source(rh.collection([{"word": "a", "n": 1}]))
rows.key_by("word").running(n=rh.agg.count()).collect("rows")
assert env.execute("one row").collected["rows"].num_rows == 1
print(time.time())
"""


def exit_s(runtime: str) -> tuple[float, str]:
    """Return the seconds from a job's result to the end of its process, and all that stderr shows."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # Files, as a pipe would also wait for the JVM.
        subprocess.run([sys.executable, "-c", ENDING, runtime], check=True, stdout=out, stderr=err)
        ended = time.time()
        out.seek(0)
        err.seek(0)
        return ended - float(out.read()), err.read()


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
    cli.add_argument("--exit", action="store_true", help="time from a result on Spark to the exit")
    given = cli.parse_args()
    runs = given.runs
    if given.exit:
        for runtime in ("continuous", "batch"):
            ends = [exit_s(runtime) for _ in range(runs + 1)][1:]
            stray = sum(text.count("ERROR") for _, text in ends)
            print(f"{runtime:32}{min(ends)[0]:7.3f} s, {stray} lines with ERROR")
        return
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job.py")
        job.write_text(JOB)
        rheos = [sys.executable, "-m", "rheos"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import rheos": [sys.executable, "-c", "import rheos"],
            "rheos --help": [*rheos, "--help"],
            "rheos run --help": [*rheos, "run", "--help"],
            "import polars, pyarrow": [sys.executable, "-c", "import polars, pyarrow.compute"],
            "with pandas": [sys.executable, "-c", "import polars, pyarrow.compute, pandas"],
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
