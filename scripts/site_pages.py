"""What the site has beside the pages of docs/: a hook of mkdocs, which scripts/docs calls.

README, CHANGELOG and CONTRIBUTING are pages, with their links turned. A file outside docs/ that a page
links to is copied beside the pages. The names in the tables of docs/api.md lead to their docstrings, on
a page for each of its sections: so the tables are the one list of what the reference has. The programs
of docs/coming-from.md, one engine's below the other's, become tabs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ABOVE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
ENGINE_BLOCK = re.compile(
    r"^\*\*([^*\n]+)\*\*\n\n(```(?:java|python)\n.*?^```)\n", re.MULTILINE | re.DOTALL
)
"""A program of docs/coming-from.md, with the engine that it is for."""
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
ELSEWHERE = {"col", "lit"}
"""Polars' names: their docstrings are Polars'."""


def on_files(files: Files, config: Any) -> Files:
    for name, page in ABOVE.items():
        files.append(File.generated(config, page, content=_turned(ROOT / name, files, config)))
    for page in [file for file in files.documentation_pages() if file.src_uri not in ABOVE.values()]:
        if page.abs_src_path:
            page.content_string = _turned(Path(page.abs_src_path), files, config)
    for section, names in _sections():
        body = "\n\n".join(f"::: {_path(name)}" + _inherited(name) for name in names)
        files.append(File.generated(config, _page_of(section), content=f"# {section}\n\n{body}\n"))
    return files


def _inherited(name: str) -> str:
    """The option that shows the methods that a class of streams has from its private bases."""
    return "\n    options:\n      inherited_members: true" if "Stream" in name else ""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    if page.file.src_uri == "coming-from.md":
        return ENGINE_BLOCK.sub(_as_tab, markdown)
    if page.file.src_uri != "api.md":
        return markdown
    lines = markdown.split("\n")
    return "\n".join(_with_references(line) if line.startswith("| `") else line for line in lines)


def _as_tab(block: re.Match[str]) -> str:
    """Programs that follow each other are shown one at a time, behind tabs."""
    lines = "\n".join(f"    {line}" if line else "" for line in block[2].split("\n"))
    return f'=== "{block[1]}"\n\n{lines}\n'


def _turned(source: Path, files: Files, config: Any) -> str:
    """The page's text, with its links as they are in the site."""
    uri = ABOVE.get(source.name) if source.parent == ROOT else None
    folder = ROOT / "docs" if uri else source.parent

    def turn(link: re.Match[str]) -> str:
        target = (source.parent / link[2]).resolve()
        if "://" in link[2] or not target.is_file():
            return link[0]
        if target.parent == ROOT and target.name in ABOVE:
            place = ABOVE[target.name]
        elif target.is_relative_to(ROOT / "docs"):
            place = str(target.relative_to(ROOT / "docs"))
        else:
            place = f"repository/{target.relative_to(ROOT)}"
            if files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, abs_src_path=str(target)))
        return f"{link[1]}{os.path.relpath(ROOT / 'docs' / place, folder)}{link[3]}"

    return LINK.sub(turn, source.read_text())


def _sections() -> list[tuple[str, list[str]]]:
    """The sections of docs/api.md, with the names in the first columns of their tables."""
    found = []
    for part in re.split(r"^## ", (ROOT / "docs/api.md").read_text(), flags=re.MULTILINE)[1:]:
        section, _, body = part.partition("\n")
        cells = re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
        names = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
        found.append((section, [name for name in names if name not in ELSEWHERE]))
    return found


def _page_of(section: str) -> str:
    return f"reference/{section.lower().replace(' ', '-')}.md"


def _path(name: str) -> str:
    if name.startswith(("testing.", "connectors.")):
        return f"rheos.{name}"
    return f"rheos.exports.{name}"


def _with_references(row: str) -> str:
    _, names, rest = row.split("|", 2)

    def linked(name: re.Match[str]) -> str:
        return name[0] if name[1] in ELSEWHERE else f"[`{name[1]}`][{_path(name[1])}]"

    return "|".join(["", re.sub(r"`([\w.]+)`", linked, names), rest])
