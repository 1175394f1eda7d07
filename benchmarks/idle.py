"""What a job costs while little or nothing comes: cores by kind of process, for an idle job (rate 0)
and for low rates of grouping, with default settings and a buffer timeout of 10 ms.

The JVM of Spark stands apart: Rheos asks nothing of it while an attempt runs.

usage: python benchmarks/idle.py [--seconds S] [--parallelism N] [RATE ...]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import Counter

import psutil
from processor import by_process

from rheos.api.environment import Environment
from rheos.cli.benchmarks.programs import PROGRAMS, Load
from rheos.runtimes.job import JobState
from rheos.runtimes.job_handle import JobHandle

WARMUP_S = 5.0
NEARLY_NOTHING = 1e-4
"""Records per second: one is due at once, and the next one after hours."""


def used_s() -> Counter[str]:
    """The processor time up to now of the driver, of its JVM and of the Python workers."""
    own = psutil.Process()
    used: Counter[str] = Counter()
    for process, process_s in by_process(own):
        with contextlib.suppress(psutil.NoSuchProcess):
            kind = "driver" if process == own else "JVM" if process.name() == "java" else "workers"
            used[kind] += process_s
    return used


def measured(handle: JobHandle, seconds: float) -> dict[str, float]:
    """Cores by kind of process."""
    while handle.status().state is not JobState.RUNNING:
        time.sleep(0.1)
    time.sleep(WARMUP_S)
    began, before = time.monotonic(), used_s()
    time.sleep(seconds)
    took, after = time.monotonic() - began, used_s()
    return {kind: (after[kind] - before[kind]) / took for kind in ("driver", "workers", "JVM")}


def run(rate: float, parallelism: int, seconds: float) -> dict[str, float]:
    program = PROGRAMS["grouping"]
    with tempfile.TemporaryDirectory(prefix="rheos-idle-") as folder:
        env = Environment(
            parallelism=parallelism,
            runtime="continuous",
            checkpoint_interval=None,
            buffer_timeout="10ms",
        )
        per_core = max(rate, NEARLY_NOTHING) / parallelism
        program.build(env, Load(parallelism, program.keys, per_core, 16_384, folder))
        handle = env.execute_async("idle")
        try:
            return measured(handle, seconds)
        finally:
            handle.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rates", metavar="RATE", type=float, nargs="*", default=[0, 1_000, 10_000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--parallelism", type=int, default=2)
    asked = parser.parse_args()
    print(f"{'records/s':>10} {'driver':>8} {'workers':>8} {'Rheos':>8} {'JVM':>8}   cores", flush=True)
    for rate in asked.rates:
        cores = run(rate, asked.parallelism, asked.seconds)
        rheos = cores["driver"] + cores["workers"]
        print(
            f"{rate:>10,.0f} {cores['driver']:>8.4f} {cores['workers']:>8.4f} {rheos:>8.4f} "
            f"{cores['JVM']:>8.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
