"""The diagrams of docs/images: hand-written SVG that is readable on a phone, in light and dark mode."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

IMAGES = Path(__file__).parents[2] / "docs/images"
DIAGRAMS = sorted(path for path in IMAGES.glob("*.svg") if path.stem not in {"badges", "logo", "mark"})
SVG = "{http://www.w3.org/2000/svg}"
WIDTH = 480
"""Units of a diagram's width. A phone shows them in about 350 pixels."""
SMALLEST_FONT = 13
"""Units. On a phone these are 9.5 pixels."""


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.stem)
def test_an_image_has_a_title_and_refers_to_nothing_outside(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    assert root.find(f"{SVG}title") is not None or root.get("aria-label")
    text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|href|@import|<script|<image|<foreignObject", text)


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_a_diagram_is_described_and_its_text_is_large_enough(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    description = root.findtext(f"{SVG}desc") or ""
    assert len(description.split()) > 20
    _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    assert width == WIDTH
    sizes = re.findall(r"(?:font:|font-size:) *([\d.]+)px", path.read_text())
    assert sizes
    assert min(map(float, sizes)) >= SMALLEST_FONT
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height


def test_pictures_are_small() -> None:
    """Check pictures that `scripts/pictures` takes."""
    sizes = {path.stem: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert set(sizes) >= {"dashboard", "why", "debug", "notebook"}
    assert max(sizes.values()) <= 150_000


def test_diagrams_share_one_style_with_both_colour_schemes() -> None:
    styles = {re.search(r"<style>.*?</style>", path.read_text(), re.DOTALL)[0] for path in DIAGRAMS}  # type: ignore[index]
    assert len(styles) == 1
    assert "prefers-color-scheme: dark" in styles.pop()
    assert len(DIAGRAMS) >= 8
