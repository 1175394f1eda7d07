"""A plain Python function in several Pythons: the function of the state machine in a bare loop.

Each interpreter runs the same loop in a process of its own, in turns. An interpreter is a command, such
as `pypy3`, `python3.14t` or `"env PYTHON_JIT=1 python3.14"`. Two threads have twice the records: the
time per record falls if the interpreter uses two cores.

columns:
    one thread      processor time per record in ns, and its ratio to the first interpreter
    two threads     wall time per record with two threads, compared with one thread

usage: python -m benchmarks.interpreters [--rounds N] [--records N] [INTERPRETER ...]
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell
from rheos.cli.benchmarks.state_machine import INITIAL, RULES

LOOP = Path(__file__).with_name("interpreter_loop.py")
LIMIT_S = 300
VERSION = """
import platform, sys, sysconfig
free = " without a global lock" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
jit = getattr(sys, "_jit", None)
print(platform.python_implementation(), platform.python_version() + free + (
    " with its JIT" if jit is not None and jit.is_enabled() else ""))
"""


def version(interpreter: str) -> str:
    """Return the name and version of an interpreter."""
    found = subprocess.run(
        [*shlex.split(interpreter), "-c", VERSION],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return found.stdout.strip()


def spent(interpreter: str, records: int, threads: int) -> dict[str, float]:
    """Return the processor time and the wall time per record."""
    rules = [[state, kind, following] for (state, kind), following in RULES.items()]
    found = subprocess.run(
        [*shlex.split(interpreter), str(LOOP), str(records), str(threads)],
        input=json.dumps({"initial": INITIAL, "rules": rules}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    times: dict[str, float] = json.loads(found.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("interpreters", nargs="*", metavar="INTERPRETER")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--records", type=int, default=1_000_000)
    asked = parser.parse_args()
    interpreters = [sys.executable, *asked.interpreters]
    for each in interpreters:
        if shutil.which(shlex.split(each)[0]) is None:
            parser.error(f"{each}: there is no such program")
    names = {each: version(each) for each in interpreters}
    one: defaultdict[str, list[float]] = defaultdict(list)
    pairs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(asked.rounds):
        for each in interpreters:
            alone, both = (spent(each, asked.records, threads) for threads in (1, 2))
            one[each].append(alone["cpu_ns"])
            pairs[each].append((both["wall_ns"], alone["wall_ns"]))
    print("| interpreter | one thread, ns | ratio to the first | two threads to one |")
    print("|---|---|---|---|")
    for each in interpreters:
        ratio = ratio_cell(list(zip(one[each], one[sys.executable], strict=True)))
        cells = [names[each], cell(one[each], "{:.0f}".format), ratio, ratio_cell(pairs[each])]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
