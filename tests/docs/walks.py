"""Pages that are a walk: files to write, and commands to run in one shell, in order.

A page's programs are those behind `<!-- file: name -->`. A command that ends in `&` starts what runs
beside those that follow.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheos.core.errors import RheosError
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import JobRecord

BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITHIN_S = 400.0


@dataclass(frozen=True)
class Step:
    file: str | None
    code: str


def steps(page: Path) -> list[Step]:
    return [Step(found[1], found[3]) for found in BLOCK.finditer(page.read_text())]


class Shell:
    """A bash for the whole walk, so that variables are kept."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
        )

    def run(self, code: str) -> str:
        """Return the output of the commands; the last of them must succeed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{code}echo "--done-- $?"\n')
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("--done-- "):
                assert line == "--done-- 0\n", f"{code}\n{''.join(lines)}"
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell has ended: {code}")

    def close(self) -> None:
        self._process.communicate()


def has_checkpoint(record: JobRecord) -> bool:
    try:
        status = JobClient(record, 5).status()
        return status.checkpoints_completed > status.earlier.completed
    except RheosError:
        return False


def sections(page: Path) -> list[str]:
    """Return the headings of a page's sections: first "", for what precedes them."""
    return ["", *re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)]


def program_of(
    page: Path, *, section: str | None = None, names: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run the Python blocks of a page as one program, with other names predefined; return what they
    define. A heading selects a section ("" is what precedes the first); by default the whole page is
    run."""
    found = {"__name__": "__main__"} if names is None else names
    text, above = page.read_text(), 0
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        heading = part.partition("\n")[0].removeprefix("## ") if part.startswith("## ") else ""
        if section in (None, heading):
            for block in re.finditer(r"^```python\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
                # Empty lines above it: so errors name the line of the page.
                lines = above + part.count("\n", 0, block.start(1))
                exec(compile("\n" * lines + block[1], str(page), "exec", dont_inherit=True), found)
        above += part.count("\n")
    return found
