"""Every Python block of the README and the guide runs: a page's blocks in order, as one program.

Blocks run simulated, whatever runtime they would choose, as that is quick; those behind the comment
`<!-- runs: as written -->` run on the runtime that they say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rheos.api.overrides import Overrides, applied

ROOT = Path(__file__).parents[2]
AS_WRITTEN = "<!-- runs: as written -->"
BLOCK = re.compile(rf"^({AS_WRITTEN}\n)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    line: int
    """Of the page, above the block's first."""
    code: str
    as_written: bool


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block(text.count("\n", 0, found.start(2)), found[2], found[1] is not None)
        for found in BLOCK.finditer(text)
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_the_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        # Empty lines above it: so errors name the line of the page.
        code = compile("\n" * block.line + block.code, str(ROOT / page), "exec", dont_inherit=True)
        with applied(Overrides(runtime=None if block.as_written else "simulated")):
            exec(code, names)


def test_no_block_is_overlooked() -> None:
    for page in ("README.md", "docs/guide.md"):
        assert len(blocks(page)) == (ROOT / page).read_text().count("```python") > 0
