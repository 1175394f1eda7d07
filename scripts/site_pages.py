"""Pages of the site that are not in docs/: a hook of mkdocs, which scripts/docs calls.

README, CHANGELOG and CONTRIBUTING become pages, with their links rewritten. A file outside docs/ that
a page links to is copied next to the pages. Names in the tables of docs/api.md link to their
docstrings, on one page for each section: so these tables are the only list of the reference. In
docs/coming-from.md, each program of Rheos is shown next to those of other engines, which become tabs.
The first page leaves out what the README says to readers of a checkout.
Search ranks pages by `RANKS`.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ABOVE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
ENGINE_BLOCK = r"\*\*[^*\n]+\*\*\n\n```(?:java|python)\n(?:.*\n)*?```\n"
ENGINE_BLOCKS = re.compile(rf"^{ENGINE_BLOCK}(?:\n{ENGINE_BLOCK})*", re.MULTILINE)
"""Programs of docs/coming-from.md that follow each other, each with the engine that it is for."""
RANKS = {
    "decisions/": 0.02,
    "protocols/": 0.02,
    "benchmarks/": 0.02,
    "CHANGELOG.md": 0.002,
    "CONTRIBUTING.md": 0.05,
    "tour.md": 0.05,
    "architecture.md": 0.1,
    "internals.md": 0.1,
    "equivalence.md": 0.1,
    "tested-with.md": 0.2,
    "simulation.md": 0.1,
    "benchmarks.md": 0.1,
    "nexmark.md": 0.1,
    "coming-from.md": 0.2,
    "reference/": 0.1,
}
"""Weight of a page in the search, by the beginning of its path; 1 for all others."""
LINK = re.compile(r"""(\]\(|src=")([^)"\s#]+)((?:#[^)"\s]*)?[)"])""")
IN_THE_REPOSITORY = re.compile(
    r"^<!-- only in the repository -->\n.*?^<!-- everywhere -->\n", re.MULTILINE | re.DOTALL
)
CODE_IN_A_ROW = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
"""Code with an escaped pipe, which GitHub needs in a table, and the site shows as it is."""
WIDE = {"index.md", "coming-from.md"}
"""Pages without the navigation on the left: wide tables, or two programs next to each other."""
ELSEWHERE = {"col", "lit"}
"""Polars' names: their docstrings are Polars'."""


def on_config(config: Any) -> Any:
    """Take the link to the repository from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.repo_url = config.repo_url or project.get("urls", {}).get("Repository")
    config.repo_name = "Repository"  # By default the name of a known host.
    return config


def on_files(files: Files, config: Any) -> Files:
    for name, page in ABOVE.items():
        files.append(File.generated(config, page, content=_turned(ROOT / name, files, config)))
    for page in [file for file in files.documentation_pages() if file.src_uri not in ABOVE.values()]:
        if page.abs_src_path:
            page.content_string = _turned(Path(page.abs_src_path), files, config)
    for section, text, names in _sections():
        text = re.sub(r"\]\((?!https?:|/)", "](../", text)
        body = "\n\n".join(f"::: {_path(name)}" + _inherited(name) for name in names)
        content = f"# {section}\n\n{text}\n\n{body}\n"
        files.append(File.generated(config, _page_of(section), content=content))
    return files


def _inherited(name: str) -> str:
    """The option that shows the methods that a class of streams has from its private bases."""
    return "\n    options:\n      inherited_members: true" if "Stream" in name else ""


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    path = page.file.src_uri
    if rank := next((rank for start, rank in RANKS.items() if path.startswith(start)), None):
        page.meta["search"] = {"boost": rank}
    if path in WIDE:
        page.meta["hide"] = ["navigation"]
    markdown = CODE_IN_A_ROW.sub(lambda code: code[0].replace(r"\|", "|"), markdown)
    if path == "coming-from.md":
        return ENGINE_BLOCKS.sub(_side_by_side, markdown)
    if path != "api.md":
        return markdown
    lines = markdown.split("\n")
    return "\n".join(_with_references(line) if line.startswith("| `") else line for line in lines)


def _side_by_side(blocks: re.Match[str]) -> str:
    """The program of Rheos, and next to it those of the other engines behind tabs."""
    programs = dict(re.findall(r"\*\*([^*\n]+)\*\*\n\n(```(?:.*\n)*?```)\n", blocks[0]))
    own = {name: programs.pop(name) for name in list(programs) if name == "Rheos"}
    sides = "".join(
        f'<div markdown="1">\n{"".join(_tab(*each) for each in side.items())}\n</div>\n'
        for side in (own, programs)
        if side
    )
    return f'<div class="side-by-side" markdown="1">\n{sides}</div>\n'


def _tab(name: str, program: str) -> str:
    lines = "\n".join(f"    {line}" if line else "" for line in program.split("\n"))
    return f'\n=== "{name}"\n\n{lines}\n'


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

    return LINK.sub(turn, IN_THE_REPOSITORY.sub("", source.read_text()))


def _sections() -> list[tuple[str, str, list[str]]]:
    """Return the sections of docs/api.md: title, text above the table, names in its first column."""
    found = []
    for part in re.split(r"^## ", (ROOT / "docs/api.md").read_text(), flags=re.MULTILINE)[1:]:
        section, _, body = part.partition("\n")
        cells = re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
        names = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
        text = body.partition("\n| ")[0].strip()
        found.append((section, text, [name for name in names if name not in ELSEWHERE]))
    return found


def _page_of(section: str) -> str:
    return f"reference/{section.lower().replace(' ', '-')}.md"


def _path(name: str) -> str:
    if name.startswith(("testing.", "connectors.")):
        return f"rheos.{name}"
    return f"rheos.api.exports.{name}"


def _with_references(row: str) -> str:
    _, names, rest = row.split("|", 2)

    def linked(name: re.Match[str]) -> str:
        return name[0] if name[1] in ELSEWHERE else f"[`{name[1]}`][{_path(name[1])}]"

    return "|".join(["", re.sub(r"`([\w.]+)`", linked, names), rest])
