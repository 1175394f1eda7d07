"""Compiles the modules of a turn from the sources of Rheos, in a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

MODULES = (
    "core/aggregates/cells",
    "core/aggregates/count",
    "core/aggregates/sum",
    "core/operators/running",
    "core/operators/running_state",
    "core/operators/sink",
    "core/operators/source",
    "core/operators/source_progress",
    "core/operators/source_split",
    "core/protocol/framing",
    "core/protocol/hashing",
    "core/protocol/wire",
    "core/state/key_groups",
    "core/state/key_index",
    "core/state/word_index",
    "core/task/barriers",
    "core/task/batch_cost",
    "core/task/batch_time",
    "core/task/chain",
    "core/task/checkpoints",
    "core/task/commits",
    "core/task/deadlines",
    "core/task/engine",
    "core/task/input_chain",
    "core/task/inputs",
    "core/task/latency",
    "core/task/outputs",
    "core/task/partition",
    "core/task/routing",
    "core/task/slot_metrics",
    "core/task/source_chain",
    "core/task/traffic",
    "core/task/tree",
    "runtimes/continuous/framed_transport",
    "runtimes/continuous/local_transport",
)
"""Modules that take part in a turn, by the profile of `benchmarks.turn`."""

UNFIT_FOR_MYPYC = (
    "core/aggregates/cells",
    "core/aggregates/count",
    "core/aggregates/sum",
    "core/operators/running",
    "core/operators/running_state",
    "core/operators/sink",
    "core/operators/source",
    "core/task/traffic",
)
"""Modules with classes that mypyc compiles, but that fail when they run: dataclasses whose base is
interpreted, enumerations with fields, and classes with bases that are chosen at run time."""

REPLACED = {
    "core/operators/source": [
        ("min([self._waiting_ms, *(state.before for state in states)])",
         "min(list((self._waiting_ms, *(state.before for state in states))))"),
        ("min([*others, self._waiting_ms])", "min(list((*others, self._waiting_ms)))"),
    ],
    "core/protocol/wire": [("HEADER_BYTES = ", "HEADER_BYTES: int = ")],
    "runtimes/continuous/local_transport": [
        ("in (self._subtask, *self._incoming)", "in list((self._subtask, *self._incoming))")
    ],
}  # fmt: skip
"""Expressions that a compiler does not know, by module, with equal ones that it knows."""


class Compiler(Enum):
    MYPYC = "mypyc"
    CYTHON = "cython"


_SETUP = {
    Compiler.MYPYC: """
import sys
from mypyc.build import mypycify
from setuptools import setup
files, sys.argv[4:] = sys.argv[4:], []
options = ["--ignore-missing-imports", "--follow-imports=silent"]
setup(name="turn", ext_modules=mypycify([*options, *files]))
""",
    Compiler.CYTHON: """
import sys
from Cython.Build import cythonize
from setuptools import setup
files, sys.argv[4:] = sys.argv[4:], []
setup(name="turn", ext_modules=cythonize(
    files, language_level=3, compiler_directives={"annotation_typing": False}))
""",
}


def compiled_sources(compiler: Compiler, root: Path, folder: Path) -> Path:
    """Return `folder`, with a copy of Rheos in which the modules of a turn are compiled.

    Args:
        compiler: what compiles them.
        root: folder of the project.
        folder: a folder that does not exist yet.

    Raises:
        SystemExit: they cannot be compiled; with the compiler's message.
    """
    for name in ("src", "benchmarks"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    source = folder / "src"
    for module, pairs in REPLACED.items():
        path = source / "rheos" / f"{module}.py"
        text = path.read_text()
        for old, new in pairs:
            if old not in text:
                raise SystemExit(f"{module} no longer contains {old!r}: change `REPLACED`")
            text = text.replace(old, new)
        path.write_text(text)
    (source / "setup_turn.py").write_text(_SETUP[compiler])
    unfit = UNFIT_FOR_MYPYC if compiler is Compiler.MYPYC else ()
    files = [f"rheos/{module}.py" for module in MODULES if module not in unfit]
    done = subprocess.run(
        [sys.executable, "setup_turn.py", "build_ext", "--inplace", "--quiet", *files],
        cwd=source,
        env=os.environ | {"MYPYPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-4000:])
    return folder
