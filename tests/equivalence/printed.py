"""Output of the programs of a page, and the blocks that show it: "```text title="Output"", each after
its program.

To write them anew: python -m tests.equivalence.printed [PAGE ...]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from unittest.mock import patch

OUTPUT = re.compile(r'^```text title="Output"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
"""A block of output, with its lines."""
PROGRAM = re.compile(r"^```python\n.*?^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def captured(into: list[str]) -> Iterator[None]:
    """Append what the body writes to standard output to `into`."""
    out = StringIO()
    with patch("sys.stdout", out):
        yield
    into.append("".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()))


def with_outputs(text: str, printed: list[str]) -> str:
    """Return the page with the output of its programs, of which `printed` has one string each, in the
    blocks of output. Programs without such a block may print what they like."""
    ends = [program.end() for program in PROGRAM.finditer(text)]
    assert len(ends) == len(printed), "each program has run once"

    def output(block: re.Match[str]) -> str:
        lines = printed[sum(end < block.start() for end in ends) - 1]
        return f'```text title="Output"\n{lines}```'

    return OUTPUT.sub(output, text)


def outputs_of(page: Path) -> list[str]:
    return OUTPUT.findall(page.read_text())


if __name__ == "__main__":
    import os
    import sys
    from tempfile import TemporaryDirectory

    from tests.equivalence import pages

    for name in sys.argv[1:] or [page for page in pages.GOLDENS if outputs_of(pages.ROOT / page)]:
        printed: list[str] = []
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            pages.run(name, "simulated", printed)
        file = pages.ROOT / name
        file.write_text(with_outputs(file.read_text(), printed))
