"""How long a tiny job takes from its start to its first row, with the archive of Spark's classes and
without.

    python benchmarks/first_row.py [--runs 5] [--runtime continuous|batch]

The two are run in turn. Wall time is what a user waits; the processor time of all processes of the job
up to the first row says more on a machine that has other work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from processor import processor_s

PROGRAM = """
import sys
import rheos as rh

env = rh.Environment(parallelism=1, runtime=sys.argv[1])
numbers = rh.generator(lambda block: {"n": block.index()}, count=1000, rate_per_s=1000, splits=1)
env.from_source(numbers).print("row")
env.execute("tiny")
"""


def first_row(job: Path, runtime: str, cache: str, archive: str) -> tuple[float, float]:
    """Wall and processor seconds up to the first row that is printed."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "rheos", "run", str(job), runtime],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": cache, "RHEOS_CLASS_ARCHIVE": archive},
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if "row[" in line:
                took = time.monotonic() - began, processor_s(psutil.Process(run.pid))
                run.stdout.read()
                return took
    raise SystemExit("the job printed no row")


def main() -> None:
    cli = argparse.ArgumentParser()
    cli.add_argument("--runs", type=int, default=5)
    cli.add_argument("--runtime", default="continuous", choices=["continuous", "batch"])
    said = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "tiny.py")
        job.write_text(PROGRAM)
        first_row(job, said.runtime, folder, "on")  # Writes the archive as it ends.
        while not list(Path(folder, "rheos", "classes").glob("*.new")):
            time.sleep(0.5)
        time.sleep(5)
        found: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
        for _ in range(said.runs):
            for archive, took in found.items():
                took.append(first_row(job, said.runtime, folder, archive))
                wall_s, cpu_s = took[-1]
                print(f"archive {archive:3}  {wall_s:6.1f} s, processor {cpu_s:6.1f} s", flush=True)
    for archive, took in found.items():
        wall_s, cpu_s = (statistics.median(column) for column in zip(*took, strict=True))
        print(f"median, archive {archive:3}  {wall_s:6.1f} s, processor {cpu_s:6.1f} s")


if __name__ == "__main__":
    main()
