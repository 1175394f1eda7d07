"""Compares the processor time of seven kernels with that of another commit, in a few minutes.

usage: python -m benchmarks.guard [--against COMMIT] [--rounds N] [--only KERNEL ...]

By default the other commit is the parent of HEAD; or HEAD itself, if files are changed. Each round
does the work of a kernel with both versions, in turns, in processes that live for some rounds. A ratio
is the time of this version divided by that of the other one in the same round. The interval contains
the median ratio with 95 % confidence. A kernel is slower or faster if the whole interval is on that
side, and the median differs from 1 by at least 2 %. The exit code is 1 if a kernel is slower.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.guard_kernels import KERNELS
from rheos.cli.benchmarks.intervals import Interval, median_interval

ROOT = Path(__file__).parents[1]
LEAST = 0.02
"""Smallest difference that counts."""
_CONFIDENCE = 0.95
_ROUNDS_OF_A_PROCESS = 5
"""Rounds after which new processes start: the layout of memory differs between processes."""
_WITHIN_S = 120


class KernelProcess:
    """A process that runs kernels with one version of Rheos."""

    def __init__(self, tree: Path) -> None:
        # The kernels are those of this version; only Rheos itself differs.
        environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.guard_kernels"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tree,
        )

    def measure_ns(self, kernel: str) -> int:
        """Run the kernel once, and return its processor time. Raise SystemExit if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kernel}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the kernel {kernel!r} failed")
        return int(line)

    def close(self) -> None:
        self._process.communicate(timeout=_WITHIN_S)


def ratios(kernels: Sequence[str], trees: tuple[Path, Path], rounds: int) -> dict[str, list[float]]:
    """Return the ratios of all rounds, by kernel."""
    found: dict[str, list[float]] = {kernel: [] for kernel in kernels}
    for first in range(0, rounds, _ROUNDS_OF_A_PROCESS):
        with ExitStack() as undo:
            sides = [KernelProcess(tree) for tree in trees]
            for side in sides:
                undo.callback(side.close)
            for kernel in kernels:
                for side in sides:
                    side.measure_ns(kernel)  # Caches and imports are warm afterwards.
                for number in range(first, min(first + _ROUNDS_OF_A_PROCESS, rounds)):
                    order = (0, 1) if number % 2 == 0 else (1, 0)
                    spent = {side: sides[side].measure_ns(kernel) for side in order}
                    found[kernel].append(spent[0] / spent[1])
    return found


def interval(values: Sequence[float]) -> Interval:
    """Return the median ratio, and an interval that contains it with 95 % confidence.

    Raises:
        ValueError: There are too few rounds.
    """
    found = median_interval(values, _CONFIDENCE)
    if found is None:
        raise ValueError(f"{len(values)} rounds are too few for an interval")
    return found


def verdict(values: Sequence[float]) -> str:
    """Return what the ratios show."""
    found = interval(values)
    if found.low > 1 and found.middle >= 1 + LEAST:
        return "slower"
    if found.high < 1 and found.middle <= 1 - LEAST:
        return "faster"
    return "no difference seen"


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="rheos-guard-") as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", metavar="KERNEL", choices=KERNELS)
    given = parser.parse_args()
    if given.rounds < 6:
        parser.error("at least six rounds are needed for an interval")
    is_changed = bool(_git("status", "--porcelain", "--", "src"))
    commit = _git("rev-parse", "--short", given.against or ("HEAD" if is_changed else "HEAD~1"))
    with checked_out(commit) as other:
        found = ratios(given.only or list(KERNELS), (ROOT, other), given.rounds)
    table = Table("kernel", "processor time", "interval", "", title=f"against {commit}")
    for kernel, values in found.items():
        ratio = interval(values)
        ends = f"{ratio.low:.3f} to {ratio.high:.3f}"
        table.add_row(kernel, f"{ratio.middle:.3f}", ends, verdict(values))
    Console().print(table)
    sys.exit(any(verdict(values) == "slower" for values in found.values()))


if __name__ == "__main__":
    main()
