"""Cost of a compiled turn of a slot with few rows, compared with the interpreted turn.

usage: python -m benchmarks.compiled_turn [ROWS ...] [--rounds N] [--mypyc] [--cython]

Three experiments, each against `benchmarks.turn`, in turns, by processor time:

- **native**: the turn is two native calls around the source's poll and the sink. They hash the keys,
  cut the batch, exchange frames and credits over sockets, look the keys up, and add the rows up. There
  are no barriers, timers, metrics or errors, and only one kind of rows: a lower bound.
- **mypyc** and **cython**: the modules between the poll and the sink are compiled from the same
  sources. Both need minutes, and the packages `mypy[mypyc]`, `cython` and `setuptools`.

All need a C compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compiled_turn.compiling import Compiler, compiled_sources
from rheos.cli.benchmarks.intervals import ratio_cell

ROOT = Path(__file__).parents[2]
INTERPRETED = "interpreted"
NATIVE = "native"


def turn_us(module: str, folder: Path, rows: int) -> float:
    """Return the processor time of a turn in µs, measured in a process of its own."""
    form = ["--form", "pure Python"] if module == "benchmarks.turn" else []
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, str(rows), *form],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.split(":")[1].split()[0])


def main(sizes: Sequence[int], rounds: int, compilers: Sequence[Compiler]) -> None:
    with tempfile.TemporaryDirectory(prefix="rheos-compiled-turn-") as scratch:
        kinds = {INTERPRETED: ("benchmarks.turn", ROOT)}
        kinds[NATIVE] = ("benchmarks.compiled_turn.native_turn", ROOT)
        for compiler in compilers:
            print(f"{compiler.value} compiles for some minutes", flush=True)
            folder = compiled_sources(compiler, ROOT, Path(scratch) / compiler.value)
            kinds[compiler.value] = ("benchmarks.turn", folder)
        print("| rows | turn | µs in each round | share of the interpreted turn |")
        print("|---|---|---|---|")
        for rows in sizes:
            measured: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(rounds):
                for kind, (module, folder) in kinds.items():
                    measured[kind].append(turn_us(module, folder, rows))
            for kind, times in measured.items():
                pairs = list(zip(times, measured[INTERPRETED], strict=True))
                each = ", ".join(f"{time:.0f}" for time in times)
                share = "" if kind == INTERPRETED else ratio_cell(pairs)
                print(f"| {rows} | {kind} | {each} | {share} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=[8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mypyc", action="store_true")
    parser.add_argument("--cython", action="store_true")
    given = parser.parse_args()
    main(
        given.rows or [8],
        given.rounds,
        [compiler for compiler in Compiler if getattr(given, compiler.value)],
    )
