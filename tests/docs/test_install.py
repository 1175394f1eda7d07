"""docs/install.md lists every extra, and the badges of the README state what pyproject.toml does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_DEVELOPERS = {"bench", "docs", "dev"}


def test_every_extra_is_listed() -> None:
    cells = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs/install.md").read_text(), re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`([a-z0-9]+)`", cell)}
    assert listed == set(PROJECT["optional-dependencies"]) - OF_DEVELOPERS


def test_the_extra_all_has_every_other_one() -> None:
    extras = PROJECT["optional-dependencies"]
    (listed,) = extras["all"]
    named = set(re.findall(r"\w+", listed)) - {"rheos"}
    # A compiler is large, and most machines have one.
    assert named == set(extras) - OF_DEVELOPERS - {"all", "native"}


def test_the_badges_are_current() -> None:
    badges = (ROOT / "docs/images/badges.svg").read_text()
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", badges)
    python = PROJECT["requires-python"].removeprefix(">=")
    (spark,) = re.findall(r"pyspark>=([\d.]+)", " ".join(PROJECT["dependencies"]))
    license = PROJECT["license"].replace("-", " ")
    assert shown[1::2] == [PROJECT["version"], f"{python}+", f"{spark}+", license]


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text()
    anchors = {}
    for heading in re.finditer(r"^(##+) (.+)$", text, re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-")
        # Up to the next heading that is not below this one.
        anchors[anchor] = re.split(rf"\n#{{2,{len(heading[1])}}} ", text[heading.end() :])[0]
    links = re.findall(r"\[([^\]]*)\]\(docs/benchmarks\.md#([^)]*)\)", (ROOT / "README.md").read_text())
    assert len(links) > 4
    for text, anchor in links:
        for figure in re.findall(r"\d[\d.,]*", text):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", anchors[anchor]), (
                text,
                anchor,
            )
