"""Functions of the documentation, the examples and tutorials that are compiled automatically.

usage: compiled_share.py [FILE ...]

`tutorial_functions.py` has keyed functions as tutorials write them; its share is printed separately.
Each page and each example is run up to its jobs, statement by statement; a statement that needs what a
job would have returned, or that waits for a server, is left out. For every Python function that the
program adds to a stream, this prints "compiled", or the line that prevents it, and at the end the share
and the reasons by number.
Left out are functions of batches and coroutines, which compilation would not speed up, and those of
libraries.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import linecache
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import rheos as rh
from rheos.api.program import Program
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.nodes import Node, StreamType
from rheos.core.operators.broadcast_process import BroadcastProcessSpec
from rheos.core.operators.call import CallSpec
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.operators.map import MapSpec
from rheos.core.operators.plain_process import PlainProcessSpec
from rheos.core.operators.process import ProcessSpec
from rheos.core.operators.reduce import ReduceSpec

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "benchmarks/tutorial_functions.py"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A Python function of a program."""

    file: str
    line: int
    kind: str
    name: str
    refusal: Refusal | None


OTHERS = (
    MapSpec,
    FilterFunctionSpec,
    CallSpec,
    PlainProcessSpec,
    BroadcastProcessSpec,
    KeyedCoProcessSpec,
    ReduceSpec,
)
"""Kinds whose specification has the form of the function."""

_LEFT_OUT = ("map_batches", "map_async", "call_once")

_CHECKED_EVERY_S = 2.0
_LEAST_WORK = 0.1
"""Share of processor time below which a statement counts as waiting for a server."""


class NotRun(Exception):  # noqa: N818 - it is no error that a job is not run
    """Raised in place of a job."""


def functions(file: Path) -> Iterator[Found]:
    """Return the functions that the programs of a page, or of an example, add to streams."""
    nodes: list[tuple[Node, Refusal | None]] = []
    add = Program.add

    def noted(program: Program, spec: Any, **options: Any) -> Node:
        node = add(program, spec, **options)
        # Decided now, because a later program of the page may define the same names.
        nodes.append((node, _refusal(node, [program.type_of(port) for port in node.inputs])))
        return node

    def refused(*_: Any, **__: Any) -> Any:
        raise NotRun

    with (
        patch.object(Program, "add", noted),
        patch.object(rh.Environment, "execute", refused),
        patch.object(SparkSession.Builder, "getOrCreate", refused),
    ):
        _run(file)
    seen = set()
    for node, refusal in nodes:
        fn = getattr(node.spec, "fn", None)
        owner = fn if isinstance(fn, FunctionType) else type(fn)
        vectorised = node.spec.kind in _LEFT_OUT or isinstance(fn, KeyedBatchFunction)
        own = owner.__module__.startswith("rheos.")
        if fn is None or vectorised or own or (node.site.line, node.name, type(fn)) in seen:
            continue
        seen.add((node.site.line, node.name, type(fn)))
        shown = str(file.relative_to(ROOT))
        yield Found(shown, node.site.line, node.spec.kind, node.name, refusal)


def _run(file: Path) -> None:
    text = file.read_text()
    parts = [(0, text)]
    if file.suffix == ".md":
        parts = [(text.count("\n", 0, found.start(1)), found[1]) for found in BLOCK.finditer(text)]
        _keep_code_alone(file, parts)
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(file)}
    for above, code in parts:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(code).body:
                ast.increment_lineno(statement, above)
                module = ast.Module([statement], [])
                with contextlib.suppress(Exception, SystemExit), _while_it_works():
                    exec(compile(module, str(file), "exec", dont_inherit=True), names)


@contextlib.contextmanager
def _while_it_works() -> Iterator[None]:
    """Raise NotRun in a block that only waits."""
    worked_s = time.process_time()

    def check(*_: Any) -> None:
        nonlocal worked_s
        before_s, worked_s = worked_s, time.process_time()
        if worked_s - before_s < _LEAST_WORK * _CHECKED_EVERY_S:
            raise NotRun

    replaced = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, _CHECKED_EVERY_S, _CHECKED_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, replaced)


def _keep_code_alone(file: Path, parts: list[tuple[int, str]]) -> None:
    """Let `inspect` find the programs of a page at their lines, and nothing else: a page as a whole is
    not Python, so no source of a lambda would be found in it."""
    lines = ["\n"] * (file.read_text().count("\n") + 1)
    for above, code in parts:
        with contextlib.suppress(SyntaxError):
            ast.parse(code)
            own = code.splitlines(keepends=True)
            lines[above : above + len(own)] = own
    linecache.cache[str(file)] = (len(lines), None, lines, str(file))


def _refusal(node: Node, types: list[StreamType]) -> Refusal | None:
    spec = node.spec
    if isinstance(spec, OTHERS):
        if spec.automatic is None:
            return Refusal(f"functions of {spec.kind} that return several values are not compiled")
        return spec.automatic if isinstance(spec.automatic, Refusal) else None
    if not isinstance(spec, ProcessSpec):
        return Refusal(f"functions of {spec.kind} are not compiled", node.site)
    outputs: Mapping[str, EmittedType] = {
        tag: EmittedType(type.schema, type.record) for tag, type in node.outputs.items()
    }
    typing = Typing(types[0].schema, node.inputs[0].keys, spec.record, types[0].event_time, outputs)
    found = compilable_methods(spec.fn, typing)
    return found if isinstance(found, Refusal) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    files = [file.resolve() for file in given.files] or [
        *pages,
        *sorted((ROOT / "examples").glob("*.py")),
        TUTORIALS,
    ]
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for file in files:
            with contextlib.redirect_stdout(io.StringIO()):
                found += functions(file)
    for each in found:
        print(f"{each.file}:{each.line}: {each.kind} {each.name}: {each.refusal or 'compiled'}")
    reasons = Counter(each.refusal.what for each in found if each.refusal is not None)
    print()
    for what, count in reasons.most_common():
        print(f"{count:4} {what}")
    tutorials = str(TUTORIALS.relative_to(ROOT))
    _print_share("of pages and examples", [each for each in found if each.file != tutorials])
    _print_share("of tutorials", [each for each in found if each.file == tutorials])
    of_one = [each for each in found if each.kind == ProcessSpec.kind]
    _print_share("of one keyed stream", of_one)


def _print_share(which: str, found: list[Found]) -> None:
    compiled = sum(each.refusal is None for each in found)
    share = compiled / max(1, len(found))
    print(f"{compiled} of {len(found)} functions {which} are compiled: {share:.0%}")


if __name__ == "__main__":
    main()
