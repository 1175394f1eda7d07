"""Prints the test files nearest to what changed since a git revision, and is not committed yet.

The tests mirror `src/rheos`: nearest to `src/rheos/core/state/timers.py` is
`tests/core/state/test_timers.py`. If there is no file of that name, all tests of that folder are
nearest, and so they are for a helper among the tests. To what all use, at the top of a tree, nothing is
near: that needs the whole suite.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = Path("src/rheos")
TESTS = Path("tests")


def main(revision: str) -> None:
    changed = _git("diff", "--name-only", revision) | _git("ls-files", "--others", "--exclude-standard")
    print("\n".join(sorted({str(test) for test in nearest(map(Path, changed))})))


def nearest(changed: Iterable[Path]) -> Iterator[Path]:
    for path in changed:
        if path.suffix != ".py" or not path.exists():
            continue
        if path.is_relative_to(TESTS):
            if path.name.startswith("test_"):
                yield path
            else:
                yield from _of(path.parent)
        elif path.is_relative_to(SOURCES):
            folder = TESTS / path.relative_to(SOURCES).parent
            named = folder / f"test_{path.stem}.py"
            if named.exists():
                yield named
            else:
                yield from _of(folder)


def _of(folder: Path) -> Iterator[Path]:
    """The tests of the folder, and not of those below it."""
    if folder != TESTS:
        yield from folder.glob("test_*.py")


def _git(*arguments: str) -> set[str]:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


if __name__ == "__main__":
    main(sys.argv[1])
