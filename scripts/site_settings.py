"""Links from a setting that a page names to its entry on the page of settings: a hook of mkdocs.

The first mention in each section becomes a link. A mention is the name of a setting in code, such as
`checkpoint_dir` or `checkpoint_dir="..."`. Code blocks, headings and existing links stay as they are.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/settings.md"
ENTRY = re.compile(r"^\| `([\w.]+)`", re.MULTILINE)
"""Row of a setting in the tables of that page."""
AMBIGUOUS = {"state", "spark"}
"""Settings whose names also mean other things on the pages."""
FENCE = re.compile(r"^ *(```|~~~)")
KEPT = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\](?:\([^)]*\)|\[[^\]]*\])|``.*?``)")
"""Links and longer code, which have no mentions."""
CODE = re.compile(r"`([\w.]+)(?:=[^`\n]*)?`")


@cache
def settings() -> frozenset[str]:
    """Return the names of the settings that have an entry."""
    return frozenset(ENTRY.findall(PAGE.read_text()))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    path = page.file.src_uri
    if path == "settings.md":
        return anchored(markdown)
    if path == "api.md" or path.startswith("reference/"):
        return markdown
    return linked(markdown, os.path.relpath("settings.md", os.path.dirname(path) or "."))


def anchored(markdown: str) -> str:
    """Return the page of settings with an anchor at each entry."""
    return ENTRY.sub(lambda entry: f"{entry[0]}{{ #{entry[1]} }}", markdown)


def linked(markdown: str, target: str) -> str:
    """Return a page with links to `target`, the path of the page of settings."""
    lines, seen, in_code = [], set[str](), False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        elif line.startswith("#") and not in_code:
            seen.clear()
        elif not in_code and not line.startswith("    "):
            line = "".join(
                part if place % 2 else _linked(part, target, seen)
                for place, part in enumerate(KEPT.split(line))
            )
        lines.append(line)
    return "\n".join(lines)


def _linked(text: str, target: str, seen: set[str]) -> str:
    def link(code: re.Match[str]) -> str:
        name = code[1]
        if name not in settings() - AMBIGUOUS or name in seen:
            return code[0]
        seen.add(name)
        return f"[{code[0]}]({target}#{name})"

    return CODE.sub(link, text)
